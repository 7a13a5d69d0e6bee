# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows: tables of answers, and every name after a dot."""

from __future__ import annotations

import subprocess
import sys

import gpuwarden


def test_a_plan_shows_its_verdict_and_its_strategies():
    plan = gpuwarden.plan("llama-3-8b", gpus="8xh100")
    shown = plan._repr_html_()
    assert f"8 x NVIDIA H100 80GB HBM3: {plan.verdict}" in shown
    assert "<th>memory of each GPU</th>" in shown
    assert shown.count("<tr>") == 1 + len(plan.strategies)
    assert f"<td>{plan.strategies[0].name}</td>" in shown


def test_compatibility_shows_the_answer_of_its_kind_as_tables():
    shown = gpuwarden.compat("cu128")._repr_html_()
    assert "<td>min_driver</td><td>570.26</td>" in shown
    matrix = gpuwarden.compat(matrix=True)
    shown = matrix._repr_html_()
    assert shown.count("<tr>") == 1 + len(matrix.answer.matrix)
    assert "<th>gpu</th>" in shown and "Tesla K80" in shown
    with gpuwarden.simulate("h100x8"):
        here = gpuwarden.compat()._repr_html_()
        assert "SIMULATED" in here and "<p>toolkits</p>" in here
    assert "<script>" not in gpuwarden.Value({"x": "<script>"})._repr_html_()


def test_every_name_that_can_be_asked_for_is_listed_without_torch():
    program = """
import sys, gpuwarden
names = dir(gpuwarden)
for module in (gpuwarden.distributed, gpuwarden.environment, gpuwarden.gpu, gpuwarden.profile, gpuwarden.torch):
    assert set(module.__all__) <= set(names), set(module.__all__) - set(names)
assert {"GPUManager", "CUDATroubleshooter", "setup_gpu_environment", "optimize_model", "snapshot"} <= set(names)
assert all(hasattr(gpuwarden, name) for name in names)
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
