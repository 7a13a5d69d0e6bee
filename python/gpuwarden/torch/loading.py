# SPDX-License-Identifier: Apache-2.0
"""Settings of a DataLoader by what this process may use: processors, shared memory, a GPU. Without PyTorch."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional

__all__ = ["LoaderSettings", "available_cpus", "loader_settings", "shared_memory_bytes"]

#: Workers beyond these seldom help one rank, and each holds a copy of the dataset. A bound of our own.
_MOST_WORKERS = 16
#: Of /dev/shm that batches may fill; NCCL and others want some, too.
_SHARE_OF_SHM = 0.5


def _read(path: Path) -> Optional[str]:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _quota(text: Optional[str]) -> Optional[float]:
    """Processors of a cpu.max: "400000 100000" are 4; "max" is no limit."""
    words = (text or "").split()
    if len(words) != 2 or words[0] == "max":
        return None
    try:
        quota, period = float(words[0]), float(words[1])
    except ValueError:
        return None
    return quota / period if period > 0 and quota > 0 else None


def _cgroup_cpus(root: Path) -> Optional[float]:
    """The least quota of this process's cgroup and those above it, in processors."""
    found: list[float] = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":
            base = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            base = root / "sys/fs/cgroup" / controllers
            base = base if base.is_dir() else root / "sys/fs/cgroup/cpu"
        else:
            continue
        parts = [part for part in group.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            folder = base.joinpath(*parts[:depth])
            quota = _quota(_read(folder / "cpu.max"))
            if quota is None:
                quota = _quota(f"{_read(folder / 'cpu.cfs_quota_us') or ''} {_read(folder / 'cpu.cfs_period_us') or ''}")
            if quota is not None:
                found.append(quota)
    return min(found) if found else None


def _cpu_list(text: Optional[str]) -> set[int]:
    """The processors of "0-3,8"."""
    cpus: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def _ranks_here(environment: Mapping[str, str]) -> int:
    ranks = environment.get("LOCAL_WORLD_SIZE", "")
    return int(ranks) if ranks.isdigit() and int(ranks) > 0 else 1


def available_cpus(*, numa_node: Optional[int] = None, root: str = "/", environment: Optional[Mapping[str, str]] = None) -> int:
    """Processors for this rank, at least 1: what the scheduler lets the process run on (of one NUMA node, where given and
    where that leaves any), not above the quota of its cgroup and those around it, divided by LOCAL_WORLD_SIZE.

    root, environment: another machine's files and variables, for tests.
    """
    base = Path(root)
    environment = os.environ if environment is None else environment
    allowed = _cpu_list(_allowed_list(base)) or (set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set())
    count = len(allowed) or os.cpu_count() or 1
    if numa_node is not None and numa_node >= 0:
        near = allowed & _cpu_list(_read(base / f"sys/devices/system/node/node{numa_node}/cpulist"))
        if near:
            # Ranks of other nodes have processors of their own there.
            return max(1, min(len(near), _limited(count, base) // _ranks_here(environment)))
    return max(1, _limited(count, base) // _ranks_here(environment))


def _allowed_list(base: Path) -> Optional[str]:
    for line in (_read(base / "proc/self/status") or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return line.partition(":")[2].strip()
    return None


def _limited(count: int, base: Path) -> int:
    quota = _cgroup_cpus(base)
    return count if quota is None else min(count, max(1, math.ceil(quota)))


def shared_memory_bytes(path: str = "/dev/shm") -> Optional[int]:
    """Free bytes of the shared memory through which workers hand batches on; None where there is none."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True)
class LoaderSettings:
    """Arguments of a DataLoader, with the reason for each. `DataLoader(dataset, **settings.arguments())`."""

    num_workers: int
    pin_memory: bool
    prefetch_factor: Optional[int]  #: None without workers
    persistent_workers: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """What a DataLoader takes; PyTorch before 2.0 refuses prefetch_factor=None."""
        arguments: dict[str, Any] = {"num_workers": self.num_workers, "pin_memory": self.pin_memory}
        if self.num_workers > 0:
            arguments["prefetch_factor"] = self.prefetch_factor
            arguments["persistent_workers"] = self.persistent_workers
        return arguments


def _sample_bytes(dataset: Any) -> Optional[int]:
    """Bytes of the dataset's first sample, where it can be asked for one."""
    try:
        sample = dataset[0]
    except Exception:
        return None
    return _bytes_of(sample) or None


def _bytes_of(value: Any) -> int:
    if hasattr(value, "element_size") and hasattr(value, "numel"):
        return int(value.numel() * value.element_size())
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(_bytes_of(item) for item in value.values())
    if isinstance(value, (tuple, list)):
        return sum(_bytes_of(item) for item in value)
    return 8 if isinstance(value, (int, float)) else 0


def _on_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_available())


def loader_settings(dataset: Any = None, *, batch_size: int = 1, batch_bytes: Optional[int] = None, gpu: Optional[bool] = None,
                    numa_node: Optional[int] = None, root: str = "/", environment: Optional[Mapping[str, str]] = None,
                    shm_bytes: Optional[int] = None) -> LoaderSettings:  # fmt: skip
    """Settings of a DataLoader for this rank.

    dataset: its first sample tells how large a batch of `batch_size` is; `batch_bytes` tells it directly.
    gpu: whether batches go to a GPU (pinned memory); None: whether PyTorch, if loaded, sees one.
    numa_node: the GPU's, where its processors alone are to work for it.
    root, environment, shm_bytes: another machine's, for tests.
    """
    reasons: list[str] = []
    warnings: list[str] = []
    cpus = available_cpus(numa_node=numa_node, root=root, environment=environment)
    # One processor is left for the rank itself.
    workers = min(max(cpus - 1, 0 if cpus == 1 else 1), _MOST_WORKERS)
    reasons.append(f"num_workers {workers}: this rank may use {cpus} CPU{'s' if cpus > 1 else ''}, one of them for itself")
    prefetch = 2
    if batch_bytes is None and dataset is not None:
        one = _sample_bytes(dataset)
        batch_bytes = one * batch_size if one is not None else None
    free = shared_memory_bytes() if shm_bytes is None else shm_bytes
    if workers and batch_bytes and free is not None:
        room = int(free * _SHARE_OF_SHM / batch_bytes)
        if workers * prefetch > room:
            fitting = max(room // prefetch, 1 if room >= 1 else 0)
            prefetch = prefetch if room >= prefetch else 1
            warnings.append(f"/dev/shm has {free >> 20} MiB free, and {workers} workers would fill it with batches of {batch_bytes / 2**20:.1f} MiB: num_workers {workers} -> {fitting} (docker run --shm-size=8g, or --ipc=host)")
            workers = fitting
    on_gpu = _on_gpu() if gpu is None else gpu
    reasons.append("pin_memory True: copies to the GPU run beside its work" if on_gpu else "pin_memory False: no GPU is used")
    if workers:
        reasons.append(f"prefetch_factor {prefetch}: batches that each worker has ready")
        reasons.append("persistent_workers True: workers start once, not with each epoch")
    return LoaderSettings(workers, on_gpu, prefetch if workers else None, workers > 0, tuple(reasons), tuple(warnings))
