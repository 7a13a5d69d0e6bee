# SPDX-License-Identifier: Apache-2.0
"""benchmark() on models that move the clock themselves, in milliseconds that the test chose."""

import itertools
import json

import pytest

from gpuwarden._error import Error
from gpuwarden.torch import benchmark


@pytest.fixture
def timed(torch, clock):
    """A model whose calls take these milliseconds, in this order."""

    class Timed(torch.nn.Module):
        def __init__(self, milliseconds):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.times = itertools.cycle(milliseconds)
            self.modes = []

        def forward(self, value):
            self.modes.append((self.training, torch.is_inference_mode_enabled()))
            clock.now += next(self.times) / 1000
            return self.linear(value)

    return Timed


def test_the_figures_are_those_of_the_calls(timed, clock):
    # One call to see whether the inputs fit, then 10 to warm up.
    model = timed([1000] * 11 + [10, 12, 14, 16, 18])
    report = benchmark(model, (4, 8), 5, clock=clock)
    assert report.median_ms == pytest.approx(14)
    assert report.mean_ms == pytest.approx(14)
    assert (report.min_ms, report.max_ms) == (pytest.approx(10), pytest.approx(18))
    assert report.p95_ms == pytest.approx(17.6)
    assert report.batch_size == 4
    assert report.samples_per_second == pytest.approx(4 / 0.014)
    assert (report.iterations, report.warmup) == (5, 10)
    assert len(model.modes) == 16


def test_a_steady_machine_is_not_called_noisy(timed, clock):
    report = benchmark(timed([10]), (4, 8), 20, clock=clock)
    assert not report.noisy and report.notes == ()
    assert report.deviation_ms == pytest.approx(0, abs=1e-9)


def test_scatter_is_told(timed, clock):
    report = benchmark(timed([5, 10, 20, 30, 8]), (4, 8), 50, clock=clock)
    assert report.noisy
    assert report.notes[0].startswith("noisy: half of the calls spread over")


def test_drift_is_told(timed, clock):
    report = benchmark(timed([1] * 11 + [10] * 20 + [11] * 20), (4, 8), 40, clock=clock)
    assert report.noisy and report.drift_percent == pytest.approx(10)


def test_one_outlier_moves_the_maximum_and_not_the_verdict(timed, clock):
    report = benchmark(timed([10] * 50 + [500] + [10] * 60), (4, 8), 100, clock=clock)
    assert not report.noisy
    assert report.max_ms == pytest.approx(500) and report.median_ms == pytest.approx(10)


def test_it_evaluates_without_gradients_and_every_mode_comes_back(torch, timed, clock):
    model = torch.nn.Sequential(timed([1]), torch.nn.Dropout(), torch.nn.BatchNorm1d(8))
    model[2].eval()  # as when a part is frozen
    benchmark(model, (4, 8), 3, clock=clock)
    assert set(model[0].modes) == {(False, True)}
    assert [part.training for part in model] == [True, True, False]
    assert float(model[2].num_batches_tracked) == 0


def test_modes_come_back_after_a_failure(torch):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout())
    with pytest.raises(Error, match="does not take these inputs"):
        benchmark(model, (4, 9))
    assert model.training and model[1].training


def test_a_callables_own_time_does_not_count(torch, timed, clock):
    def slow():
        clock.now += 100
        return torch.ones(2, 8)

    assert benchmark(timed([10]), slow, 5, clock=clock).median_ms == pytest.approx(10)


def test_functions_are_benchmarked_too(torch, clock):
    def double(value):
        clock.now += 0.001
        return value * 2

    report = benchmark(double, torch.ones(3), 5, clock=clock)
    assert report.model == "double" and report.median_ms == pytest.approx(1)


def test_on_a_cpu_nothing_is_known_of_memory_and_energy(timed, clock):
    report = benchmark(timed([10]), (4, 8), 3, clock=clock)
    assert report.peak_memory_bytes is None and report.joules_per_sample is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"iterations": 0}, "iterations must be"),
        ({"iterations": 2.5}, "iterations must be"),
        ({"warmup": -1}, "warmup must be"),
        ({"iterations": True}, "iterations must be"),
        ({"device": "cuda"}, "the model is on cpu, not on cuda"),
        ({"device": "sofa"}, "unknown device"),
    ],
)
def test_wrong_arguments_are_told(timed, options, words):
    with pytest.raises(Error, match=words) as caught:
        benchmark(timed([1]), (4, 8), **options)
    assert caught.value.code == "invalid_argument"


def test_what_cannot_be_called_is_told(torch):
    with pytest.raises(Error, match="a int cannot|an int cannot"):
        benchmark(5, (4, 8))


def test_the_report_is_plain(timed, clock):
    report = benchmark(timed([10]), (4, 8), 3, clock=clock)
    assert json.loads(json.dumps(report.to_dict()))["median_ms"] == report.median_ms
    assert "median" in repr(report) and "10 ms" in repr(report)
    assert "<table>" in report._repr_html_()


def test_it_measures_with_the_real_clock(torch):
    report = benchmark(torch.nn.Linear(8, 8), (4, 8), 5)
    assert 0 < report.min_ms <= report.median_ms <= report.p95_ms <= report.max_ms


# Energy, from a counter that the test moves.


class Counter:
    why = ""

    def __init__(self, readings):
        self.readings = iter(readings)

    def joules(self):
        return next(self.readings)


def _work(clock):
    def work():
        clock.now += 0.1

    return work


def test_energy_is_the_difference_over_at_least_a_second(clock):
    from gpuwarden.torch._energy import joules_per_call

    assert joules_per_call(Counter([100.0, 160.0]), _work(clock), 0.1, clock) == pytest.approx(60 / 10, rel=0.11)
    assert clock.now >= 1.0


@pytest.mark.parametrize("readings", [[None], [100.0, None], [100.0, 50.0]])
def test_a_counter_that_does_not_tell_is_unknown(clock, readings):
    from gpuwarden.torch._energy import joules_per_call

    assert joules_per_call(Counter(readings), _work(clock), 0.1, clock) is None


def test_the_counter_is_found_by_the_gpus_uuid(torch, monkeypatch):
    import gpuwarden
    from gpuwarden.torch._energy import EnergyCounter

    class Snapshot:
        def to_dict(self):
            return {"gpus": [{"uuid": "GPU-aa", "energy_joules": 1.0}, {"uuid": "GPU-1B2C", "energy_joules": 42.5}]}

    class Machine:
        def snapshot(self):
            return Snapshot()

    class Properties:
        uuid = "1b2c"

    monkeypatch.setattr(gpuwarden, "Machine", Machine, raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    assert EnergyCounter(torch, torch.device("cuda", 0)).joules() == 42.5
    Properties.uuid = "ffff"
    stranger = EnergyCounter(torch, torch.device("cuda", 0))
    assert stranger.joules() is None and "does not show" in stranger.why
    assert EnergyCounter(torch, torch.device("cpu")).joules() is None
