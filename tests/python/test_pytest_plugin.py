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
