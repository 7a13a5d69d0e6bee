# SPDX-License-Identifier: Apache-2.0
"""Why training is slow: judged from records of steps and the setup alone. Pure; without PyTorch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, Optional, Sequence

from .step_records import PARTS, Setup, Shares, StepRecord, shares_of

#: Fewer steps are not judged.
FEWEST_STEPS = 3
#: An operation that takes less than this is over before the next one is launched. A bound of our own: launching costs
#: PyTorch some 5 to 10 us on a host.
SMALL_OPERATION_S = 20e-6

_WORDS = {"wait": "waiting for data", "copy": "copies", "compute": "compute", "optimizer": "optimizer", "communication": "communication"}


@dataclass(frozen=True)
class Cause:
    """One thing that makes training slow, and the change that helps."""

    id: str
    share: float  #: of the time of all steps that it takes, or that the change acts on; 0 to 1
    change: str  #: "num_workers 0 -> 4"
    reason: str  #: "71 % of each step waits for data"
    hint: str

    def __str__(self) -> str:
        return f"{self.change}: {self.reason}"


@dataclass(frozen=True)
class Verdict:
    """Where the time of `steps` steps went, and the causes found, the greatest share first."""

    steps: int
    seconds: float
    shares: Shares
    causes: tuple[Cause, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain Python that json.dumps takes."""
        return {**asdict(self), "causes": [asdict(cause) for cause in self.causes]}

    def __str__(self) -> str:
        if self.steps < FEWEST_STEPS:
            return f"{self.steps} steps: too few to judge (at least {FEWEST_STEPS})"
        parts = ", ".join(f"{_WORDS[part]} {_percent(getattr(self.shares, part))}" for part in PARTS)
        lines = [f"{self.steps} steps of {self.seconds / self.steps * 1e3:.1f} ms: {parts}"]
        if self.shares.epoch_start >= 0.005:
            lines.append(f"starting epochs: {_percent(self.shares.epoch_start)}")
        if self.shares.gpu_idle is not None:
            lines.append(f"GPU idle between steps: {_percent(self.shares.gpu_idle)}")
        for cause in self.causes:
            lines += [str(cause), f"  {cause.hint}"]
        if not self.causes:
            lines.append("nothing stands out: the time goes into computing")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


def judge(steps: Sequence[StepRecord], setup: Setup) -> Verdict:
    """The verdict on steps that were recorded after warming up."""
    shares = shares_of(steps)
    seconds = sum(step.total for step in steps)
    causes: list[Cause] = []
    if len(steps) >= FEWEST_STEPS and seconds > 0:
        found = (row(shares, setup, seconds / len(steps)) for row in _ROWS)
        causes = sorted((cause for cause in found if cause), key=lambda cause: -cause.share)
    return Verdict(len(steps), seconds, shares, tuple(causes))


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _on_gpu(setup: Setup) -> bool:
    return setup.device != "cpu"


def _workers(shares: Shares, setup: Setup, _: float) -> Optional[Cause]:
    """Too few workers of the loader."""
    if shares.wait < 0.15:
        return None
    reason = f"{_percent(shares.wait)} of each step waits for data"
    now = setup.num_workers
    cpus = setup.cpus or 1
    if now is None:
        return Cause("loader_workers", shares.wait, "feed data faster", reason, "load batches in processes or threads of their own")
    # As many as make the wait vanish if loading scales, and no more than there are processors.
    wanted = min(cpus, max(now + 1, 4, round(now / max(1 - shares.wait, 0.1))))
    if wanted > now:
        return Cause("loader_workers", shares.wait, f"num_workers {now} -> {wanted}", reason, f"this process may use {cpus} CPUs: gpuwarden.torch.loader_settings()")
    hint = "do less for each sample (decode once and keep it, smaller files, faster storage), or ask for more CPUs"
    return Cause("loader_workers", shares.wait, "less work in the loader", f"{reason}, and {now} workers have all {cpus} CPUs", hint)


def _persistent(shares: Shares, setup: Setup, _: float) -> Optional[Cause]:
    if shares.epoch_start < 0.05 or not setup.num_workers or setup.persistent_workers:
        return None
    reason = f"{_percent(shares.epoch_start)} of the time waits for workers that start with each epoch"
    return Cause("loader_restarts", shares.epoch_start, "persistent_workers False -> True", reason, "DataLoader(..., persistent_workers=True)")


