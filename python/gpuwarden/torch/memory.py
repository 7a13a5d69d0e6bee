# SPDX-License-Identifier: Apache-2.0
"""PyTorch's memory: what it holds, a limit, gpuwarden's pool under PyTorch, and pools for parts of a program."""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Iterator

from ._common import error, first_line, load_torch, version

__all__ = [
    "MemoryStatus",
    "PoolScope",
    "memory_fraction",
    "memory_pool",
    "memory_status",
    "memory_summary",
    "pool_status",
    "use_pool",
]

#: PyTorch's setters, and what they are given. Without these hooks PyTorch frees tensors that another stream still uses
#: (record_stream), and gives a graph's memory to others.
_HOOKS = {
    "set_init_fn": "gpuwarden_init",
    "set_reset_fn": "gpuwarden_reset",
    "set_memory_fraction_fn": "gpuwarden_memory_fraction",
    "set_base_alloc_fn": "gpuwarden_base_alloc",
    "set_record_stream_fn": "gpuwarden_record_stream",
    "set_begin_allocate_to_pool": "gpuwarden_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "gpuwarden_end_allocate_to_pool",
    "set_release_pool": "gpuwarden_release_pool",
}
_FIGURES = (
    "reserved",
    "peak_reserved",
    "live",
    "peak_live",
    "cached",
    "largest_free",
    "limit",
    "live_blocks",
    "allocations",
    "frees",
    "driver_calls",
    "out_of_memory",
    "device_total",
    "device_free",
)


class _PoolStatus(ctypes.Structure):
    """gpuwarden_pool_status of gpuwarden/memory.h."""

    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in _FIGURES]


#: The library of use_pool(); kept, for PyTorch calls into it until the process ends.
_pool: Any = None


@dataclass(frozen=True)
class MemoryStatus:
    """Of PyTorch's allocator on one device, in bytes; None where PyTorch does not tell."""

    device: str
    allocator: str  #: "pytorch", "gpuwarden", or "none" where PyTorch uses no GPU
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    inactive_split_bytes: int | None = None  #: free parts of blocks in use: fragmentation
    allocation_retries: int | None = None  #: times that the cache was emptied to satisfy a request
    out_of_memory_errors: int | None = None
    device_free_bytes: int | None = None
    device_total_bytes: int | None = None
    note: str = ""  #: why figures are missing

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def _cuda_device(torch: Any, device: Any) -> Any:
    """The device with its number, or None and no CUDA started where PyTorch sees no GPU. Raises Error
    (invalid_argument)."""
    if not torch.cuda.is_available():
        return None
    try:
        found = torch.device("cuda", device) if isinstance(device, int) else torch.device("cuda" if device is None else device)
    except (RuntimeError, TypeError) as problem:
        raise error("invalid_argument", f"unknown device {device!r}: {first_line(problem)}", "cuda, cuda:1, 1") from problem
    if found.type != "cuda":
        return None
    index = torch.cuda.current_device() if found.index is None else found.index
    if index >= torch.cuda.device_count():
        raise error("invalid_argument", f"there is no CUDA device {index}", f"PyTorch sees {torch.cuda.device_count()}")
    return torch.device("cuda", index)


def memory_status(device: Any = None) -> MemoryStatus:
    """What PyTorch's allocator holds on `device` (a torch.device, "cuda:1", 1; None: the current one). Where PyTorch
    sees no GPU every figure is None and `note` says so; nothing is started by asking. Raises Error: unavailable without
    PyTorch, invalid_argument for a device that is not there."""
    torch = load_torch()
    place = _cuda_device(torch, device)
    if place is None:
        return MemoryStatus(
            "cpu",
            "none",
            note="PyTorch sees no GPU" if not torch.cuda.is_available() else "the CPU has no allocator of PyTorch",
        )
    if _pool is not None:
        return _status_of_pool(place)
    if not torch.cuda.is_initialized():
        return MemoryStatus(str(place), "pytorch", 0, 0, 0, 0, note="PyTorch has not used CUDA yet")
    try:
        stats = torch.cuda.memory_stats(place)
    except RuntimeError as problem:
        return MemoryStatus(str(place), "unknown", note=f"this allocator keeps no statistics: {first_line(problem)}")
    free, total = _device_memory(torch, place)
    return MemoryStatus(
        str(place),
        "pytorch",
        stats.get("allocated_bytes.all.current"),
        stats.get("reserved_bytes.all.current"),
        stats.get("allocated_bytes.all.peak"),
        stats.get("reserved_bytes.all.peak"),
        stats.get("inactive_split_bytes.all.current"),
        stats.get("num_alloc_retries"),
        stats.get("num_ooms"),
        free,
        total,
    )


