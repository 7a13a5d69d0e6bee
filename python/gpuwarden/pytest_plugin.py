# SPDX-License-Identifier: Apache-2.0
"""Tests on simulated GPUs.

    @pytest.mark.gpus("h100x8", faults=["3:xid=79"])
    def test_avoids_broken_gpus(gpus):
        assert 3 not in [gpu.index for gpu in gpuwarden.select(count=7).selected]

The mark simulates the fleet for the test; the fixture `gpus` is the Simulation, to inject more.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gpuwarden._simulation import Simulation

_DEFAULT_FLEET = "h100x8"


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark."""
    config.addinivalue_line(
        "markers", 'gpus(fleet, faults=[]): run the test on a simulated fleet of GPUs ("h100x8"), with faults ("3:xid=79")'
    )


@pytest.fixture(autouse=True)
def _marked_gpus(request: pytest.FixtureRequest) -> Iterator[Simulation | None]:
    mark = request.node.get_closest_marker("gpus")
    if mark is None:
        yield None
        return
    from gpuwarden._simulation import simulate

    fleet = mark.args[0] if mark.args else _DEFAULT_FLEET
    with simulate(fleet, faults=mark.kwargs.get("faults", ())) as running:
        yield running


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
