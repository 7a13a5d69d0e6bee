#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `gpuwarden plan`'s ranges hold what strangers measured, and how wide they are.

  planner_fresh.py --program build/release/bin/gpuwarden [--table FILE] [--half even|odd] [--rows]
                   [--from TEXT | --not-from TEXT]

The table has columns id, kind, measured, unit and command_tried (a plan's words). It defaults to
planner/fresh_2026_11.csv in the folder that GPUWARDEN_CORPUS names. --half takes every second row of each kind, counted
over the whole table, so that what is chosen on one half can be judged by the other; --from and --not-from part them by
publisher (a part of url), which is the harder test: rows of one publisher are alike.
"""
from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
UNITS = {"GiB": GIB, "GB": 1e9, "MiB": 2**20}


@dataclass
class Answer:
    """One row beside what the plan says, in bytes, tokens or tokens a second and GPU."""

    name: str
    kind: str
    measured: float
    low: float
    expected: float
    high: float

    @property
    def inside(self) -> bool:
        return self.low <= self.measured <= self.high

    @property
    def error(self) -> float:
        return self.expected / self.measured - 1

    @property
    def width(self) -> float:
        return self.high / self.low if self.low > 0 else float("inf")


def plan(program: str, words: str) -> dict | str:
    """The plan's JSON, or why there is none."""
    done = subprocess.run([program, *shlex.split(words), "--json"], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit {done.returncode}"


def serving_ends(pool: dict, name: str) -> tuple[float, float, float]:
    """Low, expected and high of a figure of an engine's pool."""
    value = pool[name]
    return pool.get(name + "_low", value), value, pool.get(name + "_high", value)


def ends_of(row: dict, answer: dict) -> tuple[float, float, float] | None:
    """What the plan says of the row's kind."""
    memory, pool = answer["per_gpu"], answer["serving"]
    if row["kind"] in ("train", "inference"):
        return memory["low_bytes"], memory["expected_bytes"], memory["high_bytes"]
    if row["kind"] == "speed":
        speed = answer["throughput"]
        if not speed:
            return None
        gpus = answer["gpus"]["count"]
        return tuple(speed[f"{end}_tokens_per_second"] / gpus for end in ("low", "expected", "high"))
    if row["kind"] == "weights":
        return serving_ends(pool or inference_pool(memory), "weights_bytes")
    tokens = row["unit"] == "tokens"
    return serving_ends(pool or inference_pool(memory), "tokens" if tokens else "cache_bytes")


def inference_pool(memory: dict) -> dict:
    """Weights and cache of a plan without an engine."""
    parts = {line["name"]: line["bytes"] for line in memory["components"]}
    found = {"weights_bytes": parts.get("weights", 0), "cache_bytes": parts.get("kv_cache", 0)}
    return found


def judge(program: str, row: dict) -> Answer | str:
    """The row beside its plan, or why it cannot be told."""
    if not row["command_tried"]:
        return "no command"
    answer = plan(program, row["command_tried"])
    if isinstance(answer, str):
        return answer
    if row["kind"] == "fits":
        right = (answer["verdict"] != "does_not_fit") == (row["measured"] == "fits")
        return Answer(row["id"], "fits", 1, 1 if right else 2, 1, 1 if right else 2)
    ends = ends_of(row, answer)
    if ends is None:
        return "no speed is told: it does not fit"
    measured = float(row["measured"]) * UNITS.get(row["unit"], 1)
    return Answer(row["id"], row["kind"], measured, *ends)


def is_from(row: dict, publisher: str, others: str) -> bool:
    """Whether the row's url has the one text, if any, and not the other. A table may have no such column."""
    url = row.get("url") or ""
    return publisher in url and not (others and others in url)


def show(kind: str, answers: list[Answer], refused: int) -> None:
    inside = sum(answer.inside for answer in answers)
    errors = [abs(answer.error) for answer in answers]
    bias = statistics.median(answer.error for answer in answers)
    width = statistics.median(answer.width for answer in answers)
    print(
        f"{kind:<8} {len(answers):>3} rows  {inside:>3} inside  median |error| {statistics.median(errors):6.1%}"
        f"  bias {bias:+6.1%}  high/low {width:5.2f}  refused {refused}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--half", choices=("even", "odd"))
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--from", dest="publisher", default="", help="only rows whose url has this")
    parser.add_argument("--not-from", dest="others", default="", help="only rows whose url has not this")
    options = parser.parse_args()
    table = options.table or Path(os.environ.get("GPUWARDEN_CORPUS", ".")) / "planner" / "fresh_2026_11.csv"
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if (options.publisher or options.others) and rows and "url" not in rows[0]:
        sys.exit(f"error: {table} has no column url, which --from and --not-from look at")
    seen: dict[str, int] = {}
    answers: dict[str, list[Answer]] = {}
    refused: dict[str, int] = {}
    for row in rows:
        kind = row["kind"]
        index = seen[kind] = seen.get(kind, -1) + 1  # of all rows: a filter leaves each in its half
        if not is_from(row, options.publisher, options.others):
            continue
        if options.half and index % 2 != (options.half == "odd"):
            continue
        result = judge(options.program, row)
        if isinstance(result, str):
            refused[kind] = refused.get(kind, 0) + 1
            print(f"  {row['id']:<4} {kind:<8} refused: {result}  [{row.get('setting', '')[:60]}]")
            continue
        answers.setdefault(kind, []).append(result)
        if options.rows and kind != "fits":
            unit = GIB if result.measured > 1e8 else 1
            print(
                f"  {result.name:<4} {kind:<8} {result.low / unit:>10.2f} {result.expected / unit:>10.2f}"
                f" {result.high / unit:>10.2f}  measured {result.measured / unit:>10.2f} {result.error:+7.1%}"
                f" {'' if result.inside else 'OUTSIDE'}  {row.get('setting', '')[:70]}"
            )
        elif kind == "fits" and not result.inside:
            print(f"  {result.name:<4} fits     wrong: {row.get('setting', '')[:80]} is {row['measured']}")
    for kind, found in answers.items():
        show(kind, found, refused.get(kind, 0))
    every = [answer for found in answers.values() for answer in found]
    memory = [answer.width for answer in every if answer.kind not in ("speed", "fits")]
    if memory:
        print(f"memory, all kinds: median high/low {statistics.median(memory):.2f}")
    print(f"all      {len(every):>3} rows  {sum(answer.inside for answer in every):>3} inside")
    return 0


if __name__ == "__main__":
    sys.exit(main())
