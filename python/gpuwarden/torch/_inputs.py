# SPDX-License-Identifier: Apache-2.0
"""What a model is called with, from what a user gives: a shape, a tensor, arguments, keywords, or a callable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from ._common import error, floating_dtype_of, map_tensors, tensors_of

_FORMS = "a shape such as (1, 3, 224, 224), a tensor, a tuple or list of arguments, a dict of keywords, or a callable"


@dataclass(frozen=True)
class Call:
    """Arguments of one call of a model, on its device."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def of(self, model: Callable[..., Any]) -> Any:
        return model(*self.args, **self.kwargs)


def is_shape(value: Any) -> bool:
    """Whether it is a tuple, list or torch.Size of whole numbers."""
    return isinstance(value, (tuple, list)) and bool(value) and all(type(item) is int for item in value)


def read_inputs(torch: Any, model: Any, inputs: Any, device: Any) -> Callable[[], Call]:
    """A function that gives the arguments of a call. A shape becomes random numbers, always the same, in the model's
    floating-point type; tensors are moved to `device`; a callable is asked each time. Raises Error
    (invalid_argument)."""
    if callable(inputs) and not isinstance(inputs, torch.Tensor):
        return lambda: _call_from(torch, model, inputs(), device)
    fixed = _call_from(torch, model, inputs, device)
    return lambda: fixed


def _call_from(torch: Any, model: Any, inputs: Any, device: Any) -> Call:
    def move(tensor: Any) -> Any:
        return tensor.to(device)

    if is_shape(inputs):
        return Call((_random(torch, model, tuple(inputs), device),), {})
    if isinstance(inputs, torch.Tensor):
        return Call((move(inputs),), {})
    if isinstance(inputs, dict) and all(isinstance(key, str) for key in inputs):
        return Call((), map_tensors(torch, dict(inputs), move))
    if isinstance(inputs, (tuple, list)) and inputs:
        return Call(tuple(map_tensors(torch, item, move) for item in inputs), {})
    raise error("invalid_argument", f"inputs of type {type(inputs).__name__} are not understood", _FORMS)


def _random(torch: Any, model: Any, shape: tuple[int, ...], device: Any) -> Any:
    if any(size <= 0 for size in shape):
        raise error("invalid_argument", f"the input shape {shape} has a size that is not positive", _FORMS)
    generator = torch.Generator(device="cpu")
    generator.manual_seed(0)
    return torch.randn(shape, generator=generator).to(device=device, dtype=floating_dtype_of(torch, model))


def batch_size(torch: Any, call: Call) -> int:
    """The first size of the first tensor that has one; 1 without any."""
    for tensor in tensors_of(torch, (call.args, call.kwargs)):
        if tensor.dim() > 0:
            return int(tensor.shape[0])
    return 1


def signature(torch: Any, call: Call) -> list[str]:
    """Shape and type of every tensor: "1x3x224x224 float32"."""
    return [
        f"{'x'.join(str(size) for size in tensor.shape)} {str(tensor.dtype).replace('torch.', '')}"
        for tensor in tensors_of(torch, (call.args, call.kwargs))
    ]