def _device_memory(torch: Any, place: Any) -> tuple[int | None, int | None]:
    try:
        free, total = torch.cuda.mem_get_info(place)
    except RuntimeError:
        return None, None
    return int(free), int(total)


def _status_of_pool(place: Any) -> MemoryStatus:
    figures = pool_status(place.index)
    if figures is None:
        return MemoryStatus(str(place), "gpuwarden", 0, 0, 0, 0, note="the pool has not been used on this device yet")
    return MemoryStatus(
        str(place),
        "gpuwarden",
        figures["live"],
        figures["reserved"],
        figures["peak_live"],
        figures["peak_reserved"],
        figures["reserved"] - figures["live"],
        None,
        figures["out_of_memory"],
    )


def memory_fraction(fraction: float, device: Any = None) -> int:
    """PyTorch may use at most this share of the device's memory from now on; returns the bytes. It caps PyTorch's
    allocator (or the pool under it) alone: other libraries in the process are not held. Raises Error: invalid_argument
    unless 0 < fraction <= 1, unavailable without a GPU."""
    torch = load_torch()
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 < fraction <= 1:
        raise error("invalid_argument", f"a memory fraction is above 0 and at most 1, not {fraction!r}")
    place = _cuda_device(torch, device)
    if place is None:
        raise error("unavailable", "PyTorch sees no GPU whose memory could be limited")
    torch.cuda.set_per_process_memory_fraction(float(fraction), place)
    return int(fraction * torch.cuda.get_device_properties(place).total_memory)


def _pool_library(library: Any) -> str:
    if library is not None:
        return os.fspath(library)
    named = os.environ.get("GPUWARDEN_TORCH_LIBRARY")
    if named:
        return named
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_native" / "lib", package / "lib"):
        if (folder / "libgpuwarden_torch.so").exists():
            return str(folder / "libgpuwarden_torch.so")
    return "libgpuwarden_torch.so"


def use_pool(library: str | os.PathLike[str] | None = None) -> None:
    """Makes gpuwarden's pool PyTorch's allocator for the rest of the process. Before CUDA is used; PyTorch 2.3 or
    later. `library`: libgpuwarden_torch.so, else GPUWARDEN_TORCH_LIBRARY, the package's own, or the loader's. What the
    pool heeds stands in the environment (GPUWARDEN_MEMORY_STRATEGY, GPUWARDEN_GPU_MEM_LIMIT, ...: docs/memory.md).

    Raises Error: unavailable where PyTorch, a GPU or the library is missing, failed where CUDA was used before."""
    global _pool
    torch = load_torch()
    if _pool is not None:
        return
    if version(torch) < (2, 3):
        raise error("unavailable", f"PyTorch {torch.__version__} cannot use gpuwarden's pool", "2.3 or later can")
    path = _pool_library(library)
    try:
        loaded = ctypes.CDLL(path)
        symbols = {setter: ctypes.cast(getattr(loaded, symbol), ctypes.c_void_p).value for setter, symbol in _HOOKS.items()}
    except (OSError, AttributeError) as problem:
        raise error(
            "unavailable",
            f"gpuwarden's library for PyTorch cannot be used: {problem}",
            "name it in GPUWARDEN_TORCH_LIBRARY (libgpuwarden_torch.so)",
        ) from problem
    if not torch.cuda.is_available():
        raise error("unavailable", "PyTorch sees no GPU to put the pool on")
    if torch.cuda.is_initialized():
        raise error(
            "failed",
            "CUDA has been used, so PyTorch's allocator can no longer be changed",
            "call use_pool() right after `import torch`",
        )
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "gpuwarden_malloc", "gpuwarden_free")
    inner = allocator.allocator()
    missing = [setter for setter in _HOOKS if not hasattr(inner, setter)]
    if missing:
        raise error("unavailable", f"PyTorch {torch.__version__} has no {', '.join(missing)}", "2.3 or later has")
    for setter, address in symbols.items():
        getattr(inner, setter)(address)
    torch.cuda.memory.change_current_allocator(allocator)
    _pool = loaded


