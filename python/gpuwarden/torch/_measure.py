# SPDX-License-Identifier: Apache-2.0
"""Timing that knows its own noise: two ways of doing the same, measured in turn. Knows nothing of PyTorch."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Callable, Sequence

#: Scales a median absolute deviation to a standard deviation, and that to the error of a median (normal errors).
_SIGMA_OF_MAD = 1.4826
_ERROR_OF_MEDIAN = 1.2533
#: A gain counts from this many standard errors on.
_ERRORS = 3.0


@dataclass(frozen=True)
class Measurement:
    """How long and how carefully two variants are compared."""

    #: Pairs of samples, at least and at most.
    least_pairs: int = 10
    most_pairs: int = 60
    #: No more pairs are begun after this time, once there are `least_pairs`.
    seconds: float = 2.0
    #: A sample is as many calls as take about this long, so that a call of microseconds can be timed.
    sample_seconds: float = 0.005
    #: A smaller gain does not count, however sure it is: 0.02 is 2 %.
    least_gain: float = 0.02
    #: Seconds, rising.
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class Comparison:
    """What pairs of samples showed. Times are seconds a call."""

    before_seconds: float
    after_seconds: float
    gain: float  #: share of the time saved: 0.25 is a quarter; negative where it became slower
    noise: float  #: what a gain has to exceed: so much may be chance
    pairs: int

    @property
    def faster(self) -> bool:
        return self.gain > self.noise

    @property
    def slower(self) -> bool:
        return self.gain < -self.noise


def median(values: Sequence[float]) -> float:
    """The middle value; nan without any."""
    return quantile(values, 0.5)


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the values beside it; nan without any."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: Sequence[float]) -> float:
    """A standard deviation that outliers do not move: the median absolute deviation, scaled."""
    middle = median(values)
    return _SIGMA_OF_MAD * median([abs(value - middle) for value in values])


def noise_of(differences: Sequence[float], least: float) -> float:
    """What the median of paired differences has to exceed to be no chance."""
    if len(differences) < 2:
        return math.inf
    standard_error = _ERROR_OF_MEDIAN * spread(differences) / math.sqrt(len(differences))
    return max(least, _ERRORS * standard_error)


def _sample(work: Callable[[], object], finish: Callable[[], None], calls: int, clock: Callable[[], float]) -> float:
    finish()
    begin = clock()
    for _ in range(calls):
        work()
    finish()
    return (clock() - begin) / calls


def compare(
    before: Callable[[], object],
    after: Callable[[], object],
    finish: Callable[[], None],
    options: Measurement,
) -> Comparison:
    """Times both in turn, the first of each pair by turns, so that whatever drifts (clocks, heat, neighbours) meets
    both. `finish` waits for the device. The gain is the median over the pairs; what may be chance is three standard
    errors of that median, and at least `least_gain`."""
    clock = options.clock
    once = max(_sample(before, finish, 2, clock), _sample(after, finish, 2, clock), 1e-9)
    calls = max(1, min(10_000, math.ceil(options.sample_seconds / once)))
    begin = clock()
    befores: list[float] = []
    afters: list[float] = []
    ratios: list[float] = []
    while len(ratios) < options.most_pairs:
        if len(ratios) >= options.least_pairs and clock() - begin > options.seconds:
            break
        if len(ratios) % 2 == 0:
            a = _sample(before, finish, calls, clock)
            b = _sample(after, finish, calls, clock)
        else:
            b = _sample(after, finish, calls, clock)
            a = _sample(before, finish, calls, clock)
        befores.append(a)
        afters.append(b)
        # Logarithms treat twice and half as fast alike: no bias where single samples scatter.
        ratios.append(math.log(a / b) if a > 0 and b > 0 else 0.0)
    gain = -math.expm1(-median(ratios))
    return Comparison(median(befores), median(afters), gain, noise_of(ratios, options.least_gain), len(ratios))
