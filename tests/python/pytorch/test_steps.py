# SPDX-License-Identifier: Apache-2.0
"""Why training is slow: the judge on records, the monitor on programs that have the fault."""

from __future__ import annotations

import importlib
import sys
import types
from dataclasses import replace

import pytest

from gpuwarden.torch.step_judge import judge
from gpuwarden.torch.step_records import Setup, StepRecord, merged, shares_of

GPU = Setup(device="cuda", capability=(8, 0), num_workers=8, pin_memory=True, persistent_workers=True, cpus=16, precision="bfloat16", operations=400)
FAST = StepRecord(total=0.1, wait=0.002, copy=0.002, optimizer=0.005, gpu_idle=0.002)


def causes(steps, setup):
    return {cause.id: cause for cause in judge(steps, setup).causes}


# The judge, on recorded steps


def test_a_training_that_computes_has_no_cause():
    verdict = judge([FAST] * 5, GPU)
    assert verdict.causes == ()
    assert "nothing stands out" in str(verdict)
    assert verdict.shares.compute == pytest.approx(0.91)


def test_too_few_steps_are_not_judged():
    verdict = judge([StepRecord(total=1.0, wait=0.9)] * 2, GPU)
    assert verdict.causes == ()
    assert "too few" in str(verdict)
    assert judge([], GPU).shares.wait == 0


def test_too_few_workers_are_told_with_the_number_that_helps():
    steps = [StepRecord(total=1.0, wait=0.71)] * 5
    found = judge(steps, replace(GPU, num_workers=0, cpus=4)).causes
    assert [cause.id for cause in found] == ["loader_workers"]
    assert str(found[0]) == "num_workers 0 -> 4: 71 % of each step waits for data"
    assert causes(steps, replace(GPU, num_workers=4, cpus=64))["loader_workers"].change == "num_workers 4 -> 14"


def test_where_all_processors_load_already_the_work_is_to_be_less():
    cause = causes([StepRecord(total=1.0, wait=0.5)] * 5, replace(GPU, num_workers=4, cpus=4))["loader_workers"]
    assert cause.change == "less work in the loader"
    assert "all 4 CPUs" in cause.reason


def test_pageable_memory_is_told_where_copies_take_time():
    steps = [replace(FAST, copy=0.018)] * 5
    assert str(causes(steps, replace(GPU, pin_memory=False))["pinned_memory"]).startswith("pin_memory False -> True: copies to the GPU take 18 %")
    assert "pinned_memory" not in causes(steps, GPU)
    assert "pinned_memory" not in causes([FAST] * 5, replace(GPU, pin_memory=False))


@pytest.mark.parametrize(
    ("capability", "change"),
    [((9, 0), "precision float32 -> bfloat16"), ((7, 0), "precision float32 -> float16 with GradScaler"), ((6, 1), None), (None, None)],
)
def test_float32_is_told_where_the_gpu_has_tensor_cores(capability, change):
    found = causes([FAST] * 5, replace(GPU, precision="float32", capability=capability))
    assert ("mixed_precision" in found) == (change is not None)
    if change:
        assert found["mixed_precision"].change == change


def test_precision_is_no_matter_on_a_cpu_or_where_it_is_unknown():
    assert causes([FAST] * 5, replace(GPU, device="cpu", precision="float32")) == {}
    assert causes([FAST] * 5, replace(GPU, precision=None)) == {}


def test_a_model_of_many_small_operations_is_told():
    setup = replace(GPU, operations=20_000, most_called="cell (LSTMCell)", most_calls=512)
    cause = causes([FAST] * 5, setup)["architecture"]
    assert cause.change == "call cell (LSTMCell) once for all, not 512 times"
    assert "20000 operations of 5 us" in cause.reason
    assert "architecture" not in causes([FAST] * 5, replace(setup, operations=2000))
    assert causes([FAST] * 5, replace(setup, most_calls=2))["architecture"].change == "fewer, larger operations"


def test_copies_that_take_long_though_pinned_are_the_transfer():
    steps = [replace(FAST, copy=0.04)] * 5
    cause = causes(steps, replace(GPU, copied_bytes=400 * 2**20))["transfer"]
    assert "take 40 % of each step (400 MiB at 10.5 GB/s)" in cause.reason


def test_fetching_values_in_each_step_is_told_where_the_gpu_idles():
    steps = [replace(FAST, gpu_idle=0.03)] * 5
    assert "12 values are fetched" in causes(steps, replace(GPU, synchronisations=12))["transfer"].reason
    assert "transfer" not in causes([FAST] * 5, replace(GPU, synchronisations=12))


