#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Lists rows of knowledge/*.csv that were last checked too long ago, and where to look.
"""knowledge_check.py [--months N] [--today YYYY-MM-DD] [--rows] [--undated] [FOLDER]

Prints, for each first source of rows that were last held against it more than N months ago (6), how many rows of
which table they are and what to look at; --rows names every row with its line and all its sources. A line for each table that has rows without as_of;
--undated lists them too. Ends with 1 where a row is old, 2 where there are no tables.
"""
from __future__ import annotations

import argparse
import csv
import datetime
import os
import pathlib
import sys
from collections.abc import Iterator


def months_between(date: datetime.date, today: datetime.date) -> int:
    """Whole months from `date` to `today`."""
    return (today.year - date.year) * 12 + today.month - date.month - (today.day < date.day)


def date_of(text: str) -> datetime.date:
    """A day, or the first day of a month ("2026-11"); raises ValueError on anything else."""
    return datetime.date.fromisoformat(text if text.count("-") > 1 else text + "-01")


def name_of(row: dict[str, str]) -> str:
    """The first three filled values, which name a row in every table."""
    return " ".join([value for value in list(row.values())[:3] if value])


def rows_of(file: pathlib.Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows with the number of the line on which each ends."""
    with file.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        for row in reader:
            yield reader.line_num, {key: value or "" for key, value in row.items() if isinstance(key, str)}


def age_of(as_of: str, today: datetime.date) -> int | None:
    """Months since then; None where it is no date."""
    try:
        return months_between(date_of(as_of), today)
    except ValueError:
        return None


def told_age(as_of: str, age: int | None) -> str:
    """"as of 2026-03, 8 months ago"."""
    return f"as_of '{as_of}' is not a date" if age is None else f"as of {as_of}, {age} months ago"


def check(file: pathlib.Path, options: argparse.Namespace) -> int:
    """Prints what is to be looked at in a table; how many of its rows are old or have no date that can be read."""
    groups: dict[tuple[str, str], list[str]] = {}
    undated: list[str] = []
    for line, row in rows_of(file):
        source = row.get("source") or "(no source)"
        place = f"{file.name}:{line}: {name_of(row)}"
        as_of = row.get("as_of", "").strip()
        if not as_of:
            undated.append(f"{place}: no as_of; look at {source}")
            continue
        age = age_of(as_of, options.today)
        if age is not None and age <= options.months:
            continue
        told = told_age(as_of, age)
        groups.setdefault((told, source.split(";")[0].strip()), []).append(f"{place}: {told}; look at {source}")
    for (told, source), places in groups.items():
        if options.rows:
            print("\n".join(places))
        else:
            count = "1 row" if len(places) == 1 else f"{len(places)} rows"
            print(f"{file.name}: {count} {told}; look at {source}")
    if undated and options.undated:
        print("\n".join(undated))
    elif undated:
        print(f"{file.name}: {len(undated)} rows without as_of (--undated lists them)")
    return sum(len(places) for places in groups.values())


def main() -> int:
    parser = argparse.ArgumentParser(description="lists rows of knowledge/*.csv that were last checked too long ago")
    parser.add_argument("folder", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "knowledge")
    parser.add_argument("--months", type=int, default=6)
    parser.add_argument("--today", type=datetime.date.fromisoformat, default=datetime.date.today())
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--undated", action="store_true")
    options = parser.parse_args()
    files = sorted(options.folder.glob("*.csv"))
    if not files:
        print(f"error: no tables in '{options.folder}'", file=sys.stderr)
        return 2
    old = sum(check(file, options) for file in files)
    print(f"{old} rows are older than {options.months} months")
    return 1 if old else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # "| head" has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
