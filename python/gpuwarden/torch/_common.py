# SPDX-License-Identifier: Apache-2.0
"""What the parts for PyTorch share: PyTorch itself, loaded when first needed, devices, and nested tensors."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator

from gpuwarden._find_torch import import_torch


def error(code: str, message: str, hint: str = "") -> Exception:
    """gpuwarden's one exception, ready to be raised."""
    from gpuwarden._error import Error

    return Error(code, message, hint)


def load_torch() -> Any:
    """The module `torch`. Raises Error (unavailable) where PyTorch cannot be imported."""
    torch, why = import_torch()
    if torch is None:
        raise error("unavailable", f"PyTorch cannot be imported: {why}", "pip install torch")
    return torch


def version(torch: Any) -> tuple[int, int]:
    """(2, 13) of "2.13.0+cpu"; (0, 0) where no number is found."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def first_line(problem: BaseException, longest: int = 200) -> str:
    """The kind and the first line of what an exception says, and the second where the first only announces it."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    words = " ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1])
    text = f"{type(problem).__name__}: {words}" if words else type(problem).__name__
    return text if len(text) <= longest else text[: longest - 3] + "..."


def tensors_of(torch: Any, value: Any) -> Iterator[Any]:
    """Every tensor in nested tuples, lists, dicts and dataclass-like outputs, in their order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict) or hasattr(value, "items"):
        for _, item in value.items():
            yield from tensors_of(torch, item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(torch, item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_of(torch, getattr(value, name))


def map_tensors(torch: Any, value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest of tuples, lists and dicts with every tensor changed; other values are passed on as they are."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(torch, item, change) for item in value))
    if type(value) in (tuple, list):
        return type(value)(map_tensors(torch, item, change) for item in value)
    if isinstance(value, dict):
        changed = {key: map_tensors(torch, item, change) for key, item in value.items()}
        if type(value) is dict:
            return changed
        # A ModelOutput of transformers is a dict with attributes, made from keywords.
        try:
            return type(value)(**changed)
        except TypeError:
            return changed
    return value


def device_of(torch: Any, model: Any) -> Any:
    """The device of the model's first parameter or buffer; the CPU for a model without any."""
    for tensor in _held_by(model):
        return tensor.device
    return torch.device("cpu")


def floating_dtype_of(torch: Any, model: Any) -> Any:
    """The type of the model's first floating-point parameter or buffer; float32 for a model without any."""
    for tensor in _held_by(model):
        if tensor.is_floating_point():
            return tensor.dtype
    return torch.float32


def _held_by(model: Any) -> Iterator[Any]:
    if hasattr(model, "parameters"):
        yield from model.parameters()
        yield from model.buffers()


def synchronize(torch: Any, device: Any) -> None:
    """Waits until a CUDA device has done what it was given; nothing to wait for elsewhere."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def capability(torch: Any, device: Any) -> tuple[int, int] | None:
    """Compute capability of a CUDA device; None for others."""
    if device.type != "cuda":
        return None
    return tuple(torch.cuda.get_device_capability(device))


def autocast_is_on(torch: Any, device_type: str) -> bool:
    """Whether this thread is inside an autocast for "cpu" or "cuda"."""
    try:
        return bool(torch.is_autocast_enabled(device_type))
    except TypeError:  # before 2.4 a function for each
        return bool(torch.is_autocast_cpu_enabled() if device_type == "cpu" else torch.is_autocast_enabled())


def device_name(torch: Any, device: Any) -> str:
    """ "NVIDIA H200" of a CUDA device, the processor's model for the CPU."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.machine()
