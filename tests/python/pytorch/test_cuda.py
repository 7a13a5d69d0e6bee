# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can show. scripts/gpu_acceptance.sh runs these; elsewhere they are skipped."""

import os
import subprocess
import sys

import pytest

from gpuwarden.torch import benchmark, memory_fraction, memory_pool, memory_status, optimize_model, report_of, undo

pytestmark = pytest.mark.cuda


@pytest.fixture
def network(torch):
    torch.manual_seed(1)
    layers = [
        torch.nn.Conv2d(3, 64, 3, padding=1),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 64, 3, padding=1),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    ]
    return torch.nn.Sequential(*layers).cuda().eval()


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "mixed", "int8"])
@pytest.mark.parametrize("level", ["basic", "aggressive", "experimental"])
def test_every_level_and_precision_agrees_with_the_original(torch, network, cache, level, precision):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    optimized = optimize_model(network, "net", (16, 3, 64, 64), level, precision, cache=cache)
    report = report_of(optimized)
    print(report)
    inputs = torch.randn(16, 3, 64, 64, device="cuda")
    with torch.no_grad():
        expected, found = network(inputs), optimized(inputs)
    assert found.dtype is torch.float32
    assert float((expected - found).norm() / expected.norm()) < 0.2
    assert undo(optimized) is network
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_cuda_graphs_and_autotuning_are_tried(torch, network, cache):
    report = report_of(optimize_model(network, "net", (16, 3, 64, 64), "experimental", cache=cache))
    for name in ("compile", "compile_cuda_graphs", "compile_max_autotune"):
        step = next(step for step in report.steps if step.id == name)
        assert step.outcome in ("kept", "refused"), step


def test_a_benchmark_knows_memory_and_energy(torch, network):
    report = benchmark(network, (16, 3, 224, 224), 50)
    print(report)
    assert report.peak_memory_bytes > 16 * 3 * 224 * 224 * 4
    assert report.joules_per_sample is None or report.joules_per_sample > 0
    assert report.joules_per_sample is not None or any(note.startswith("energy:") for note in report.notes)


def test_the_status_follows_an_allocation(torch):
    before = memory_status(0)
    held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda:0")
    after = memory_status(0)
    assert after.allocated_bytes - (before.allocated_bytes or 0) >= held.numel()
    assert after.device_free_bytes < after.device_total_bytes


def test_a_pool_holds_what_is_allocated_inside(torch):
    with memory_pool("part", 0) as scope:
        held = torch.empty(32 << 20, dtype=torch.uint8, device="cuda:0")
    if scope.reserved_bytes() is not None:
        assert scope.reserved_bytes() >= held.numel()


def test_a_fraction_is_kept(torch):
    try:
        allowed = memory_fraction(0.05, 0)
        with pytest.raises(RuntimeError):
            torch.empty(2 * allowed, dtype=torch.uint8, device="cuda:0")
    finally:
        memory_fraction(1.0, 0)


def test_gpuwardens_pool_is_pytorchs_allocator():
    """In a process of its own: an allocator cannot be changed back."""
    program = """
import torch
from gpuwarden.torch import memory_status, memory_summary, pool_status, use_pool
use_pool()
held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
held.fill_(7)
status = memory_status(0)
assert status.allocator == "gpuwarden", status
assert status.allocated_bytes >= held.numel(), status
assert pool_status(0)["live"] >= held.numel()
assert int(held[-1]) == 7
print(memory_summary(0))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if "cannot be used" in done.stderr:
        pytest.skip("libgpuwarden_torch.so is not there: name it in GPUWARDEN_TORCH_LIBRARY")
    assert done.returncode == 0, done.stderr