def test_workers_that_start_with_each_epoch_are_told_apart_from_waiting():
    epoch = [StepRecord(total=1.1, wait=1.0, first_of_epoch=True)] + [StepRecord(total=0.1, wait=0.0)] * 9
    found = causes(epoch * 3, replace(GPU, persistent_workers=False))
    assert list(found) == ["loader_restarts"]
    assert "50 % of the time" in found["loader_restarts"].reason
    assert "loader_restarts" not in causes(epoch * 3, GPU)


def test_optimizer_and_communication_are_told_above_their_bounds():
    assert "optimizer" in causes([replace(FAST, optimizer=0.03)] * 5, GPU)
    assert "communication" in causes([replace(FAST, communication=0.03)] * 5, GPU)


def test_causes_come_with_the_greatest_share_first():
    steps = [StepRecord(total=1.0, wait=0.2, copy=0.3, optimizer=0.0, gpu_idle=0.2)] * 5
    found = judge(steps, replace(GPU, pin_memory=False, num_workers=1)).causes
    assert [cause.id for cause in found] == ["pinned_memory", "loader_workers"]
    assert [cause["id"] for cause in judge(steps, GPU).to_dict()["causes"]] == ["transfer", "loader_workers"]


def test_idle_is_unknown_unless_every_step_tells():
    assert shares_of([FAST, StepRecord(total=0.1)]).gpu_idle is None
    assert shares_of([FAST]).gpu_idle == pytest.approx(0.02)


def test_what_is_learned_later_stays_where_nothing_is_known():
    assert merged(Setup(cpus=3, num_workers=2), cpus=None, num_workers=0) == Setup(cpus=3, num_workers=0)


# The monitor, with a clock that the program moves


def by_hand(clock, loader=None, **options):
    from gpuwarden.torch.steps import StepMonitor

    return StepMonitor(loader, clock=clock, **{"warmup": 0, **options})


def test_a_step_is_split_into_its_parts(clock):
    def loader():
        for i in range(3):
            clock.now += 0.5
            yield i

    monitor = by_hand(clock, loader())
    for _ in monitor:
        with monitor.phase("copy"):
            clock.now += 0.25
        clock.now += 1.0
        with monitor.phase("optimizer"):
            clock.now += 0.125
            with monitor.phase("copy"):
                clock.now += 0.125
    first, second, third = monitor.records()
    assert first.first_of_epoch and not second.first_of_epoch
    assert third == StepRecord(total=2.0, wait=0.5, copy=0.25, optimizer=0.25, communication=0.0)
    assert third.compute == 1.0


def test_the_first_steps_are_not_recorded_and_a_break_ends_a_step(clock):
    monitor = by_hand(clock, range(10), warmup=2)
    for number in monitor:
        clock.now += 1.0
        if number == 4:
            break
    assert len(monitor.records()) == 3
    monitor.end_step()
    assert len(monitor.records()) == 3


def test_parts_that_were_told_are_at_most_the_step(clock):
    monitor = by_hand(clock)
    monitor.begin_step()
    monitor.add("communication", 5.0)
    clock.now += 1.0
    monitor.end_step()
    assert monitor.records()[0].communication == pytest.approx(1.0)


def test_unknown_parts_and_a_missing_loader_are_refused(clock):
    from gpuwarden import Error

    monitor = by_hand(clock)
    with pytest.raises(Error, match="unknown part"):
        with monitor.phase("sleep"):
            pass
    with pytest.raises(Error, match="no loader"):
        next(iter(monitor))


class GpuMarks:
    """A GPU that works off what it is given, behind the host."""

    on_device = True

    def __init__(self, clock):
        self._clock = clock
        self.busy_until = 0.0

    def work(self, seconds):
        self.busy_until = max(self.busy_until, self._clock.now) + seconds

    def mark(self):
        return max(self.busy_until, self._clock.now)

    def seconds(self, start, end):
        return end - start


def test_on_a_gpu_only_a_wait_that_it_notices_counts(clock):
    gpu = GpuMarks(clock)

    def loader():
        for i in range(20):
            clock.now += 0.25 if i < 10 else 2.0
            yield i

    monitor = by_hand(clock, loader(), marks=gpu)
    for _ in monitor:
        gpu.work(1.0)
        clock.now += 0.125
    steps = monitor.records()
    # The GPU is behind the host: loading is hidden behind its work.
    assert steps[5] == StepRecord(total=1.0, wait=0.0, gpu_idle=0.0)
    assert steps[-1].gpu_idle == pytest.approx(2.125 - 1.0)
    assert steps[-1].wait == pytest.approx(1.125)
    assert steps[-1].total == pytest.approx(2.125)


# What the monitor sees of programs; test_slow_training.py has those that have a fault


