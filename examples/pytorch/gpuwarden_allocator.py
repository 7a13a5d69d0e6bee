# SPDX-License-Identifier: Apache-2.0
"""Puts gpuwarden's pool under PyTorch (2.3 or later), before anything is allocated:

    import gpuwarden_allocator
    gpuwarden_allocator.install()

What it heeds stands in the environment: GPUWARDEN_MEMORY_STRATEGY, GPUWARDEN_GPU_MEM_LIMIT, GPUWARDEN_MEMORY_WAIT,
GPUWARDEN_MEMORY_TRACE, GPUWARDEN_MEMORY_ON_FAILURE, GPUWARDEN_MEMORY_STATUS, GPUWARDEN_MEMORY_SNAPSHOT.
"""
import ctypes
import os

# PyTorch's setters, and what they are given. Without these hooks PyTorch frees tensors that another stream still uses
# (record_stream), and gives a graph's memory to others.
HOOKS = {
    "set_init_fn": "gpuwarden_init",
    "set_reset_fn": "gpuwarden_reset",
    "set_memory_fraction_fn": "gpuwarden_memory_fraction",
    "set_base_alloc_fn": "gpuwarden_base_alloc",
    "set_record_stream_fn": "gpuwarden_record_stream",
    "set_begin_allocate_to_pool": "gpuwarden_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "gpuwarden_end_allocate_to_pool",
    "set_release_pool": "gpuwarden_release_pool",
}


class Status(ctypes.Structure):
    """gpuwarden_pool_status of gpuwarden/memory.h."""

    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_uint64)
        for name in (
            "reserved", "peak_reserved", "live", "peak_live", "cached", "largest_free", "limit", "live_blocks",
            "allocations", "frees", "driver_calls", "out_of_memory", "device_total", "device_free",
        )
    ]


def install(library=None):
    """Makes the pool PyTorch's allocator for the rest of the process; returns the library."""
    import torch

    path = library or os.environ.get("GPUWARDEN_TORCH_LIBRARY", "libgpuwarden_torch.so")
    loaded = ctypes.CDLL(path)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "gpuwarden_malloc", "gpuwarden_free")
    inner = allocator.allocator()
    missing = [setter for setter in HOOKS if not hasattr(inner, setter)]
    if missing:
        raise RuntimeError(f"PyTorch {torch.__version__} has no {', '.join(missing)}: 2.3 or later is needed")
    for setter, symbol in HOOKS.items():
        getattr(inner, setter)(ctypes.cast(getattr(loaded, symbol), ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)
    return loaded


def status(loaded, device=0):
    """The pool's figures in bytes, as a dict; None while the device has no pool."""
    result = Status(size=ctypes.sizeof(Status))
    if not loaded.gpuwarden_memory_status(device, ctypes.byref(result)):
        return None
    return {name: getattr(result, name) for name, _ in Status._fields_[1:]}
