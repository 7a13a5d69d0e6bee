# SPDX-License-Identifier: Apache-2.0
"""What `gpuwarden run` and `select` have options for, Python has arguments for, and they mean the same."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import gpuwarden
from gpuwarden import _core

FLEET = "h100x8"
#: Of the command line alone: what is printed, other hosts, Slurm, files that are read or written for a shell.
OF_THE_SHELL = {
    "select": {"config", "explain", "export", "from", "index", "interactive", "json", "uuid"},
    "run": {"config", "end_leftovers", "no_report", "post_mortem", "quiet", "report"},
}
COMMON = {"simulate", "json", "timeout", "probe", "wake", "color", "help", "knowledge"}


def command(*words: str) -> str:
    program = os.path.join(_core.native_folder(), "bin", "gpuwarden")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60).stdout


def options_of(name: str) -> set[str]:
    text = command(name, "--help")
    text = re.sub(r"\non (other hosts|a Slurm cluster):\n.*?\n(?=common options)", "\n", text, flags=re.DOTALL)
    found = re.findall(r"^ +(?:-\w )?--([a-z][a-z-]+)", text, re.MULTILINE)
    return {option.replace("-", "_") for option in found} - COMMON - OF_THE_SHELL[name]


@pytest.mark.parametrize("name", ["select", "run"])
def test_every_option_is_an_argument(name: str) -> None:
    options = options_of(name)
    assert {"num_gpus", "min_memory", "device", "priority"} <= options
    with gpuwarden.simulate(FLEET):
        for option in options:
            # No value of any of them: it is refused, or read and not liked, but known.
            try:
                if name == "select":
                    gpuwarden.select(**{option: {"no": "value"}})
                else:
                    gpuwarden.run(["true"], **{option: {"no": "value"}})
            except gpuwarden.Error as error:
                assert "there is no such argument" not in error.message, option


WISHES: list[tuple[dict[str, Any], list[str]]] = [
    ({"count": 2}, ["-n", "2"]),
    ({"num_gpus": "2:4"}, ["-n", "2:4"]),
    ({"count": "6:9"}, ["-n", "6:9"]),
    ({"gpu_ids": "0-2"}, ["--gpu-ids", "0-2"]),
    ({"gpu_ids": [1, "3"]}, ["--gpu-ids", "1,3"]),
    ({"device": "cuda:3"}, ["--device", "cuda:3"]),
    ({"cpu": True}, ["--device", "cpu"]),
    ({"all": True, "exclude": [0, 1]}, ["--all", "--exclude", "0,1"]),
    ({"min_free_memory": 40 << 30, "max_utilization_percent": 50}, ["--min-free-memory", "40GiB", "--max-utilization", "50"]),
    ({"min_memory": "900GiB"}, ["--min-memory", "900GiB"]),
    ({"model": "llama-3.1-8b", "task": "lora", "micro_batch": 1}, ["--model", "llama-3.1-8b", "--task", "lora", "--micro-batch", "1"]),
    ({"model_size": "7B", "strategy": "single"}, ["--model-size", "7B", "--strategy", "single"]),
]


@pytest.mark.parametrize(("wished", "typed"), WISHES, ids=[str(row[0]) for row in WISHES])
def test_wishes_mean_what_options_mean(wished: dict[str, Any], typed: list[str]) -> None:
    answer = json.loads(command("select", "--simulate", FLEET, "--json", *typed))
    with gpuwarden.simulate(FLEET):
        called = gpuwarden.select(**wished)
    indices = [device["index"] for device in answer["selected"]]
    assert [device.index for device in called.selected] == indices
    assert (called.satisfied, called.missing) == (answer["satisfied"], answer["missing"])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"min_free_memory": "40"}, "min_free_memory: 40 has no unit, and would be bytes"),
    ({"max_utilization": "50.5"}, "max_utilization: '50.5' is not a whole number from 0 to 100"),
    ({"nmu_gpus": 1}, "nmu_gpus: there is no such argument (did you mean num_gpus?)"),
    ({"heal": True}, "heal needs max_restarts"),
    ({"straggler": "restart"}, "straggler restart needs max_restarts"),
    ({"hang_timeout": "0.1s"}, "hang_timeout: at least a second"),
    ({"ranks": "some"}, "ranks: 'some' is not"),
    ({"nproc_per_node": "some"}, "nproc_per_node: 'some' is not"),
    ({"log_dir": "/tmp", "log_directory": "/tmp"}, "log_dir and log_directory mean the same"),
    ({"time_limit": "90"}, "time_limit: 90 has no unit"),
    ({"time_limit": 0}, "time_limit must be greater than 0"),
]


@pytest.mark.parametrize(("wished", "said"), REFUSED, ids=[row[1] for row in REFUSED])
def test_a_refusal_names_the_argument_as_it_was_given(wished: dict[str, Any], said: str) -> None:
    with gpuwarden.simulate(FLEET), pytest.raises(gpuwarden.Error) as caught:
        gpuwarden.run(["true"], **wished)
    assert caught.value.code == "invalid_argument"
    assert said in f"{caught.value.message} ({caught.value.hint})"


def test_a_job_is_started_again(tmp_path: Path) -> None:
    script = f"echo $GPUWARDEN_RESTART_COUNT $* >> {tmp_path}/tries; [ $GPUWARDEN_RESTART_COUNT = 2 ]"
    with gpuwarden.simulate(FLEET):
        report = gpuwarden.run(["sh", "-c", script, "sh"], max_restarts=5, restart_delay=0.001, restart_arg=["--resume", "yes,no"])
    assert report.exit_code == 0
    assert len(report.attempts) == 2
    assert (tmp_path / "tries").read_text() == "0\n1 --resume yes,no\n2 --resume yes,no\n"


def test_a_job_has_its_time() -> None:
    with gpuwarden.simulate(FLEET):
        began = time.monotonic()
        assert gpuwarden.run(["sleep", "60"], time_limit=0.5, grace=5).exit_code == 124
        assert time.monotonic() - began < 30


def test_each_rank_has_a_gpu_and_a_log(tmp_path: Path) -> None:
    with gpuwarden.simulate(FLEET):
        report = gpuwarden.run(["sh", "-c", "echo rank $RANK on $CUDA_VISIBLE_DEVICES"], nproc_per_node=2, one_gpu_per_rank=True,
                               numa_binding="node", log_dir=tmp_path, redirects=3, record=tmp_path / "gpus.db", role="trainer")
    assert report.exit_code == 0 and len(report.gpus) == 2
    assert (tmp_path / "gpus.db").exists()
    with gpuwarden.simulate(FLEET), pytest.raises(gpuwarden.Error) as caught:
        gpuwarden.run(["true"], record=tmp_path / "gpus.db")
    assert caught.value.hint.startswith("name another file with record, ")
    said = sorted(file.read_text() for file in tmp_path.rglob("*") if file.is_file() and file.suffix == ".out")
    assert len(said) == 2 and said[0].startswith("rank 0 on GPU-") and "," not in said[0]


def test_the_cpu_is_where_a_job_falls_back_to() -> None:
    with gpuwarden.simulate(FLEET):
        report = gpuwarden.run(["sh", "-c", 'test -z "$CUDA_VISIBLE_DEVICES"'], count=9, cpu_fallback=True)
    assert report.exit_code == 0
    assert any("running on the CPU" in warning for warning in report.warnings)


def test_control_c_ends_a_job_in_its_pause() -> None:
    def interrupt() -> None:
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGINT)

    with gpuwarden.simulate(FLEET):
        threading.Thread(target=interrupt).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            gpuwarden.run(["false"], max_restarts=3, restart_delay="10m")
        assert time.monotonic() - began < 20
        assert not gpuwarden.leases().leases


def test_the_signals_of_the_program_stay_its_own() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with gpuwarden.simulate(FLEET):
        gpuwarden.run(["sh", "-c", "[ $GPUWARDEN_RESTART_COUNT = 1 ]"], max_restarts=1, restart_delay=0.001)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
