# SPDX-License-Identifier: Apache-2.0
"""What this process holds of each GPU's memory, and what a block of code does to it."""

from __future__ import annotations

import gc
import json
import os
import sys
from types import TracebackType
from typing import Any

from gpuwarden import _core
from gpuwarden._find_torch import import_torch
from gpuwarden._machine import Machine, default_machine

_GB = 1024**3


class CUDAMemoryManager:
    """What this process holds of each GPU's memory: tensors (allocated) and the allocator's cache with them (cached)."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.memory_snapshots: list[dict[str, Any]] = []
        self._machine = machine

    def optimize_memory_usage(self) -> dict[str, Any]:
        """Collects garbage and gives PyTorch's cached memory back to the device. Returns freed_gb, objects_collected,
        and expandable_segments: whether PyTorch's allocator will use them, which can be set before CUDA starts only."""
        collected = gc.collect()
        torch = started_torch()
        freed = 0
        if torch is not None:
            count = range(torch.cuda.device_count())
            before = sum(torch.cuda.memory_reserved(device) for device in count)
            torch.cuda.empty_cache()
            freed = before - sum(torch.cuda.memory_reserved(device) for device in count)
        elif _core.started_cuda_devices() is None:
            os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        setting = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        return {
            "freed_gb": freed / _GB,
            "objects_collected": collected,
            "expandable_segments": "expandable_segments:true" in setting.lower(),
        }

    def get_memory_status(self) -> dict[str, Any]:
        """{"device_count", "simulated", "devices": [...]}; with "error" in it, and no devices, where there is no GPU.

        A device has device_id, name, total_memory_gb, allocated_gb and cached_gb (of this process), free_gb (on the device
        now, whoever holds the rest), utilization_percent (allocated of total), compute_capability, multiprocessor_count.
        """
        machine = self._machine or default_machine()
        status = json.loads(machine._core.memory_status([]))
        facts = machine.snapshot().to_dict()
        if not facts["gpus"]:
            problem = facts.get("problem")
            why = f"CUDA not available: {problem['message'] if problem else 'no GPU was found'}"
            return {"error": why, "device_count": 0, "devices": [], "simulated": facts["simulated"]}
        by_torch = _torch_memory(machine)
        rows = {gpu["index"]: gpu for gpu in status["gpus"]}
        devices = [_memory_of(gpu, rows.get(gpu["index"], {}), by_torch.get(gpu["index"])) for gpu in facts["gpus"]]
        return {"device_count": len(devices), "simulated": facts["simulated"], "devices": devices}

    def monitor_memory_usage(self, operation_name: str = "") -> MemoryMonitor:
        """A context manager that prints what its block did to each GPU's memory: "Allocated: a -> b (+d)"."""
        return MemoryMonitor(self, operation_name)

    def _log_memory_usage(self, operation: str, start: dict[str, Any], end: dict[str, Any]) -> None:
        print(f"\n=== Memory Usage Report: {operation} ===" + (" (simulated GPUs)" if end.get("simulated") else ""))
        if "error" in end:
            print(end["error"])
        before = {device["device_id"]: device for device in start["devices"]}
        for device in end["devices"]:
            earlier = before.get(device["device_id"], device)
            print(f"GPU {device['device_id']} ({device['name']}):")
            print(f"  Allocated: {_change_of(earlier['allocated_gb'], device['allocated_gb'])}")
            print(f"  Cached: {_change_of(earlier['cached_gb'], device['cached_gb'])}")
            shares = [_percent(one["utilization_percent"]) for one in (earlier, device)]
            print(f"  Utilization: {shares[0]} -> {shares[1]}")


class MemoryMonitor:
    """What monitor_memory_usage() gives: start_memory and end_memory are statuses of get_memory_status()."""

    def __init__(self, manager: CUDAMemoryManager, name: str) -> None:
        self.manager = manager
        self.name = name
        self.start_memory: dict[str, Any] | None = None
        self.end_memory: dict[str, Any] | None = None

    def __enter__(self) -> MemoryMonitor:
        self.start_memory = self.manager.get_memory_status()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_memory = self.manager.get_memory_status()
        start = self.start_memory or self.end_memory
        self.manager.memory_snapshots.append({"operation": self.name, "start": start, "end": self.end_memory})
        self.manager._log_memory_usage(self.name, start, self.end_memory)


def monitor_memory(name: str = "") -> MemoryMonitor:
    """`with monitor_memory("load model"): ...` prints what the block did to each GPU's memory, "a -> b (+d)"."""
    return CUDAMemoryManager().monitor_memory_usage(name)


# ---- what they share


def find_torch() -> Any:
    """PyTorch; None where it is not installed or cannot be imported: import_torch() says which."""
    return import_torch()[0]


def started_torch() -> Any:
    """PyTorch where it has started CUDA in this process; else None. Imports nothing."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized() else None


def capability_of(gpu: dict[str, Any]) -> str | None:
    capability = gpu.get("compute_capability")
    return f"{capability['major']}.{capability['minor']}" if capability else None


def in_gb(size: int | None) -> float | None:
    return None if size is None else size / _GB


def share_of(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _torch_memory(machine: Machine) -> dict[int, tuple[int, int]]:
    """Allocated and reserved bytes by GPU, where PyTorch has started CUDA in this process."""
    torch = started_torch()
    if torch is None or machine._core.simulated:
        return {}
    from gpuwarden.distributed import _ordinals

    numbers = {int(gpu): number for gpu, number in _ordinals(machine).items() if number is not None}
    return {gpu: (torch.cuda.memory_allocated(it), torch.cuda.memory_reserved(it)) for gpu, it in numbers.items()}


def _memory_of(gpu: dict[str, Any], row: dict[str, Any], by_torch: tuple[int, int] | None) -> dict[str, Any]:
    memory = gpu["memory"]
    allocated, cached = by_torch or _published(row)
    return {
        "device_id": gpu["index"],
        "name": gpu["name"],
        "total_memory_gb": in_gb(memory["total_bytes"]),
        "allocated_gb": in_gb(allocated),
        "cached_gb": in_gb(cached),
        "free_gb": in_gb(memory["free_bytes"]),
        "utilization_percent": share_of(allocated, memory["total_bytes"]),
        "compute_capability": capability_of(gpu),
        "multiprocessor_count": gpu.get("multiprocessors"),
    }


def _published(row: dict[str, Any]) -> tuple[int | None, int | None]:
    """What this process's pools tell, else what the driver lists for it, else nothing where the list is complete."""
    pools = [pool for pool in row.get("pools", []) if pool["pid"] == os.getpid()]
    if pools:
        return sum(pool["live_bytes"] for pool in pools), sum(pool["reserved_bytes"] for pool in pools)
    processes = row.get("processes")
    if processes is None:
        return None, None
    own = [process["memory_bytes"] for process in processes if process["pid"] == os.getpid()]
    if any(size is None for size in own):
        return None, None
    return sum(own), sum(own)


def _change_of(start: float | None, end: float | None) -> str:
    if start is None or end is None:
        return "not known"
    return f"{start:.2f}GB -> {end:.2f}GB ({end - start:+.2f}GB)"


def _percent(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1f}%"
