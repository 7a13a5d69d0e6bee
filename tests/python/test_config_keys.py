# SPDX-License-Identifier: Apache-2.0
"""Each of the 14 keys of GPUConfig changes something that can be seen."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuwarden
from gpuwarden import _gpu_torch
from gpuwarden import gpu as g


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")  # is put back afterwards
        monkeypatch.delenv(name)
    with gpuwarden.Machine(simulate="h100x8") as machine:
        yield machine


def managed(manager: g.GPUManager) -> Any:
    return [one.gpu for one in manager.cuda_manager.get_devices()]


def plan(manager: g.GPUManager) -> dict[str, Any]:
    found: dict[str, Any] = manager.get_status()["optimization"]
    return found


def idle_after_use(manager: g.GPUManager) -> int:
    memory = manager.memory_manager
    memory.deallocate(memory.allocate(256 << 20))
    return int(memory.get_status()["idle_bytes"])


def limit_gib(manager: g.GPUManager) -> int:
    manager.memory_manager.allocate(1)  # opens the device
    return int(manager.memory_manager.get_status()["limit_bytes"]) >> 30


def profiled(manager: g.GPUManager) -> list[str]:
    with manager.profile_operation("of_this_test"):
        pass
    return [one["name"] for one in manager.get_status()["operations"] if one["name"] == "of_this_test"]


def set_up(manager: g.GPUManager) -> Any:
    setup = manager.setup_distributed()
    return setup["backend"], any("nccl" in note or "CUDA" in note for note in setup["notes"])


AGGRESSIVE = {"optimization_level": "aggressive"}
#: The key, what is given besides, a value with what is seen then, and another one.
EFFECTS: list[tuple[str, dict[str, Any], Callable[[g.GPUManager], Any], tuple[Any, Any], tuple[Any, Any]]] = [
    ("device_ids", {}, managed, (None, [0, 1, 2, 3, 4, 5, 6, 7]), ([5, 2], [5, 2])),
    ("memory_fraction", {}, limit_gib, (None, 79), (0.5, 39)),
    ("optimization_level", {}, lambda m: (plan(m)["inference_mode"], plan(m)["compile_mode"]), ("none", (False, None)), ("experimental", (True, "max-autotune"))),
    ("precision", {}, lambda m: plan(m)["precision"], ("int8", "int8"), ("fp16", "fp16")),
    ("enable_amp", {"precision": "mixed"}, lambda m: plan(m)["autocast"], (True, "bfloat16"), (False, None)),
    ("enable_compile", AGGRESSIVE, lambda m: plan(m)["compile"], (True, True), (False, False)),
    ("enable_channels_last", {}, lambda m: plan(m)["channels_last"], (True, True), (False, False)),
    ("enable_memory_pooling", {}, lambda m: idle_after_use(m) > 0, (True, True), (False, False)),
    ("enable_monitoring", {}, lambda m: m.performance_monitor.running, (True, True), (False, False)),
    ("allocation_strategy", {}, lambda m: m.memory_manager.get_status()["allocation_strategy"], ("greedy", "greedy"), ("steady", "steady")),
    ("max_memory_cache_ratio", {"memory_fraction": 0.01}, lambda m: idle_after_use(m) > 0, (1.0, True), (0.0, False)),
    ("enable_profiling", {}, profiled, (True, ["of_this_test"]), (False, [])),
    ("distributed_backend", {}, set_up, ("gloo", ("gloo", False)), ("nccl", ("gloo", True))),
    ("enable_distributed", {}, lambda m: (m.get_status()["distributed"] is not None, "MASTER_PORT" in os.environ), (True, (True, True)), (False, (False, False))),
]  # fmt: skip
@pytest.mark.parametrize(("key", "besides", "seen", "one", "other"), EFFECTS, ids=[row[0] for row in EFFECTS])
def test_the_key_has_an_effect(fleet: Any, key: str, besides: dict[str, Any], seen: Any, one: Any, other: Any) -> None:
    if key == "distributed_backend" and _gpu_torch.cuda_available():
        pytest.skip("torch sees CUDA: nccl it is")
    for value, expected in (one, other):
        os.environ.pop("MASTER_PORT", None)
        with g.GPUManager({"enable_monitoring": False, **besides, key: value}, machine=fleet) as manager:
            assert seen(manager) == expected


def test_every_key_is_in_the_table() -> None:
    assert [row[0] for row in EFFECTS] == list(g.GPUConfig().to_dict())
