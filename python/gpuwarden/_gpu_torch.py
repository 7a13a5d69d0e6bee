# SPDX-License-Identifier: Apache-2.0
"""What gpuwarden.gpu asks of torch, and what it does where there is none. torch is looked for when first asked."""
from __future__ import annotations

import contextlib
import gc
import json
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from gpuwarden._error import Error
from gpuwarden._find_torch import import_torch


class CPUDevice:
    """The CPU where there is no torch to say it: `str(device)` is "cpu", as of a torch.device."""

    type = "cpu"
    index: Optional[int] = None

    def __str__(self) -> str:
        return "cpu"

    def __repr__(self) -> str:
        return "device(type='cpu')"

    def __eq__(self, other: object) -> bool:
        return str(other) == "cpu" if isinstance(other, (CPUDevice, str)) else NotImplemented

    def __hash__(self) -> int:
        return hash("cpu")


def torch_module() -> Any:
    """torch, or None where it is not installed or cannot be imported."""
    return import_torch()[0]


def status() -> dict[str, Any]:
    """cuda_available, torch (its version) and torch_problem (why it cannot be used), from one look: to import a broken
    torch takes as long each time."""
    torch, problem = import_torch()
    return {"cuda_available": torch is not None and bool(torch.cuda.is_available()),
            "torch": None if torch is None else str(torch.__version__), "torch_problem": problem or None}


def cuda_available() -> bool:
    """torch.cuda.is_available(); False without torch."""
    torch = torch_module()
    return torch is not None and bool(torch.cuda.is_available())


def cpu_device() -> Any:
    torch = torch_module()
    return CPUDevice() if torch is None else torch.device("cpu")


def device_of(device: Mapping[str, Any]) -> Any:
    """A torch.device of the library's device: that GPU where torch sees it, else the CPU."""
    ordinal = device.get("cuda_ordinal")
    if ordinal is None or not cuda_available():
        return cpu_device()
    torch = torch_module()
    return torch.device(f"cuda:{ordinal}") if ordinal < torch.cuda.device_count() else cpu_device()


@contextlib.contextmanager
def current(device: Mapping[str, Any]) -> Iterator[Any]:
    """The torch.device, made current within the block."""
    made = device_of(device)
    if str(made) == "cpu":
        yield made
        return
    with torch_module().cuda.device(made):
        yield made


def kind_of(error: BaseException) -> str:
    """The code that says whether trying again, or elsewhere, can help."""
    if isinstance(error, Error):
        return error.code
    if not isinstance(error, Exception):
        return "interrupted"
    text = str(error).lower()
    out_of_memory = type(error).__name__ == "OutOfMemoryError" or (isinstance(error, RuntimeError) and "out of memory" in text)
    if out_of_memory:
        return "unsatisfied"
    if isinstance(error, TimeoutError):
        return "timed_out"
    gpu_fault = type(error).__name__ == "AcceleratorError" or (
        isinstance(error, RuntimeError) and ("cuda error" in text or "cudnn" in text or "cublas" in text or "nccl" in text))
    return "unavailable" if gpu_fault else "invalid_argument"


def set_memory_fraction(fraction: float, device: Mapping[str, Any]) -> None:
    """torch's own allocator, where it has that GPU."""
    ordinal = device.get("cuda_ordinal")
    if ordinal is not None and cuda_available():
        torch_module().cuda.set_per_process_memory_fraction(fraction, ordinal)


def _idle_cache() -> int:
    """Bytes that torch's allocator keeps without a tensor in them, on all GPUs."""
    if not cuda_available():
        return 0
    torch = torch_module()
    return sum(torch.cuda.memory_reserved(i) - torch.cuda.memory_allocated(i) for i in range(torch.cuda.device_count()))


def keep_cache_small(device: Any, ratio: float, fraction: Optional[float]) -> None:
    """Empties torch's cache where more of the device's limit lies idle in it than `ratio`."""
    if getattr(device, "type", "cpu") != "cuda":
        return
    torch = torch_module()
    limit = torch.cuda.get_device_properties(device).total_memory * (1.0 if fraction is None else fraction)
    if torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) > ratio * limit:
        torch.cuda.empty_cache()


def _empty_cache() -> int:
    before = _reserved()
    gc.collect()
    if cuda_available():
        torch_module().cuda.empty_cache()
    return max(0, before - _reserved())


def _reserved() -> int:
    if not cuda_available():
        return 0
    torch = torch_module()
    return sum(torch.cuda.memory_reserved(i) for i in range(torch.cuda.device_count()))


def register_cache(core: Any) -> None:
    """Python's garbage and torch's cache. What a collection frees is not known before."""
    core.add_releasable("torch's cache and Python's garbage", "cache", lambda: _idle_cache() or None, _empty_cache)


def _bytes_of(model: Any) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    return sum(one.numel() * one.element_size() for one in tensors if one.device.type != "cpu")


def register_model(core: Any, name: str, model: Any) -> Any:
    """Its parameters and buffers can be moved to the CPU. A weak reference to it."""
    try:
        known = weakref.ref(model, lambda _: core.closed or core.remove_releasable(name))
    except TypeError:
        raise Error("invalid_argument", f"{name}: a {type(model).__name__} is not a model", "give a torch.nn.Module") from None
    if not hasattr(model, "parameters"):
        raise Error("invalid_argument", f"{name}: a {type(model).__name__} is not a model", "give a torch.nn.Module")

    def size() -> int:
        there = known()
        return 0 if there is None else _bytes_of(there)

    def release() -> int:
        there = known()
        if there is None:
            return 0
        freed = _bytes_of(there)
        there.to("cpu")
        _empty_cache()
        return freed

    def is_on(device: str) -> bool:
        there = known()
        return there is not None and any(str(one.device) == _torch_name(device) for one in there.parameters())

    core.add_releasable(name, "model", size, release, is_on)
    return known


def _torch_name(device: str) -> str:
    ordinal = json.loads(device).get("cuda_ordinal")
    return "cpu" if ordinal is None else f"cuda:{ordinal}"


def set_up_distributed(setup: dict[str, Any], init_process_group: bool) -> dict[str, Any]:
    """Sets the variables that are missing in this process's environment."""
    os.environ.update(setup["variables"])
    if setup["backend"] == "nccl" and not cuda_available():
        setup["backend"] = "gloo"
        setup["notes"] = [*setup["notes"], "torch sees no CUDA here: gloo is used"]
    if not init_process_group:
        return setup
    torch, why = import_torch()
    if torch is None or not torch.distributed.is_available():
        told = f"torch.distributed is not there{': ' + why if why else ''}"
        raise Error("unavailable", told, "install torch, or call without init_process_group")
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(setup["backend"], rank=setup["rank"], world_size=setup["world_size"])
    return setup
