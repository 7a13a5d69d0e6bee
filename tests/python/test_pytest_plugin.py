# SPDX-License-Identifier: Apache-2.0
"""The mark and the fixture that users' own tests have."""
from __future__ import annotations

import pytest


@pytest.fixture
def run(request: pytest.FixtureRequest, pytester: pytest.Pytester):
    """Runs the tests in the folder. An installed package brings its plugin along; the tree's own has to be named."""
    installed = request.config.pluginmanager.has_plugin("gpuwarden")
    named = [] if installed else ["-p", "gpuwarden.pytest_plugin"]
    return lambda: pytester.runpytest_subprocess("-p", "no:cacheprovider", *named)


def test_a_marked_test_sees_the_fleet_and_its_faults(pytester: pytest.Pytester, run):
    pytester.makepyfile("""
        import gpuwarden, pytest

        @pytest.mark.gpus("a100x4", faults=["3:xid=79"])
        def test_fleet(gpus):
            assert "A100" in gpuwarden.snapshot().gpus[0].name
            assert gpuwarden.snapshot().gpus[3].state == "lost"
            gpus.fault(2, "xid=79")
            assert not gpuwarden.select(count=3).satisfied

        def test_without_mark(gpus):
            assert len(gpuwarden.snapshot().gpus) == 8

        def test_without_gpus():
            assert not gpuwarden.default_machine().simulated

        @pytest.mark.parametrize("gpus", [1])
        def test_with_a_parameter_of_that_name(gpus):
            assert gpus == 1 and not gpuwarden.default_machine().simulated
    """)
    run().assert_outcomes(passed=4)


def test_a_wrong_fault_is_an_error_of_the_test(pytester: pytest.Pytester, run):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.gpus("h100x8", faults=["nonsense"])
        def test_fleet():
            pass
    """)
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'nonsense' is not GPU:FAULT*"])


def test_the_mark_takes_what_simulate_takes(pytester: pytest.Pytester, run):
    pytester.makepyfile("""
        import gpuwarden, pytest

        @pytest.mark.gpus(fleet="a100x4")
        def test_by_name():
            assert len(gpuwarden.snapshot().gpus) == 4

        @pytest.mark.gpus("a100x4", ["1:xid=79"])
        def test_by_position():
            assert gpuwarden.snapshot().gpus[1].state == "lost"

        @pytest.mark.gpus(faults="7:xid=79")
        def test_the_usual_fleet_with_one_fault():
            assert gpuwarden.snapshot().gpus[7].state == "lost"
    """)
    run().assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("fault=['3:xid=79']", "*pytest.mark.gpus has no argument 'fault'*"),
        ("'h100x8', fleets='a100x4'", "*pytest.mark.gpus has no argument 'fleets'*"),
        ("'h100x8', fleet='a100x4'", "*pytest.mark.gpus: multiple values for argument 'fleet'*"),
        ("'h100x8', [], False, 4", "*pytest.mark.gpus: too many positional arguments*"),
        ("8", "*fleet must be a text, not 8*"),
    ],
)
def test_a_mark_that_is_written_wrong_says_what_it_has(pytester: pytest.Pytester, run, given: str, told: str):
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.gpus({given})
        def test_fleet():
            pass
    """)
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([told])
