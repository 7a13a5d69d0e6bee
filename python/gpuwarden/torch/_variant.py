# SPDX-License-Identifier: Apache-2.0
"""A model in a changed form, beside the original, with which it shares every tensor that no step replaced.

Imports torch at once: only parts that have found PyTorch import this file."""

from __future__ import annotations

import contextlib
import copy
import weakref
from dataclasses import dataclass
from typing import Any, Callable, ContextManager

import torch

from ._common import map_tensors, tensors_of
from ._inputs import Call

Scope = Callable[[], ContextManager[Any]]


def sharing_copy(module: torch.nn.Module, share_buffers: bool) -> torch.nn.Module:
    """A copy of the modules that holds the same parameters (the objects themselves), so that it costs no memory and a
    replaced parameter is replaced in the copy alone. Buffers are cloned unless shared: a call may change them."""
    memo: dict[int, Any] = {id(parameter): parameter for parameter in module.parameters()}
    for buffer in module.buffers():
        memo[id(buffer)] = buffer if share_buffers else buffer.detach().clone()
    return copy.deepcopy(module, memo)


def convert(
    module: torch.nn.Module,
    change: Callable[[torch.Tensor], torch.Tensor],
    known: dict[int, torch.Tensor] | None = None,
) -> torch.nn.Module:
    """Replaces, in this module alone, every parameter and buffer by its changed value; what is tied stays tied.
    (Module.to would write into the parameters themselves, which others share.) `known` has, by the id of a tensor, what
    takes its place already."""
    done: dict[int, torch.Tensor] = dict(known or {})
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is None:
                continue
            if id(parameter) not in done:
                value = change(parameter.detach())
                done[id(parameter)] = torch.nn.Parameter(
                    value, requires_grad=parameter.requires_grad and value.is_floating_point()
                )
            part._parameters[name] = done[id(parameter)]  # type: ignore[assignment]
        for name, buffer in part._buffers.items():
            if buffer is None:
                continue
            if id(buffer) not in done:
                done[id(buffer)] = change(buffer.detach())
            part._buffers[name] = done[id(buffer)]
        _flatten_weights(part)
    return module


def move(original: torch.nn.Module, module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Moves a model and its optimised form; what they share is shared afterwards, too."""
    before = [*original.parameters(), *original.buffers()]
    original._apply(change)
    after = [*original.parameters(), *original.buffers()]
    convert(module, change, {id(old): new for old, new in zip(before, after)})


def _flatten_weights(part: torch.nn.Module) -> None:
    """An RNN keeps a list of its weights beside the parameters."""
    if isinstance(part, torch.nn.RNNBase):
        part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
        if hasattr(part, "_flat_weight_refs"):
            part._flat_weight_refs = [None if weight is None else weakref.ref(weight) for weight in part._flat_weights]


@dataclass(frozen=True)
class Variant:
    """A module, and what is done around each of its calls."""

    module: Any
    scopes: tuple[Scope, ...] = ()
    input_dtype: Any = None  #: floating-point inputs are converted to it
    output_dtype: Any = None  #: floating-point outputs are converted to it
    layouts: tuple[tuple[int, Any], ...] = ()  #: (dimensions, memory format) of inputs
    compiled: bool = False
    graphless: bool = False  #: nothing is kept for a backward pass
    countable: bool = True  #: the module can tell what its weights take

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.input_dtype is not None or self.layouts:
            args = map_tensors(torch, args, self._prepare)
            kwargs = map_tensors(torch, kwargs, self._prepare)
        if not self.scopes:
            return self._finish(self.module(*args, **kwargs))
        with contextlib.ExitStack() as stack:
            for scope in self.scopes:
                stack.enter_context(scope())
            return self._finish(self.module(*args, **kwargs))

    def _prepare(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.input_dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(self.input_dtype)
        for dimensions, layout in self.layouts:
            if tensor.dim() == dimensions:
                tensor = tensor.contiguous(memory_format=layout)
        return tensor

    def _finish(self, output: Any) -> Any:
        if self.output_dtype is None:
            return output
        return map_tensors(torch, output, lambda tensor: tensor.to(self.output_dtype) if tensor.is_floating_point() else tensor)


def weight_bytes(variant: Variant) -> int | None:
    """What the weights take, tied ones once; None where the module cannot tell."""
    if not variant.countable:
        return None
    sizes: dict[int, int] = {}
    try:
        for tensor in tensors_of(torch, dict(variant.module.state_dict())):
            sizes[_place_of(tensor)] = tensor.numel() * tensor.element_size()
    except (RuntimeError, NotImplementedError):
        return None
    return sum(sizes.values())


def _place_of(tensor: torch.Tensor) -> int:
    try:
        return tensor.data_ptr() or id(tensor)
    except RuntimeError:
        return id(tensor)


def memory_bytes(variant: Variant, call: Call, device: torch.device) -> int | None:
    """Weights, and what a call takes beside them: on a GPU its peak; on a CPU, where that cannot be read, what it
    keeps for a backward pass. None where either is unknown."""
    weights = weight_bytes(variant)
    beside = _peak_of_call(variant, call, device) if device.type == "cuda" else _kept_for_backward(variant, call)
    return None if weights is None or beside is None else weights + beside


def _peak_of_call(variant: Variant, call: Call, device: torch.device) -> int | None:
    try:
        call.of(variant)
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        output = call.of(variant)
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device)
        del output
    except RuntimeError:  # a pluggable allocator keeps no statistics
        return None
    return max(0, peak - before)


def _kept_for_backward(variant: Variant, call: Call) -> int | None:
    if variant.graphless:
        return 0
    if variant.compiled:
        return None
    weights = {tensor.data_ptr() for tensor in variant.module.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        place = _place_of(tensor)
        if place not in weights:
            kept[place] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = call.of(variant)
    del output
    return sum(kept.values())
