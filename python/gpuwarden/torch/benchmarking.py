# SPDX-License-Identifier: Apache-2.0
"""benchmark: how long a call of a model takes, how sure that is, and what it costs.

print(gpuwarden.torch.benchmark(model, (1, 3, 224, 224), 100))"""

from __future__ import annotations

import contextlib
import html
import os
import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterator

from ._common import device_name, device_of, error, first_line, load_torch, synchronize
from ._energy import EnergyCounter, joules_per_call
from ._inputs import Call, batch_size, read_inputs
from ._measure import median, quantile, spread

__all__ = ["BenchmarkReport", "benchmark"]

#: Half of the calls lie further apart than this share of the median, or the second half of the run is this much
#: slower or faster than the first: then the machine had something else to do, or its clocks moved.
_WIDE = 0.10
_DRIFT = 0.05


@dataclass(frozen=True)
class BenchmarkReport:
    """Times of single calls, each waited for. None where something cannot be known."""

    model: str
    device: str
    torch_version: str
    iterations: int
    warmup: int
    batch_size: int
    median_ms: float
    mean_ms: float
    p95_ms: float
    min_ms: float
    max_ms: float
    deviation_ms: float  #: a standard deviation that outliers do not move
    spread_percent: float  #: the middle half of the calls, as a share of the median
    drift_percent: float  #: second half of the run beside the first
    samples_per_second: float  #: batch size over the median
    peak_memory_bytes: int | None  #: of PyTorch on the GPU, weights included
    joules_per_sample: float | None
    noisy: bool  #: the figures are not to be trusted to some percent
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "notes": list(self.notes)}

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("median", f"{self.median_ms:.4g} ms (p95 {self.p95_ms:.4g}, min {self.min_ms:.4g}, max {self.max_ms:.4g})"),
            (
                "variation",
                f"deviation {self.deviation_ms:.2g} ms, middle half {self.spread_percent:.1f} %, "
                f"drift {self.drift_percent:+.1f} %",
            ),
            ("throughput", f"{self.samples_per_second:.4g} samples/s (batch of {self.batch_size})"),
            ("peak memory", "-" if self.peak_memory_bytes is None else f"{self.peak_memory_bytes / 2**20:.1f} MiB"),
            ("energy", "-" if self.joules_per_sample is None else f"{self.joules_per_sample:.4g} J a sample"),
        ]
        return rows + [("note", note) for note in self.notes]

    def _headline(self) -> str:
        return f"{self.model} on {self.device}, PyTorch {self.torch_version}: {self.iterations} calls after {self.warmup}"

    def __repr__(self) -> str:
        return "\n".join([self._headline(), *(f"  {name:<11}  {words}" for name, words in self._rows())])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in self._rows())
        return f"<p>{html.escape(self._headline())}</p><table>{rows}</table>"


@contextlib.contextmanager
def _evaluating(torch: Any, model: Any) -> Iterator[None]:
    """In evaluation mode, without gradients; every part's own mode comes back."""
    parts = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    modes = [(part, part.training) for part in parts]
    try:
        if parts:
            model.eval()
        with torch.inference_mode():
            yield
    finally:
        # Set on each part, for a part's train() may be its own.
        for part, mode in modes:
            part.training = mode


