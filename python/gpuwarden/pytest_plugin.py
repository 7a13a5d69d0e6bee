# SPDX-License-Identifier: Apache-2.0
"""Tests on simulated GPUs.

    @pytest.mark.gpus("h100x8", faults=["3:xid=79"])
    def test_avoids_broken_gpus(gpus):
        assert 3 not in [gpu.index for gpu in gpuwarden.select(count=7).selected]

The mark takes what gpuwarden.simulate() takes and simulates the fleet for the test; the fixture `gpus` is the
Simulation, to inject more.
"""
from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gpuwarden._simulation import Simulation

_DEFAULT_FLEET = "h100x8"


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark."""
    config.addinivalue_line(
        "markers",
        'gpus(fleet="h100x8", faults=[], shared=False): run the test on a simulated fleet of GPUs, with faults ("3:xid=79")',
    )


@pytest.fixture(autouse=True)
def _marked_gpus(request: pytest.FixtureRequest) -> Iterator[Simulation | None]:
    mark = request.node.get_closest_marker("gpus")
    if mark is None:
        yield None
        return
    with _simulation_of(mark) as running:
        yield running


def _simulation_of(mark: pytest.Mark) -> Simulation:
    """What the mark asks for; raises Error for arguments that simulate() does not have."""
    from gpuwarden._error import invalid
    from gpuwarden._simulation import simulate

    asked = inspect.signature(simulate)
    hint = f"it has: {', '.join(asked.parameters)}"
    for name in mark.kwargs:
        if name not in asked.parameters:
            raise invalid(f"pytest.mark.gpus has no argument '{name}'", hint)
    try:
        given = asked.bind_partial(*mark.args, **mark.kwargs).arguments
    except TypeError as problem:
        raise invalid(f"pytest.mark.gpus: {problem}", hint) from None
    return simulate(**{"fleet": _DEFAULT_FLEET, **given})


# Made here where there is no mark: a parameter or a fixture of the tests' own by this name takes its place.
@pytest.fixture
def gpus(_marked_gpus: Simulation | None) -> Iterator[Simulation]:
    """The simulated fleet that the mark `gpus` names; h100x8 without one."""
    if _marked_gpus is not None:
        yield _marked_gpus
        return
    from gpuwarden._simulation import simulate

    with simulate(_DEFAULT_FLEET) as running:
        yield running
