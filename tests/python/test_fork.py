# SPDX-License-Identifier: Apache-2.0
"""Processes that are forked while a fleet is simulated, as multiprocessing's workers are, are in that fleet."""
from __future__ import annotations

import multiprocessing
import os

import pytest

import gpuwarden

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def seen_by_a_worker(gpu: int) -> tuple[bool, str, str]:
    one = gpuwarden.snapshot().gpus[gpu]
    return gpuwarden.default_machine().simulated, one.name, one.state


def test_workers_of_multiprocessing_see_the_tests_fleet():
    with gpuwarden.simulate("h100x8", faults=["3:xid=79"]):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            seen = pool.map(seen_by_a_worker, [0, 3])
    assert [one[0] for one in seen] == [True, True]
    assert "H100" in seen[0][1]
    assert [one[2] for one in seen] == ["available", "lost"]


def in_a_child(work) -> None:
    """Runs it in a fork; what it raises fails the test."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_reserves_in_the_fleet_and_changes_it():
    with gpuwarden.simulate("h100x8") as fleet:
        held = gpuwarden.reserve(count=7)

        def work():
            assert len(gpuwarden.leases().leases) == 7
            own = gpuwarden.reserve(count=1)
            assert own.uuids[0] not in held.uuids
            with pytest.raises(gpuwarden.Error, match="no GPU is available"):
                gpuwarden.reserve(count=1)
            own.release()
            assert len(gpuwarden.leases().leases) == 7
            fleet.fault(5, "xid=79")
            assert fleet.machine.snapshot().gpus[5].state == "lost"

        in_a_child(work)
        assert gpuwarden.snapshot().gpus[5].state == "lost"
        assert held.held and {lease.holders[0].pid for lease in gpuwarden.leases().leases} == {os.getpid()}


def test_a_child_that_leaves_the_block_ends_nothing_of_its_parents():
    simulation = gpuwarden.simulate("h100x8")
    with simulation:

        def work():
            assert gpuwarden.default_machine().simulated
            simulation.__exit__()
            assert not gpuwarden.default_machine().simulated
            with gpuwarden.simulate("a100x4"):
                assert len(gpuwarden.snapshot().gpus) == 4

        in_a_child(work)
        assert len(gpuwarden.snapshot().gpus) == 8
        assert os.path.isdir(os.environ["GPUWARDEN_SIM_DIR"])


def test_a_child_of_a_simulated_environment_is_in_it_too(monkeypatch):
    monkeypatch.setenv("GPUWARDEN_SIMULATE", "a100x4")
    assert len(gpuwarden.snapshot().gpus) == 4

    def work():
        assert gpuwarden.default_machine().simulated and len(gpuwarden.snapshot().gpus) == 4

    in_a_child(work)


def test_a_simulated_machine_of_the_parents_can_be_opened_again_in_a_child():
    machine = gpuwarden.Machine(simulate="h100x8")

    def work():
        with pytest.raises(gpuwarden.Error, match="forked"):
            machine.snapshot()
        with gpuwarden.Machine(simulate="h100x8") as own:
            assert len(own.snapshot().gpus) == 8
            with pytest.raises(gpuwarden.Error, match="open in this process already"):
                gpuwarden.Machine(simulate="h100x8")

    in_a_child(work)
    assert len(machine.snapshot().gpus) == 8
    machine.close()