def benchmark(
    model: Any,
    inputs: Any,
    iterations: int = 100,
    *,
    warmup: int = 10,
    device: Any = None,
    energy: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> BenchmarkReport:
    """Times `iterations` calls of `model` after `warmup` that do not count, in evaluation mode and without gradients;
    the model's mode comes back afterwards. `inputs`: a shape, a tensor, a tuple of arguments, a dict of keywords, or a
    callable that is asked before each call (its time does not count). The model stays where it is; a `device` other
    than its own is refused. `clock` gives seconds.

    Raises Error: unavailable without PyTorch, invalid_argument for arguments that are wrong and for inputs that the
    model refuses."""
    torch = load_torch()
    if not callable(model):
        raise error("invalid_argument", f"a model can be called; a {type(model).__name__} cannot")
    for name, value, least in (("iterations", iterations, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise error("invalid_argument", f"{name} must be a whole number of at least {least}, not {value!r}")
    place = _place(torch, model, device)
    draw = read_inputs(torch, model, inputs, place)
    with _evaluating(torch, model):
        call = draw()
        batch = batch_size(torch, call)
        try:
            call.of(model)
            synchronize(torch, place)
        except Exception as problem:
            raise error(
                "invalid_argument",
                f"the model does not take these inputs: {first_line(problem)}",
                "a shape, a tensor, a tuple, a dict or a callable, as the model is called",
            ) from problem
        peak = _start_of_peak(torch, place)
        times = _times(torch, model, draw, place, iterations, warmup, clock)
        peak_bytes = _peak(torch, place) if peak else None
        joules, notes = _energy(torch, model, call, place, median(times), energy)
    return _report(torch, model, place, times, warmup, batch, peak_bytes, joules, notes)


def _place(torch: Any, model: Any, device: Any) -> Any:
    own = device_of(torch, model)
    has_tensors = hasattr(model, "parameters") and next(iter(model.parameters()), None) is not None
    if device is None:
        return own
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as problem:
        raise error("invalid_argument", f"unknown device {device!r}: {first_line(problem)}", "cpu, cuda, cuda:1") from problem
    if has_tensors and (wanted.type != own.type or wanted.index not in (None, own.index)):
        raise error("invalid_argument", f"the model is on {own}, not on {wanted}", f"model.to('{wanted}')")
    return own if has_tensors else wanted


def _times(
    torch: Any, model: Any, draw: Callable[[], Call], device: Any, iterations: int, warmup: int, clock: Callable[[], float]
) -> list[float]:
    times = []
    for index in range(warmup + iterations):
        call = draw()
        synchronize(torch, device)
        begin = clock()
        call.of(model)
        synchronize(torch, device)
        if index >= warmup:
            times.append(clock() - begin)
    return times


def _start_of_peak(torch: Any, device: Any) -> bool:
    if device.type != "cuda":
        return False
    try:
        torch.cuda.reset_peak_memory_stats(device)
    except RuntimeError:  # a pluggable allocator keeps no statistics
        return False
    return True


def _peak(torch: Any, device: Any) -> int:
    return int(torch.cuda.max_memory_allocated(device))


def _energy(torch: Any, model: Any, call: Call, device: Any, seconds: float, wanted: bool) -> tuple[float | None, list[str]]:
    if not wanted or device.type != "cuda":
        return None, []

    def work() -> None:
        call.of(model)
        synchronize(torch, device)

    counter = EnergyCounter(torch, device)
    joules = joules_per_call(counter, work, seconds)
    return joules, [f"energy: {counter.why}"] if counter.why else []


def _load_note() -> list[str]:
    """Somebody else at work: more is running than there are processors."""
    try:
        load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    except (OSError, AttributeError):
        return []
    return [f"the machine's load is {load:.1f} on {processors} processors"] if load > processors else []


def _report(
    torch: Any,
    model: Any,
    device: Any,
    times: list[float],
    warmup: int,
    batch: int,
    peak: int | None,
    joules: float | None,
    notes: list[str],
) -> BenchmarkReport:
    middle = median(times)
    half = len(times) // 2
    drift = median(times[half:]) / median(times[:half]) - 1 if half and median(times[:half]) > 0 else 0.0
    width = (quantile(times, 0.75) - quantile(times, 0.25)) / middle if middle > 0 else 0.0
    noisy = width > _WIDE or abs(drift) > _DRIFT
    if noisy:
        notes = [
            f"noisy: half of the calls spread over {100 * width:.0f} % of the median, the second half of the run "
            f"differs by {100 * drift:+.0f} %; repeat it on a machine at rest",
            *_load_note(),
            *notes,
        ]
    name = type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", type(model).__name__)
    return BenchmarkReport(
        model=name,
        device=device_name(torch, device),
        torch_version=str(torch.__version__),
        iterations=len(times),
        warmup=warmup,
        batch_size=batch,
        median_ms=1000 * middle,
        mean_ms=1000 * sum(times) / len(times),
        p95_ms=1000 * quantile(times, 0.95),
        min_ms=1000 * min(times),
        max_ms=1000 * max(times),
        deviation_ms=1000 * spread(times),
        spread_percent=100 * width,
        drift_percent=100 * drift,
        samples_per_second=batch / middle if middle > 0 else float("inf"),
        peak_memory_bytes=peak,
        joules_per_sample=None if joules is None else joules / batch,
        noisy=noisy,
        notes=tuple(notes),
    )
