# SPDX-License-Identifier: Apache-2.0
"""What is known of training steps and of how the training is set up: plain values, without PyTorch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any, Optional, Sequence

#: What a step is split into, in the order in which it is shown. GPU idle overlaps with the others.
PARTS = ("wait", "copy", "compute", "optimizer", "communication")


@dataclass(frozen=True)
class StepRecord:
    """One training step, in seconds. The parts add up to `total`; `gpu_idle` is within them, None where no GPU tells."""

    total: float
    wait: float = 0.0  #: for the loader's next batch
    copy: float = 0.0  #: between host and GPU
    optimizer: float = 0.0
    communication: float = 0.0  #: with other ranks, where nothing else was done meanwhile
    gpu_idle: Optional[float] = None
    first_of_epoch: bool = False  #: its wait holds the start of the loader's workers

    @property
    def compute(self) -> float:
        """Forward, backward, and what nobody told apart."""
        return max(0.0, self.total - self.wait - self.copy - self.optimizer - self.communication)


@dataclass(frozen=True)
class Setup:
    """How the training is set up, as far as it is known; what is not is None."""

    num_workers: Optional[int] = None
    pin_memory: Optional[bool] = None
    prefetch_factor: Optional[int] = None
    persistent_workers: Optional[bool] = None
    cpus: Optional[int] = None  #: that this rank may use
    device: str = "cpu"  #: "cpu" or "cuda"
    capability: Optional[tuple[int, int]] = None  #: of the GPU
    precision: Optional[str] = None  #: in which matrices are multiplied: "float32", "bfloat16", "float16"
    operations: Optional[int] = None  #: of PyTorch in one step
    most_called: Optional[str] = None  #: the module that was called most often in one step
    most_calls: Optional[int] = None
    synchronisations: Optional[int] = None  #: values fetched to the host in one step (.item() and its kin)
    copied_bytes: Optional[int] = None  #: between host and GPU in one step

    def to_dict(self) -> dict[str, Any]:
        """Plain Python that json.dumps takes."""
        return asdict(self)


@dataclass(frozen=True)
class Shares:
    """What of the time of all steps went where, 0 to 1."""

    wait: float
    copy: float
    compute: float
    optimizer: float
    communication: float
    gpu_idle: Optional[float]
    #: of all time: waits for the first batches of epochs beyond what other steps wait
    epoch_start: float

    def to_dict(self) -> dict[str, Any]:
        """Plain Python that json.dumps takes."""
        return asdict(self)


def shares_of(steps: Sequence[StepRecord]) -> Shares:
    """Sums steps up. All zero for steps that took no time."""
    total = sum(step.total for step in steps)
    usual = median([step.wait for step in steps if not step.first_of_epoch] or [0.0])
    # The first batch of an epoch waits for the workers, too; that is told apart.
    starts = sum(max(0.0, step.wait - usual) for step in steps if step.first_of_epoch)
    idles = [step.gpu_idle for step in steps if step.gpu_idle is not None]

    def share(part: float) -> float:
        return part / total if total > 0 else 0.0

    parts = {part: share(sum(getattr(step, part) for step in steps)) for part in PARTS}
    parts["wait"] = max(0.0, parts["wait"] - share(starts))
    idle = share(sum(idles)) if idles and len(idles) == len(steps) else None
    return Shares(**parts, gpu_idle=idle, epoch_start=share(starts))


def merged(setup: Setup, **known: Any) -> Setup:
    """The setup with what is known now; None changes nothing."""
    values = {field.name: getattr(setup, field.name) for field in fields(setup)}
    values.update({name: value for name, value in known.items() if value is not None})
    return Setup(**values)
