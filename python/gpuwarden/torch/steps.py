# SPDX-License-Identifier: Apache-2.0
"""Why is training slow: watches the steps of a training loop and says what they wait for.

    with step_monitor(loader, model=model, optimizer=optimizer) as monitor:
        for batch in monitor:
            ...
    print(monitor.verdict())

On a GPU parts of a step are timed by events in PyTorch's current stream, else by the clock.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Optional

from . import _step_watch
from ._common import error, load_torch
from ._device_marks import CudaMarks, HostMarks
from .step_judge import Cause, Verdict, judge
from .step_records import Setup, Shares, StepRecord, merged

__all__ = ["Cause", "Setup", "Shares", "StepMonitor", "StepRecord", "Verdict", "judge", "step_monitor"]

#: Steps that the GPU may be behind before the host waits for it.
_BEHIND = 8
#: The latest so many steps are kept.
_MOST_STEPS = 10_000


@dataclass
class _Open:
    """A step that is under way, or whose moments are not known yet."""

    before: Any  #: the end of the step before
    wait: float
    first: bool
    begin: Any
    end: Any = None
    phases: list[tuple[str, Any, Any]] = field(default_factory=list)
    host: dict[str, float] = field(default_factory=dict)  #: seconds that were told, not measured here
    left_out: bool = False


class StepMonitor:
    """Records steps. Not thread-safe: for the thread that trains.

    Either iterate over it, or call begin_step() and end_step() around what a step does. `phase("copy")`,
    `phase("optimizer")` and `phase("communication")` mark parts; those that `step_monitor` watches by itself need none.
    """

    def __init__(self, loader: Optional[Iterable[Any]] = None, *, setup: Optional[Setup] = None, warmup: int = 2,
                 clock: Callable[[], float] = time.perf_counter, marks: Any = None) -> None:  # fmt: skip
        self._loader = loader
        self._clock = clock
        self._marks = marks or HostMarks(clock)
        self._warmup = warmup
        self._setup = setup or Setup()
        self._records: deque[StepRecord] = deque(maxlen=_MOST_STEPS)
        self._pending: deque[_Open] = deque()
        self._open: Optional[_Open] = None
        self._last_end: Any = None
        self._in_phase = False
        self._begun = 0
        #: Called with the step's number (from 0) as it begins and ends; for what looks at single steps.
        self.listeners: list[_step_watch.Listener] = []

    # Steps

    def __iter__(self) -> Iterator[Any]:
        if self._loader is None:
            raise error("invalid_argument", "this step monitor has no loader to iterate over", "step_monitor(loader)")
        first = True
        start = self._clock()
        batches = iter(self._loader)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            self.begin_step(wait=self._clock() - start, first_of_epoch=first)
            first = False
            try:
                yield batch
            finally:
                self.end_step()
            start = self._clock()

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def begin_step(self, wait: float = 0.0, first_of_epoch: bool = False) -> None:
        """A step begins, for whose batch `wait` seconds were waited. One that is open ends."""
        self.end_step()
        begin = self._marks.mark()
        self._open = _Open(self._last_end, max(0.0, wait), first_of_epoch, begin)
        for listener in self.listeners:
            listener.step_begins(self._begun)

    def end_step(self) -> None:
        """The step ends; without an open one nothing happens."""
        step = self._open
        if step is None:
            return
        for listener in self.listeners:
            step.left_out = listener.step_ends(self._begun) or step.left_out
        self._open = None
        step.end = self._last_end = self._marks.mark()
        # The first steps build what later ones find: kernels, caches, memory.
        step.left_out = step.left_out or self._begun < self._warmup
        self._begun += 1
        self._pending.append(step)
        while len(self._pending) > (_BEHIND if self._marks.on_device else 0):
            self._close(self._pending.popleft())

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the step: "copy", "optimizer" or "communication". Within another part it counts for that one."""
        if name not in ("copy", "optimizer", "communication"):
            raise error("invalid_argument", f"unknown part of a step '{name}'", "copy, optimizer or communication")
        step = self._open
        if step is None or self._in_phase:
            yield
            return
        self._in_phase = True
        start = self._marks.mark()
        try:
            yield
        finally:
            self._in_phase = False
            step.phases.append((name, start, self._marks.mark()))

    def add(self, name: str, seconds: float) -> None:
        """Time of a part that was measured elsewhere, within the open step."""
        if self._open is not None:
            self._open.host[name] = self._open.host.get(name, 0.0) + max(0.0, seconds)

    def move(self, batch: Any, device: Any) -> Any:
        """The batch on a device, as a part "copy": tensors in tuples, lists and dicts; not waited for where pinned."""
        from ._common import map_tensors

        torch = load_torch()
        copied = 0

        def put(tensor: Any) -> Any:
            nonlocal copied
            if tensor.device != torch.device(device):
                copied += tensor.numel() * tensor.element_size()
            return tensor.to(device, non_blocking=True)

        with self.phase("copy"):
            moved = map_tensors(torch, batch, put)
        self.learn(copied_bytes=copied or None)
        return moved

    def learn(self, **known: Any) -> None:
        """Facts of the setup (fields of Setup); None changes nothing."""
        self._setup = merged(self._setup, **known)

    # What comes of it

    @property
    def setup(self) -> Setup:
        """What is known of how the training is set up."""
        return self._setup

    def records(self) -> list[StepRecord]:
        """The steps after warming up, at most the latest 10,000. Waits for the GPU."""
        while self._pending:
            self._close(self._pending.popleft())
        return list(self._records)

    def verdict(self) -> Verdict:
        """Where the time went, and what would help."""
        return judge(self.records(), self._setup)

    def _close(self, step: _Open) -> None:
        if step.left_out:
            return
        body = self._marks.seconds(step.begin, step.end)
        parts = dict(step.host)
        for name, start, end in step.phases:
            parts[name] = parts.get(name, 0.0) + self._marks.seconds(start, end)
        idle = None
        wait = step.wait
        if self._marks.on_device and step.before is not None:
            # What the GPU had to wait for between two steps; a wait that it did not notice costs nothing.
            idle = self._marks.seconds(step.before, step.begin)
            wait = min(wait, idle)
            body += idle - wait
        # Parts told by other clocks than this one cannot be more than the step.
        scale = min(1.0, body / sum(parts.values())) if sum(parts.values()) > 0 else 1.0
        self._records.append(
            StepRecord(total=wait + body, wait=wait, gpu_idle=idle, first_of_epoch=step.first,
                       **{name: seconds * scale for name, seconds in parts.items()})  # fmt: skip
        )


