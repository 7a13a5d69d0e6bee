# SPDX-License-Identifier: Apache-2.0
"""The step monitor inside Hugging Face's Trainer and Lightning. Neither is imported before its callback is made."""

from __future__ import annotations

import importlib
import time
from typing import Any, Callable, Optional

from . import _step_watch
from ._common import error, load_torch
from ._device_marks import CudaMarks, HostMarks
from .steps import StepMonitor

__all__ = ["lightning_callback", "trainer_callback"]


def _monitor(clock: Callable[[], float], warmup: int) -> StepMonitor:
    torch = load_torch()
    marks = CudaMarks(torch) if torch.cuda.is_available() and clock is time.perf_counter else HostMarks(clock)
    return StepMonitor(clock=clock, warmup=warmup, marks=marks)


def _import_first(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise error("unavailable", f"{names[0]} cannot be imported", f"pip install {names[0]}")


class _Between:
    """Time from the end of a step to the beginning of the next one, less what is not waiting for data."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ended: Optional[float] = None
        self.first = True

    def end(self) -> None:
        self._ended = self._clock()

    def restart(self) -> None:
        """What was until now (an evaluation, a checkpoint, an epoch's end) does not count."""
        self._ended = self._clock()

    def epoch(self) -> None:
        self.first = True
        self._ended = self._clock()

    def wait(self) -> tuple[float, bool]:
        first, self.first = self.first, False
        return (self._clock() - self._ended if self._ended is not None else 0.0), first


def trainer_callback(*, warmup: int = 2, clock: Callable[[], float] = time.perf_counter) -> Any:
    """A callback for transformers.Trainer(callbacks=[...]). Its `monitor` has records and verdict; the verdict is in its
    `report` after training.

    Trainer fetches the batches of a whole step, copies to the GPU included, before the step begins: they count as
    waiting for data. Raises Error (unavailable) without transformers.
    """
    base = _import_first("transformers").TrainerCallback
    monitor = _monitor(clock, warmup)

    class StepMonitorCallback(base):  # type: ignore[misc,valid-type]
        """Watches the Trainer's steps."""

        def __init__(self) -> None:
            super().__init__()
            self.monitor = monitor
            self.report: Optional[str] = None
            self._between = _Between(clock)
            self._optimizer: Any = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            loader = kwargs.get("train_dataloader")
            setup = _step_watch.setup_of(load_torch(), loader, kwargs.get("model"))
            monitor.learn(**setup.to_dict())

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._between.epoch()

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            # A step that raised never ended.
            monitor.end_step()
            wait, first = self._between.wait()
            monitor.begin_step(wait=wait, first_of_epoch=first)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._optimizer = monitor.phase("optimizer")
            self._optimizer.__enter__()

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if self._optimizer is not None:
                self._optimizer.__exit__(None, None, None)
                self._optimizer = None

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            monitor.end_step()
            self._between.end()

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._between.restart()

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._between.restart()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.report = str(monitor.verdict())

    return StepMonitorCallback()


def lightning_callback(*, warmup: int = 2, clock: Callable[[], float] = time.perf_counter) -> Any:
    """A callback for lightning's Trainer(callbacks=[...]), as trainer_callback(). Batches come to the GPU before a step
    begins: copies count as waiting for data. Raises Error (unavailable) without lightning or pytorch_lightning."""
    base = _import_first("lightning.pytorch", "pytorch_lightning").Callback
    monitor = _monitor(clock, warmup)

    class StepMonitorCallback(base):  # type: ignore[misc,valid-type]
        """Watches Lightning's steps."""

        def __init__(self) -> None:
            super().__init__()
            self.monitor = monitor
            self.report: Optional[str] = None
            self._between = _Between(clock)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            loader = getattr(trainer, "train_dataloader", None)
            monitor.learn(**_step_watch.setup_of(load_torch(), loader, pl_module).to_dict())

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            self._between.epoch()

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any) -> None:
            wait, first = self._between.wait()
            monitor.begin_step(wait=wait, first_of_epoch=first)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any) -> None:
            monitor.end_step()
            self._between.end()

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            self._between.restart()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.report = str(monitor.verdict())

    return StepMonitorCallback()