def pool_status(device: int = 0) -> dict[str, int] | None:
    """Figures of gpuwarden's pool on a CUDA device, in bytes and counts (gpuwarden_pool_status of gpuwarden/memory.h,
    without the device's own memory); None where the pool is not in use there."""
    if _pool is None:
        return None
    status = _PoolStatus(size=ctypes.sizeof(_PoolStatus))
    if not _pool.gpuwarden_memory_status(int(device), ctypes.byref(status)):
        return None
    return {name: int(getattr(status, name)) for name in _FIGURES if not name.startswith("device_")}


def _words(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**20:.1f} MiB"


def memory_summary(device: Any = None) -> str:
    """What PyTorch's allocator, or gpuwarden's pool under it, holds on a device: a small table to read."""
    status = memory_status(device)
    lines = [f"{status.device}: allocator {status.allocator}" + (f" ({status.note})" if status.note else "")]
    for label, now, peak in (
        ("allocated", status.allocated_bytes, status.peak_allocated_bytes),
        ("reserved", status.reserved_bytes, status.peak_reserved_bytes),
    ):
        lines.append(f"  {label:<11}{_words(now):>14}   peak {_words(peak)}")
    lines.append(f"  {'idle':<11}{_words(_idle(status)):>14}   of it split {_words(status.inactive_split_bytes)}")
    lines.append(f"  {'device':<11}{_words(status.device_total_bytes):>14}   free {_words(status.device_free_bytes)}")
    figures = pool_status(int(status.device.split(":")[1])) if status.device.startswith("cuda:") else None
    if figures is not None:
        lines.append(f"  {'limit':<11}{_words(figures['limit']):>14}   largest free {_words(figures['largest_free'])}")
        lines.append(
            f"  {figures['live_blocks']} blocks live; {figures['allocations']} allocations, {figures['frees']} frees, "
            f"{figures['driver_calls']} driver calls"
        )
    failures = [
        f"{value} {name}"
        for name, value in (("retries", status.allocation_retries), ("out-of-memory errors", status.out_of_memory_errors))
        if value
    ]
    return "\n".join(lines + ([f"  {', '.join(failures)}"] if failures else []))


def _idle(status: MemoryStatus) -> int | None:
    if status.reserved_bytes is None or status.allocated_bytes is None:
        return None
    return status.reserved_bytes - status.allocated_bytes


@dataclass
class PoolScope:
    """A pool for part of a program. `active` is False, with the reason, where there can be none; the part then runs on
    the allocator as it is."""

    name: str
    reason: str = ""
    pool: Any = None  #: torch.cuda.MemPool

    @property
    def active(self) -> bool:
        return self.pool is not None

    def reserved_bytes(self) -> int | None:
        """What the pool's segments hold; None where this PyTorch (before 2.7) or no pool tells."""
        if self.pool is None or not hasattr(self.pool, "snapshot"):
            return None
        return sum(int(segment.get("total_size", 0)) for segment in self.pool.snapshot())


def _why_no_pool(torch: Any, place: Any) -> str:
    if not hasattr(torch.cuda, "MemPool") or not hasattr(torch.cuda, "use_mem_pool"):
        return f"PyTorch {torch.__version__} has no memory pools of its own (2.5 or later)"
    if place is None:
        return "PyTorch sees no GPU"
    if _pool is not None:
        return "gpuwarden's pool is PyTorch's allocator: it needs no second one"
    return ""


@contextlib.contextmanager
def memory_pool(name: str, device: Any = None, pool: Any = None) -> Iterator[PoolScope]:
    """What this thread allocates inside goes to a pool of its own, so that parts of a program do not fragment each
    other's memory (torch.cuda.MemPool, PyTorch 2.5 or later):

        with memory_pool("inference") as scope: ...
        with memory_pool("inference", pool=scope.pool): ...   # the same one again

    The memory goes back when the scope and all tensors in the pool are gone. Where there can be no pool, the scope says
    why and the body runs as it would without. Raises Error as memory_status does."""
    torch = load_torch()
    if not isinstance(name, str):
        raise error("invalid_argument", f"a pool's name is text, not a {type(name).__name__}")
    place = _cuda_device(torch, device)
    why = _why_no_pool(torch, place)
    if why:
        yield PoolScope(name, why)
        return
    made = torch.cuda.MemPool() if pool is None else pool
    with torch.cuda.use_mem_pool(made, device=place):
        yield PoolScope(name, pool=made)
