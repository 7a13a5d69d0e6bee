# SPDX-License-Identifier: Apache-2.0
"""The doctor says the same of a text from Python as on the command line."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest

import gpuwarden
from gpuwarden import _core

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus"
MIXED = """torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
[rank1]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled system error
"""


def by_command(*files: pathlib.Path, words: tuple[str, ...] = ()) -> Any:
    """What the command line says; the message where it refuses."""
    program = os.path.join(_core.native_folder(), "bin", "gpuwarden")
    done = subprocess.run([program, "doctor", "--json", "--from", ",".join(map(str, files)), *words],
                          capture_output=True, text=True, check=False, timeout=60)
    return json.loads(done.stdout) if done.returncode in (0, 1) else done.stderr


def by_python(*files: pathlib.Path, **options: Any) -> Any:
    try:
        with gpuwarden.Machine(capture=files) as machine:
            return machine.doctor(**options).to_dict()
    except gpuwarden.Error as error:
        return error


def assert_same(*files: pathlib.Path) -> None:
    typed, called = by_command(*files), by_python(*files)
    if isinstance(called, gpuwarden.Error):
        assert isinstance(typed, str) and called.message in typed, files
    else:
        assert called == typed, files


@pytest.mark.parametrize("folder", ["doctor", "captures"])
def test_texts_of_the_corpus_are_judged_alike(folder: str) -> None:
    files = sorted(file for file in (CORPUS / folder).rglob("*") if file.suffix in (".txt", ".csv", ".xml", ".json"))
    assert len(files) > 20
    for file in files[::3]:
        assert_same(file)


def test_what_messages_say_stands_beside_the_facts(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "paste.txt"
    file.write_text(MIXED)
    assert_same(file)
    with gpuwarden.Machine(capture=file) as machine:
        assert "diagnose:oom_capacity" in [finding.id for finding in machine.doctor().findings]


def test_a_log_alone_is_examined_and_has_no_gpus_to_tell_of(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(MIXED.splitlines()[0] + "\n")
    assert_same(log)
    with gpuwarden.Machine(capture=log) as machine:
        assert machine.doctor().findings[0].id.startswith("diagnose:")
        assert "train.log" in repr(machine) and not machine.simulated
        for look in (machine.snapshot, machine.select, machine.survey, machine.compat):
            with pytest.raises(gpuwarden.Error, match="a log of a failure") as caught:
                look()
            assert caught.value.code == "corrupt"


def test_several_texts_are_of_one_machine(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(MIXED.splitlines()[0] + "\n")
    assert_same(CORPUS / "doctor" / "3090x8-565-cu128.txt", log)


def test_an_inventory_is_compared_with(tmp_path: pathlib.Path) -> None:
    inventory = tmp_path / "site.yaml"
    inventory.write_text("gpus:\n  - {count: 3, model: RTX 3090}\n")
    box = CORPUS / "doctor" / "3090x8-565-cu128.txt"
    called = by_python(box, expect=inventory)
    assert called == by_command(box, words=("--expect", str(inventory)))
    assert any(finding["id"].startswith("expected:") for finding in called["findings"])
    assert "site.yaml" in str(by_python(box, expect=tmp_path / "site.yaml.missing"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, []),
        ({"question": "torch==2.5.1"}, ["torch==2.5.1"]),
        ({"question": "torch==2.5.1", "driver": "535"}, ["torch==2.5.1", "--driver", "535"]),
        ({"driver": "470"}, ["--driver", "470"]),
        ({"question": "cu128", "gpus": ["H100"]}, ["cu128", "--gpu", "H100"]),
        ({"question": "cu128", "on": "2030-01"}, ["cu128", "--on", "2030-01"]),
    ],
)
def test_compat_is_asked_about_the_same_place(asked: dict[str, Any], words: list[str]) -> None:
    box = CORPUS / "doctor" / "3090x8-565-cu128.txt"
    program = os.path.join(_core.native_folder(), "bin", "gpuwarden")
    done = subprocess.run([program, "compat", *words, "--json", "--from", str(box)], capture_output=True, text=True, check=False, timeout=60)
    with gpuwarden.Machine(capture=box) as machine:
        assert machine.compat(**asked).to_dict() == json.loads(done.stdout)


def test_a_wrong_day_is_named() -> None:
    with pytest.raises(gpuwarden.Error, match="on: "):
        gpuwarden.Machine(capture=CORPUS / "doctor" / "3090x8-565-cu128.txt").compat("cu128", on="soon")
