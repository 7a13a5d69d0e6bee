# SPDX-License-Identifier: Apache-2.0
"""What a step monitor looks at by itself: optimizers, copies, communication, the operations of one step."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
import types
from collections import Counter
from typing import Any, Iterator, Optional, Protocol

from .loading import available_cpus
from .step_records import Setup


class Listener(Protocol):
    """Hears of steps. step_ends() says whether the step is to be left out."""

    def step_begins(self, number: int) -> None: ...

    def step_ends(self, number: int) -> bool: ...


def setup_of(torch: Any, loader: Any, model: Any) -> Setup:
    """What loader, model and machine tell of the setup."""
    on_gpu = bool(torch.cuda.is_available())
    workers = getattr(loader, "num_workers", None)
    persistent = getattr(loader, "persistent_workers", None)
    return Setup(
        num_workers=workers if isinstance(workers, int) else None,
        pin_memory=getattr(loader, "pin_memory", None),
        prefetch_factor=getattr(loader, "prefetch_factor", None),
        persistent_workers=persistent,
        cpus=available_cpus(),
        device="cuda" if on_gpu else "cpu",
        capability=tuple(torch.cuda.get_device_capability()) if on_gpu else None,
        precision=_precision_of(torch, model),
    )


def _precision_of(torch: Any, model: Any) -> Optional[str]:
    """In which type the model's matrices are multiplied, outside of autocast."""
    if model is None:
        return None
    kinds = Counter(str(p.dtype).replace("torch.", "") for p in model.parameters() if p.dim() >= 2)
    return kinds.most_common(1)[0][0] if kinds else None