def test_what_a_step_copies_fetches_and_multiplies_is_counted(torch):
    from gpuwarden.torch import step_monitor

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with step_monitor([torch.ones(256, 256)] * 8, model=model, optimizer=optimizer, watch_copies=True) as monitor:
        for batch in monitor:
            batch.to("meta")
            monitor.move({"x": (batch, 3)}, "meta")
            for _ in range(6):
                model(batch[:, :4]).sum().item()
            optimizer.step()
    assert monitor.setup.synchronisations == 6
    assert monitor.setup.copied_bytes == 256 * 256 * 4
    assert monitor.setup.precision == "float32"
    assert (monitor.setup.most_called, monitor.setup.most_calls) == (None, None), "the model itself is no part of it"
    assert all(record.copy > 0 and record.optimizer > 0 for record in monitor.records())
    assert monitor.verdict().steps == 6
    assert "step" not in optimizer.__dict__, "the optimizer is as it was"


def test_what_a_loader_is_told_stands_in_the_setup(torch):
    from gpuwarden.torch import step_monitor

    data = torch.utils.data.TensorDataset(torch.zeros(6, 4))
    for pinned in (False, True):
        with step_monitor(torch.utils.data.DataLoader(data, batch_size=2, pin_memory=pinned)) as monitor:
            pass
        assert (monitor.setup.pin_memory, monitor.setup.num_workers) == (pinned, 0)


def test_the_optimizers_of_a_process_are_heard_without_being_named(torch):
    from gpuwarden.torch import step_monitor

    if not hasattr(importlib.import_module("torch.optim.optimizer"), "register_optimizer_step_pre_hook"):
        pytest.skip("PyTorch before 2.0 has no hooks of all optimizers")
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    def one_step():
        parameter.sum().backward()
        optimizer.step()

    with step_monitor(range(6)) as monitor:
        for _ in monitor:
            one_step()
    assert all(record.optimizer > 0 for record in monitor.records())
    one_step()  # outside: nothing is heard, nothing breaks


def test_schedulers_take_an_optimizer_that_is_watched(torch, recwarn):
    from gpuwarden.torch import step_monitor

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)
    with step_monitor(range(4), optimizer=optimizer) as monitor:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for _ in monitor:
            optimizer.step()
            scheduler.step()
    assert all(record.optimizer > 0 for record in monitor.records())
    optimizer.step()
    scheduler.step()
    assert [str(one.message) for one in recwarn if "scheduler" in str(one.message)] == []


# Trainer and Lightning, which are not imported here


def test_the_trainers_callback_takes_what_lies_between_steps_for_waiting(torch, clock, monkeypatch):
    module = types.ModuleType("transformers")
    module.TrainerCallback = object
    monkeypatch.setitem(sys.modules, "transformers", module)
    from gpuwarden.torch import trainer_callback

    callback = trainer_callback(warmup=0, clock=clock)
    callback.on_train_begin(None, None, None, train_dataloader=types.SimpleNamespace(num_workers=0), model=torch.nn.Linear(2, 2))
    callback.on_epoch_begin(None, None, None)
    for number in range(4):
        clock.now += 0.75
        callback.on_step_begin(None, None, None)
        clock.now += 0.125
        callback.on_pre_optimizer_step(None, None, None)
        clock.now += 0.125
        callback.on_optimizer_step(None, None, None)
        if number != 2:  # an exception in a step leaves its end out
            callback.on_step_end(None, None, None)
        clock.now += 10
        callback.on_evaluate(None, None, None)
    callback.on_train_end(None, None, None)
    first = callback.monitor.records()[0]
    assert first == StepRecord(total=1.0, wait=0.75, optimizer=0.125, first_of_epoch=True)
    assert callback.monitor.setup.num_workers == 0
    assert "waiting for data" in callback.report


def test_lightnings_callback(torch, clock, monkeypatch):
    for name in ("lightning", "lightning.pytorch"):
        module = types.ModuleType(name)
        module.Callback = object
        monkeypatch.setitem(sys.modules, name, module)
    from gpuwarden.torch import lightning_callback

    callback = lightning_callback(warmup=0, clock=clock)
    trainer = types.SimpleNamespace(train_dataloader=types.SimpleNamespace(num_workers=2))
    callback.on_train_start(trainer, torch.nn.Linear(2, 2))
    callback.on_train_epoch_start(trainer, None)
    for number in range(3):
        clock.now += 0.5
        callback.on_train_batch_start(trainer, None, None, number)
        clock.now += 0.5
        callback.on_train_batch_end(trainer, None, None, None, number)
    callback.on_train_end(trainer, None)
    assert [record.wait for record in callback.monitor.records()] == [0.5, 0.5, 0.5]
    assert callback.monitor.setup.num_workers == 2


def test_a_framework_that_is_missing_is_said(torch, monkeypatch):
    from gpuwarden import Error
    from gpuwarden.torch import trainer_callback

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(Error, match="transformers cannot be imported"):
        trainer_callback()
