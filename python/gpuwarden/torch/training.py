# SPDX-License-Identifier: Apache-2.0
"""The parts of a training loop: loader settings, mixed precision, accumulation, recomputing, checkpoints, ranks."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Optional

from ._common import error, load_torch, version
from .checkpoint import Checkpoints, load_checkpoint, save_checkpoint, stop_requested_by
from .loading import LoaderSettings, available_cpus, loader_settings, shared_memory_bytes
from .parallel import Ranks, distribute, process_group, strategy_of
from .precision import MixedPrecision, mixed_precision, no_sync

__all__ = [
    "Checkpoints",
    "LoaderSettings",
    "MixedPrecision",
    "Ranks",
    "accumulate",
    "available_cpus",
    "checkpoint_activations",
    "distribute",
    "load_checkpoint",
    "loader_settings",
    "mixed_precision",
    "no_sync",
    "process_group",
    "save_checkpoint",
    "shared_memory_bytes",
    "stop_requested_by",
    "strategy_of",
    "undo_checkpoint_activations",
]


class MicroBatch:
    """One of the batches of a step. `backward(loss)` weighs the loss so that the step's gradients are their mean."""

    def __init__(self, batch: Any, index: int, of: int, model: Any, precision: Optional[MixedPrecision]) -> None:
        self.batch = batch
        self.index = index
        self.of = of
        self._model = model
        self._precision = precision

    @property
    def last(self) -> bool:
        """Whether the optimizer steps after it."""
        return self.index == self.of - 1

    def sync(self) -> Any:
        """The context for forward and backward pass: ranks exchange gradients with the last micro-batch alone."""
        return contextlib.nullcontext() if self.last else no_sync(self._model)

    def backward(self, loss: Any) -> None:
        """loss.backward(), divided by the number of micro-batches."""
        loss = loss / self.of
        if self._precision is not None:
            self._precision.backward(loss)
        else:
            loss.backward()


def accumulate(loader: Iterable[Any], steps: int, model: Any = None, precision: Optional[MixedPrecision] = None) -> Iterator[list[MicroBatch]]:
    """Gradient accumulation: the micro-batches of each optimizer step.

        for group in accumulate(loader, 4, model):
            for micro in group:
                with micro.sync():
                    micro.backward(loss_of(model, micro.batch))
            optimizer.step(); optimizer.zero_grad()

    A shorter last group is weighed by its own length. Raises Error (invalid_argument) for steps below 1.
    """
    if steps < 1:
        raise error("invalid_argument", f"steps: {steps} is too few", "at least 1 micro-batch for each step")
    group: list[Any] = []
    for batch in loader:
        group.append(batch)
        if len(group) == steps:
            yield [MicroBatch(one, i, steps, model, precision) for i, one in enumerate(group)]
            group = []
    if group:
        yield [MicroBatch(one, i, len(group), model, precision) for i, one in enumerate(group)]


def checkpoint_activations(model: Any, which: Optional[Callable[[str, Any], bool]] = None) -> list[str]:
    """Activation checkpointing: chosen modules keep their inputs alone and compute the rest again in the backward pass.
    Gives their names. `undo_checkpoint_activations` takes it back.

    which: says of a name and module whether it is checkpointed; None: the layers of the model's first stack (members
        of its first ModuleList or Sequential with more than one).

    Results are the same, random layers included: their random numbers are drawn again alike. Raises Error
    (invalid_argument) where no module fits; (unsatisfied) where one is checkpointed already.
    """
    torch = load_torch()
    names = _stack(torch, model) if which is None else [name for name, module in model.named_modules() if name and which(name, module)]
    if not names:
        raise error("invalid_argument", "no module to checkpoint was found", "which=lambda name, module: isinstance(module, MyBlock)")
    modules = dict(model.named_modules())
    if any(hasattr(modules[name], "_gpuwarden_forward") for name in names):
        raise error("unsatisfied", "a module is checkpointed already", "undo_checkpoint_activations(model) first")
    for name in names:
        _wrap(torch, modules[name])
    return names


def undo_checkpoint_activations(model: Any) -> None:
    """Modules are as they were before checkpoint_activations()."""
    for module in model.modules():
        if hasattr(module, "_gpuwarden_forward"):
            del module.forward
            del module._gpuwarden_forward


def _stack(torch: Any, model: Any) -> list[str]:
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and len(module) > 1:
            return [f"{name}.{child}" if name else child for child, _ in module.named_children()]
    return []


def _wrap(torch: Any, module: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    inner = module.forward
    # The reentrant kind needs inputs that require gradients, and loses keyword arguments in 1.13.
    reentrant = {} if version(torch) < (1, 11) else {"use_reentrant": False}

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return inner(*args, **kwargs)
        return checkpoint(inner, *args, **reentrant, **kwargs)

    module._gpuwarden_forward = True
    module.forward = forward