@contextlib.contextmanager
def step_monitor(loader: Iterable[Any], *, model: Any = None, optimizer: Any = None, warmup: int = 2,
                 watch_copies: Optional[bool] = None, clock: Callable[[], float] = time.perf_counter) -> Iterator[StepMonitor]:  # fmt: skip
    """Watches a training loop over `loader`; iterate over what it gives.

    model: its operations and modules are counted in one early step, which is left out of the times; a
        DistributedDataParallel's communication is timed by a communication hook, unless it has one.
    optimizer: its step() is timed; without one that of every optimizer of the process (PyTorch 2.0 and later).
    warmup: so many steps are not recorded.
    watch_copies: whether `.to()` and `.cuda()` between devices are timed (some microseconds for each function of
        PyTorch); None: where PyTorch sees a GPU.

    All of it is undone at the end of the block. Raises Error (unavailable) without PyTorch.
    """
    torch = load_torch()
    on_gpu = bool(torch.cuda.is_available())
    marks = CudaMarks(torch) if on_gpu and clock is time.perf_counter else HostMarks(clock)
    monitor = StepMonitor(loader, setup=_step_watch.setup_of(torch, loader, model), warmup=warmup, clock=clock, marks=marks)
    with contextlib.ExitStack() as watching:
        watching.enter_context(_step_watch.optimizers(torch, monitor, optimizer))
        if watch_copies if watch_copies is not None else on_gpu:
            watching.enter_context(_step_watch.copies(torch, monitor))
        watching.enter_context(_step_watch.communication(torch, monitor, model))
        watching.enter_context(_step_watch.one_step_in_detail(torch, monitor, model, at=max(warmup - 1, 0)))
        try:
            yield monitor
        finally:
            monitor.end_step()
