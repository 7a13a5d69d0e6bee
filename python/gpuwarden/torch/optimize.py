# SPDX-License-Identifier: Apache-2.0
"""optimize_model: tries what PyTorch offers to make a model faster, and keeps what is measured to help.

    model = gpuwarden.torch.optimize_model(model, "detector", (1, 3, 224, 224), level="aggressive")
    print(model.report)
    original = gpuwarden.torch.undo(model)

The model that is handed in is never changed: the optimised one shares the tensors that no step replaced."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterable

from . import _cache
from ._common import capability, device_name, device_of, error, first_line, load_torch, tensors_of
from ._inputs import Call, read_inputs, signature
from ._measure import Measurement
from .levels import ModelPrecision, OptimizationLevel, choice_of, reaches
from .report import KEPT, LEFT_OUT, OptimizationReport, StepResult

__all__ = ["Measurement", "optimize_model", "report_of", "undo"]

_DRAWS = 3  #: of a callable that gives inputs, for the comparison of outputs
_TOO_NOISY = 10  #: percent; what was measured so badly is measured again the next time
_WRAPPED = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")

#: Of models that came back as they were.
_reports: weakref.WeakKeyDictionary[Any, OptimizationReport] = weakref.WeakKeyDictionary()


class _Job:
    """What is asked, checked."""

    def __init__(
        self, torch: Any, model: Any, name: Any, level: Any, precision: Any, without: Iterable[str], training: bool
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise error("invalid_argument", f"a model is a torch.nn.Module, not a {type(model).__name__}")
        if name is not None and not isinstance(name, str):
            raise error("invalid_argument", f"a model's name is text, not a {type(name).__name__}")
        self.torch = torch
        self.model = model
        self.name = name or type(model).__name__
        self.level = choice_of(OptimizationLevel, level, "optimisation level")
        self.precision = choice_of(ModelPrecision, precision, "precision")
        self.without = frozenset([without] if isinstance(without, str) else without)
        self.training = training
        self.device = device_of(torch, model)
        self.notes: list[str] = []
        from ._steps import STEPS

        unknown = self.without - {step.id for step in STEPS} - {step.group for step in STEPS if step.group}
        if unknown:
            raise error("invalid_argument", f"unknown step {sorted(unknown)[0]!r}", ", ".join(step.id for step in STEPS))

    def report(self, steps: Iterable[StepResult], **figures: Any) -> OptimizationReport:
        """Figures that are not given were not measured."""
        filled = {"original_ms": None, "optimized_ms": None, "relative_error": None, **figures}
        return OptimizationReport(
            self.name,
            self.level.value,
            self.precision.value,
            device_name(self.torch, self.device),
            str(self.torch.__version__),
            self.training,
            steps=tuple(steps),
            notes=tuple(self.notes),
            **filled,
        )


def optimize_model(
    model: Any,
    name: str | None = None,
    example_inputs: Any = None,
    level: OptimizationLevel | str = OptimizationLevel.BASIC,
    precision: ModelPrecision | str = ModelPrecision.FP32,
    *,
    training: bool = False,
    without: Iterable[str] = (),
    tolerance: float | None = None,
    cache: bool | str | Path = True,
    measurement: Measurement | None = None,
    compile_backend: Any = None,
) -> Any:
    """An optimised form of `model`, on the device where it is; the model itself where nothing helped.

    Each step of the level and precision is tried on `example_inputs` (a shape, a tensor, a tuple of arguments, a dict
    of keywords, or a callable that gives one of these) and kept where a call is measured to be faster by more than the
    noise, or to need less memory and not to be slower, while the output stays within the tolerance of the original's.
    Without example inputs nothing can be measured, and only evaluation mode is set. The report says what was done and
    why: `report_of(result)`.

    training: the result is to be trained: steps that would break that are refused. Otherwise it is in evaluation mode
    whatever mode the model is in, and refuses to be trained.
    without: ids or groups of steps that are not wanted ("compile", "channels_last").
    tolerance: largest relative error of the output, in place of each step's own (1e-4 for float32, 5e-3 for TF32, 1e-2
    for fp16, 4e-2 for bf16, 1e-1 for int8).
    cache: False asks and keeps nothing on disk; a path is a folder of one's own.
    compile_backend: for torch.compile; None is PyTorch's own.

    Raises Error: unavailable without PyTorch, invalid_argument for arguments that are wrong, and for example inputs
    that the model itself refuses. Whatever else fails is a refused step; the model stays as it was."""
    torch = load_torch()
    job = _Job(torch, model, name, level, precision, without, training)
    if report_of(model) is not None and hasattr(model, "_variant"):
        raise error("invalid_argument", f"{job.name} is optimised already", "undo(model) gives the original back")
    if job.level is OptimizationLevel.NONE:
        return _as_it_is(job, "the level is none")
    if example_inputs is None:
        job.notes.append("no example inputs: nothing could be measured, so no step was tried; pass example_inputs")
        return _as_it_is(job, "no example inputs")
    if type(model).__name__ in _WRAPPED:
        job.notes.append("the model is wrapped for several GPUs: optimise it before it is wrapped")
        return _as_it_is(job, f"the model is a {type(model).__name__}")
    calls = _read_calls(job, example_inputs)
    return _optimize(job, calls, tolerance, cache, measurement or Measurement(), compile_backend)


def _read_calls(job: _Job, example_inputs: Any) -> list[Call]:
    draw = read_inputs(job.torch, job.model, example_inputs, job.device)
    varies = callable(example_inputs) and not isinstance(example_inputs, job.torch.Tensor)
    return [draw() for _ in range(_DRAWS if varies else 1)]


def _as_it_is(job: _Job, why: str) -> Any:
    """Without any step; in evaluation mode unless the level is none."""
    from ._steps import STEPS

    steps = [StepResult(step.id, step.summary, LEFT_OUT, why) for step in STEPS]
    return _hand_over(job, None, job.report(steps))


def _hand_over(job: _Job, variant: Any, report: OptimizationReport) -> Any:
    """The optimised module; the model itself where nothing was done to it."""
    evaluate = not job.training and job.model.training and job.level is not OptimizationLevel.NONE
    if not report.kept and not evaluate:
        _reports[job.model] = report
        return job.model
    from ._variant import Variant, sharing_copy
    from ._wrapper import OptimizedModel

    if variant is None:
        variant = Variant(sharing_copy(job.model, share_buffers=True).eval())
    return OptimizedModel(job.model, variant, report, job.training)


def _optimize(job: _Job, calls: list[Call], tolerance: float | None, cache: Any, measurement: Measurement, backend: Any) -> Any:
    from ._steps import STEPS, Situation
    from ._trial import Trial, undisturbed
    from ._variant import Variant, sharing_copy

    situation = Situation(job.model, job.device, capability(job.torch, job.device), calls[0], None, job.training, backend)
    with undisturbed(job.model, job.device):
        try:
            copied = sharing_copy(job.model, share_buffers=job.training)
        except Exception as problem:
            job.notes.append(f"the model cannot be copied, so nothing was tried on it: {first_line(problem)}")
            report = job.report(StepResult(s.id, s.summary, LEFT_OUT, "the model cannot be copied") for s in STEPS)
            _reports[job.model] = report
            return job.model
        original = Variant(copied if job.training else copied.eval())
        trial = Trial(situation, calls, measurement, tolerance)
        try:
            why = trial.look_at_original(original)
        except Exception as problem:
            raise error(
                "invalid_argument",
                f"{job.name} does not take the example inputs: {first_line(problem)}",
                "give what the model is called with: a shape, a tensor, a tuple, a dict or a callable",
            ) from problem
        if why:
            job.notes.append(f"nothing can be compared: {why}")
            return _as_it_is(job, "outputs cannot be compared")
        floats = [t.dtype for t in tensors_of(job.torch, trial.expected) if t.is_floating_point()]
        trial.situation = replace(situation, output_dtype=floats[0] if floats else None)
        key, folder = _key_of(job, calls[0], tolerance), Path(cache) if isinstance(cache, (str, Path)) else None
        if cache is not False:
            done = _from_cache(job, trial, original, key, folder)
            if done is not None:
                return done
        return _measured(job, trial, original, None if cache is False else key, folder)


def _key_of(job: _Job, call: Call, tolerance: float | None) -> dict[str, Any]:
    torch = job.torch
    return {
        "structure": _cache.structure_of(job.model),
        "inputs": signature(torch, call),
        "device": device_name(torch, job.device),
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "threads": torch.get_num_threads(),
        "level": job.level.value,
        "precision": job.precision.value,
        "training": job.training,
        "without": sorted(job.without),
        "tolerance": tolerance,
    }


def _rows(job: _Job, situation: Any) -> tuple[list[Any], dict[str, str]]:
    """The steps of this precision, and why some are left out."""
    from ._steps import STEPS

    rows = [step for step in STEPS if job.precision in step.precisions]
    return rows, {step.id: _why_not(job, step, situation) for step in rows}


def _why_not(job: _Job, step: Any, situation: Any) -> str:
    if not reaches(job.level, step.level):
        return f"from level {step.level.value} on"
    if step.id in job.without or step.group in job.without:
        return "left out by the caller"
    if job.training and step.breaks_training:
        return f"it would break training: {step.breaks_training}"
    return str(step.fits(situation))


def _measured(job: _Job, trial: Any, original: Any, key: dict[str, Any] | None, folder: Path | None) -> Any:
    rows, reasons = _rows(job, trial.situation)
    current, results, tolerance = original, [], 0.0
    at = 0
    while at < len(rows):
        group = [rows[at]]
        while rows[at].group and at + len(group) < len(rows) and rows[at + len(group)].group == rows[at].group:
            group.append(rows[at + len(group)])
        current, tried, tolerance = trial.run(current, group, reasons, tolerance)
        results += tried
        at += len(group)
    figures: dict[str, Any] = {"original_ms": None, "optimized_ms": None, "relative_error": 0.0}
    whole = trial.compare(original, current)
    figures["original_ms"] = 1000 * whole.before_seconds
    figures["optimized_ms"] = 1000 * (whole.after_seconds if current is not original else whole.before_seconds)
    if current is not original:
        figures["relative_error"] = trial.error_of(current)[0]
    report = job.report(results, **figures)
    if key is not None and any((step.noise_percent or 0) > _TOO_NOISY for step in results):
        note = f"not remembered: the machine was too busy to measure well (noise above {_TOO_NOISY} %)"
        report = replace(report, notes=(*report.notes, note))
    elif key is not None:
        answer = {"steps": report.to_dict()["steps"], "original_ms": report.original_ms, "optimized_ms": report.optimized_ms}
        note = _cache.write(key, answer, folder)
        if note:
            report = replace(report, notes=(*report.notes, note))
    return _hand_over(job, current, report)


def _from_cache(job: _Job, trial: Any, original: Any, key: dict[str, Any], folder: Path | None) -> Any:
    """What was kept the last time, made again and its output compared; None where that cannot be done."""
    rows, reasons = _rows(job, trial.situation)
    answer, note = _cache.read(key, tuple(step.id for step in rows), folder)
    if note:
        job.notes.append(note)
    if answer is None:
        return None
    current, allowed = original, 0.0
    try:
        for result in answer["steps"]:
            if result.outcome != KEPT:
                continue
            row = next(step for step in rows if step.id == result.id)
            if reasons[row.id]:
                raise RuntimeError(f"{row.id}: {reasons[row.id]}")
            current = row.apply(trial.situation, current)
            allowed = max(allowed, trial.tolerance_of(row))
        apart, why = trial.error_of(current)
        if why or apart > allowed and current is not original:
            raise RuntimeError(why or f"the output's relative error is {apart:.1e}, more than {allowed:.0e}")
    except Exception as problem:
        job.notes.append(f"the cached result does not fit any more, and was measured anew: {first_line(problem)}")
        return None
    figures = {"original_ms": answer["original_ms"], "optimized_ms": answer["optimized_ms"], "relative_error": apart}
    return _hand_over(job, current, job.report(answer["steps"], from_cache=True, **figures))


def report_of(model: Any) -> OptimizationReport | None:
    """What optimize_model did to it, also where the model came back as it was; None for a model it never saw."""
    report = getattr(model, "report", None) if type(model).__name__ == "OptimizedModel" else None
    if isinstance(report, OptimizationReport):
        return report
    try:
        return _reports.get(model)
    except TypeError:  # not hashable, or no weak references to it
        return None


def undo(model: Any) -> Any:
    """The model as it was handed to optimize_model, which never changed it. Raises Error (invalid_argument) for a model
    that optimize_model never saw."""
    if report_of(model) is None:
        raise error("invalid_argument", "this model did not come from optimize_model")
    return getattr(model, "original", model) if type(model).__name__ == "OptimizedModel" else model