def _pinning(shares: Shares, setup: Setup, _: float) -> Optional[Cause]:
    """Pageable memory: copies go through a buffer of the driver's, and the host waits for them."""
    if not _on_gpu(setup) or setup.pin_memory is not False or shares.copy < 0.05:
        return None
    reason = f"copies to the GPU take {_percent(shares.copy)} of each step"
    return Cause("pinned_memory", shares.copy, "pin_memory False -> True", reason, "and batch.to(device, non_blocking=True)")


def _precision(shares: Shares, setup: Setup, _: float) -> Optional[Cause]:
    """float32 on a GPU with tensor cores."""
    if not _on_gpu(setup) or setup.precision != "float32" or shares.compute < 0.4:
        return None
    if setup.capability is None or setup.capability < (7, 0):
        return None
    wanted = "bfloat16" if setup.capability >= (8, 0) else "float16 with GradScaler"
    reason = f"{_percent(shares.compute)} of each step computes in float32, tensor cores of this GPU (compute capability {setup.capability[0]}.{setup.capability[1]}) idle"
    return Cause("mixed_precision", shares.compute, f"precision float32 -> {wanted}", reason, "gpuwarden.torch.mixed_precision()")


def _architecture(shares: Shares, setup: Setup, step_seconds: float) -> Optional[Cause]:
    """A model of very many small operations: launching them takes longer than what they do."""
    if not setup.operations or shares.compute < 0.4 or setup.operations < 500:
        return None
    each = shares.compute * step_seconds / setup.operations
    if each > SMALL_OPERATION_S * (1 if _on_gpu(setup) else 2):
        return None
    reason = f"{setup.operations} operations of {each * 1e6:.0f} us make up {_percent(shares.compute)} of each step"
    if setup.most_called and (setup.most_calls or 0) >= 16:
        change = f"call {setup.most_called} once for all, not {setup.most_calls} times"
        hint = "give it a whole batch or sequence (torch.nn.LSTM instead of LSTMCell in a loop), or torch.compile the model"
    else:
        change = "fewer, larger operations"
        hint = "torch.compile(model), fused modules, a larger batch; nn.Module code that loops over samples in Python"
    return Cause("architecture", shares.compute, change, reason, hint)


def _transfer(shares: Shares, setup: Setup, step_seconds: float) -> Optional[Cause]:
    """Copies that take long although they are pinned, or values fetched again and again."""
    if not _on_gpu(setup):
        return None
    if shares.copy >= 0.1 and setup.pin_memory is not False:
        speed = ""
        if setup.copied_bytes:
            speed = f" ({setup.copied_bytes / 2**20:.0f} MiB at {setup.copied_bytes / (shares.copy * step_seconds) / 1e9:.1f} GB/s)"
        reason = f"copies between host and GPU take {_percent(shares.copy)} of each step{speed}"
        hint = "send uint8 or float16 and convert on the GPU, augment there, copy the next batch on a second stream, or keep the data on the GPU"
        return Cause("transfer", shares.copy, "copy less, and while the GPU computes", reason, hint)
    if (setup.synchronisations or 0) >= 4 and (shares.gpu_idle or 0) >= 0.1:
        reason = f"{setup.synchronisations} values are fetched in each step, and the GPU idles for {_percent(shares.gpu_idle or 0)}"
        return Cause("transfer", shares.gpu_idle or 0, "fetch values every 100 steps", reason, "keep losses as tensors (loss.detach()), .item() only where something is printed")
    return None


def _optimizer(shares: Shares, _: Setup, __: float) -> Optional[Cause]:
    if shares.optimizer < 0.25:
        return None
    reason = f"the optimizer takes {_percent(shares.optimizer)} of each step"
    return Cause("optimizer", shares.optimizer, "fused=True", reason, "torch.optim.AdamW(..., fused=True), or step less often (gradient accumulation)")


def _communication(shares: Shares, _: Setup, __: float) -> Optional[Cause]:
    if shares.communication < 0.2:
        return None
    reason = f"{_percent(shares.communication)} of each step waits for other ranks"
    hint = "accumulate gradients under no_sync(), bfloat16 gradients (bf16_compress_hook), and look whether one rank is slower than the others"
    return Cause("communication", shares.communication, "talk less often", reason, hint)


#: The first five are the causes that the guide for OSC's users lists (document 003, "Slow Training").
_ROWS: tuple[Callable[[Shares, Setup, float], Optional[Cause]], ...] = (
    _workers, _pinning, _precision, _architecture, _transfer, _persistent, _optimizer, _communication,
)  # fmt: skip
