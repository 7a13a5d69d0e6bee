# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwarden.torch import _measure
from gpuwarden.torch._measure import Measurement

numbers = st.lists(st.floats(min_value=1e-6, max_value=1e3), min_size=1, max_size=60)


def _taking(clock, times):
    turns = itertools.cycle(times)

    def work():
        clock.now += next(turns)

    return work


def _compare(clock, before, after, **options):
    settings = Measurement(clock=clock, sample_seconds=0.0, seconds=1e9, most_pairs=24, **options)
    return _measure.compare(_taking(clock, before), _taking(clock, after), lambda: None, settings)


def test_half_the_time_is_a_gain_of_a_half(clock):
    found = _compare(clock, [0.010], [0.005])
    assert found.gain == pytest.approx(0.5)
    assert found.faster and not found.slower
    assert found.before_seconds == pytest.approx(0.010)
    assert found.pairs == 24


def test_twice_the_time_is_slower(clock):
    found = _compare(clock, [0.005], [0.010])
    assert found.gain == pytest.approx(-1.0)
    assert found.slower and not found.faster


def test_a_gain_below_the_least_does_not_count_however_sure(clock):
    assert not _compare(clock, [0.0100], [0.0099]).faster
    assert _compare(clock, [0.0100], [0.0099], least_gain=0.005).faster


def test_a_gain_within_the_scatter_does_not_count(clock):
    scattered = [0.004, 0.016, 0.009, 0.030, 0.002, 0.012, 0.022]
    found = _compare(clock, scattered, [t * 0.93 for t in reversed(scattered)])
    assert not found.faster and not found.slower
    assert found.noise > abs(found.gain)


def test_drift_meets_both_alike(clock):
    # Each sample is 3 % slower than the one before it, whichever variant it is of.
    pace = itertools.count()

    def work():
        clock.now += 0.01 * 1.03 ** next(pace)

    settings = Measurement(clock=clock, sample_seconds=0.0, seconds=1e9, most_pairs=24)
    found = _measure.compare(work, work, lambda: None, settings)
    assert not found.faster and not found.slower


def test_no_pair_is_begun_after_the_time_but_the_least_are_made(clock):
    settings = Measurement(clock=clock, seconds=0.0, sample_seconds=0.0, least_pairs=5)
    found = _measure.compare(_taking(clock, [1.0]), _taking(clock, [1.0]), lambda: None, settings)
    assert found.pairs == 5 or found.pairs == 6


def test_short_calls_are_timed_in_bundles(clock):
    calls = []

    def work():
        calls.append(1)
        clock.now += 1e-5

    settings = Measurement(clock=clock, sample_seconds=1e-3, least_pairs=2, most_pairs=2)
    _measure.compare(work, lambda: work(), lambda: None, settings)
    assert len(calls) == 2 * 2 + 2 * 2 * 100


def test_the_device_is_waited_for_before_the_clock_is_read(clock):
    pending = [0.0]

    def launch():
        pending[0] += 0.01  # comes back at once

    def finish():
        clock.now += pending[0]
        pending[0] = 0.0

    settings = Measurement(clock=clock, sample_seconds=0.0, most_pairs=10, seconds=1e9)
    assert _measure.compare(launch, launch, finish, settings).before_seconds == pytest.approx(0.01)


def test_without_values_there_is_no_median():
    assert math.isnan(_measure.median([]))


@given(numbers, st.floats(min_value=0, max_value=1))
def test_a_quantile_lies_within_the_values(values, share):
    assert min(values) <= _measure.quantile(values, share) <= max(values) * (1 + 1e-12)


@given(numbers)
def test_quantiles_rise(values):
    found = [_measure.quantile(values, share / 10) for share in range(11)]
    assert all(a <= b * (1 + 1e-12) for a, b in zip(found, found[1:]))


@given(st.lists(st.floats(min_value=-1, max_value=1), min_size=2, max_size=40), st.floats(min_value=0.001, max_value=0.1))
def test_noise_is_never_below_the_least(values, least):
    assert _measure.noise_of(values, least) >= least