@contextlib.contextmanager
def optimizers(torch: Any, monitor: Any, optimizer: Any) -> Iterator[None]:
    """Times step() of one optimizer, or of all (PyTorch 2.0 and later)."""
    if optimizer is None:
        hooks = importlib.import_module("torch.optim.optimizer")
        before = getattr(hooks, "register_optimizer_step_pre_hook", None)
        after = getattr(hooks, "register_optimizer_step_post_hook", None)
    else:
        before = getattr(optimizer, "register_step_pre_hook", None)
        after = getattr(optimizer, "register_step_post_hook", None)
    if before is None or after is None:
        with _patched_step(monitor, optimizer):
            yield
        return
    phases: list[Any] = []  # optimizers may step within optimizers

    def enter(*_: Any) -> None:
        phases.append(monitor.phase("optimizer"))
        phases[-1].__enter__()

    def leave(*_: Any) -> None:
        if phases:
            phases.pop().__exit__(None, None, None)

    handles = [before(enter), after(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _patched_step(monitor: Any, optimizer: Any) -> Iterator[None]:
    """The same for PyTorch 1.13, which has no hooks: another step() on this one optimizer."""
    if optimizer is None:
        yield
        return
    inner = optimizer.step
    watch = {"on": True}

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with monitor.phase("optimizer") if watch["on"] else contextlib.nullcontext():
            return inner(*args, **kwargs)

    # Schedulers leave their marks on the function that they find here, and look for them.
    step.__dict__.update(getattr(getattr(inner, "__func__", inner), "__dict__", {}))
    own = optimizer.__dict__.get("step")
    mine = optimizer.step = types.MethodType(step, optimizer)
    try:
        yield
    finally:
        watch["on"] = False
        # A scheduler that was made meanwhile has put its own around this one, which does nothing from now on.
        if optimizer.__dict__.get("step") is mine:
            if own is not None:
                optimizer.step = own
            else:
                del optimizer.step


_COPIES = {"to", "cuda", "cpu", "copy_"}


@contextlib.contextmanager
def copies(torch: Any, monitor: Any) -> Iterator[None]:
    """Times copies between devices."""
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__name__", "") not in _COPIES or not args:
                return function(*args, **(kwargs or {}))
            with monitor.phase("copy"):
                result = function(*args, **(kwargs or {}))
            return result

    with Watch():
        yield


@contextlib.contextmanager
def communication(torch: Any, monitor: Any, model: Any) -> Iterator[None]:
    """Times what DistributedDataParallel's gradients take beyond the backward pass: from the last bucket that is ready
    until all are there. A model keeps its hook; it does what DDP does by itself."""
    kind = getattr(getattr(torch.nn, "parallel", None), "DistributedDataParallel", None)
    if kind is None or not isinstance(model, kind) or not hasattr(model, "register_comm_hook"):
        yield
        return
    times = _BucketTimes()
    watch = {"on": True}

    def hook(_: Any, bucket: Any) -> Any:
        # Divided before it is summed, as DDP does it without a hook.
        tensor = bucket.buffer().div_(torch.distributed.get_world_size(model.process_group))
        if watch["on"]:
            times.ready()
        future = torch.distributed.all_reduce(tensor, group=model.process_group, async_op=True).get_future()

        def done(reduced: Any) -> Any:
            if watch["on"]:
                times.done()
            return reduced.value()[0]

        return future.then(done)

    try:
        model.register_comm_hook(None, hook)
    except RuntimeError:
        # It has a hook of its own.
        yield
        return

    class Steps:
        def step_begins(self, number: int) -> None:
            times.exposed()

        def step_ends(self, number: int) -> bool:
            monitor.add("communication", times.exposed())
            return False

    listener = Steps()
    monitor.listeners.append(listener)
    try:
        yield
    finally:
        watch["on"] = False
        monitor.listeners.remove(listener)


class _BucketTimes:
    """When buckets became ready and when they were there; they come from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ready = 0.0
        self._last_done = 0.0

    def ready(self) -> None:
        with self._lock:
            self._last_ready = time.perf_counter()

    def done(self) -> None:
        with self._lock:
            self._last_done = time.perf_counter()

    def exposed(self) -> float:
        """Seconds in which nothing but communication went on, since this was asked last."""
        with self._lock:
            seconds = self._last_done - self._last_ready if self._last_ready and self._last_done else 0.0
            self._last_ready = self._last_done = 0.0
            return max(0.0, seconds)


_PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.convolution")


def _counter(torch: Any, mode: Any) -> Any:
    """A dispatch mode that counts operations and fetched values, and notes in which type matrices are multiplied."""

    class Count(mode):  # type: ignore[misc]
        operations = 0
        fetched = 0
        precision: Optional[str] = None

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.operations += 1
            name = str(function)
            self.fetched += "_local_scalar_dense" in name
            if name.startswith(_PRODUCTS):
                matrices = [value for value in args if isinstance(value, torch.Tensor) and value.dim() >= 2]
                self.precision = str(matrices[-1].dtype).replace("torch.", "") if matrices else self.precision
            return function(*args, **(kwargs or {}))

    return Count()


class _DetailedStep:
    """Counts what one step does: PyTorch's operations, and which module is called how often."""

    def __init__(self, monitor: Any, model: Any, at: int, make_counter: Any) -> None:
        self._monitor = monitor
        self._model = model
        self._at = at
        self._make_counter = make_counter
        self._counter: Any = None
        self._calls: Counter[str] = Counter()
        self._hooks: list[Any] = []

    def step_begins(self, number: int) -> None:
        if number != self._at:
            return
        for name, module in self._model.named_modules() if self._model is not None else ():
            if name:
                hook = self._called(f"{name} ({type(module).__name__})")
                self._hooks.append(module.register_forward_pre_hook(hook))
        self._counter = self._make_counter()
        self._counter.__enter__()

    def _called(self, name: str) -> Any:
        def count(*_: Any) -> None:
            self._calls[name] += 1

        return count

    def step_ends(self, number: int) -> bool:
        if self._counter is None:
            return False
        counter, self._counter = self._counter, None
        counter.__exit__(None, None, None)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        name, calls = self._calls.most_common(1)[0] if self._calls else (None, None)
        self._monitor.learn(operations=counter.operations, synchronisations=counter.fetched,
                            precision=counter.precision, most_called=name, most_calls=calls)  # fmt: skip
        return True


@contextlib.contextmanager
def one_step_in_detail(torch: Any, monitor: Any, model: Any, at: int) -> Iterator[None]:
    """Looks at one step in detail, which is not timed."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        yield
        return
    step = _DetailedStep(monitor, model, at, lambda: _counter(torch, TorchDispatchMode))
    monitor.listeners.append(step)
    try:
        yield
    finally:
        step.step_ends(-1)
        monitor.listeners.remove(step)
