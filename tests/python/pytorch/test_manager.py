# SPDX-License-Identifier: Apache-2.0
"""GPUManager beside a real PyTorch: without a GPU that it sees everything runs on the CPU, and says so."""

from __future__ import annotations

import os

import pytest

import gpuwarden
from gpuwarden.gpu import CUDAManager, GPUConfig, GPUManager, ModelPrecision, OptimizationLevel
from gpuwarden.torch import Measurement, report_of, undo
from gpuwarden.torch.report import KEPT, REFUSED

#: No compiler is started, and what is faster is not the matter here: as few calls as can be.
QUICK = {
    "compile_backend": "eager",
    "cache": False,
    "measurement": Measurement(least_pairs=1, most_pairs=1, seconds=0.0, sample_seconds=0.0),
}


@pytest.fixture(params=["h100x8", "none"])
def fleet(request):
    """Simulated GPUs, of which PyTorch sees nothing, and a machine with no GPU at all."""
    with gpuwarden.simulate(request.param) as running:
        yield running


@pytest.fixture
def h100s():
    with gpuwarden.simulate("h100x8") as running:
        yield running


@pytest.fixture
def on_cpu(torch):
    """What is said here is about a PyTorch that sees no GPU."""
    if torch.cuda.is_available():
        pytest.skip("PyTorch sees a GPU: test_cuda_manager.py is about that")
    return torch


def managed(**config):
    return GPUManager(GPUConfig(**{"enable_monitoring": False, **config}), cuda={"retry_delay": 0})


def test_the_context_gives_torchs_cpu(on_cpu, fleet):
    with managed() as manager:
        status = manager.get_status()
        assert status["cuda_available"] is False and status["torch"] == str(on_cpu.__version__)
        assert status["torch_problem"] is None
        assert len(status["gpus"]) == len(gpuwarden.snapshot().gpus)
        with manager.device_context() as device:
            assert device == on_cpu.device("cpu")
            assert on_cpu.nn.Linear(2, 2).to(device)(on_cpu.ones(1, 2)).device == device
        assert manager.cuda_manager.get_best_device() == device


def test_work_falls_back_to_the_cpu_with_real_tensors(on_cpu, fleet):
    seen = []

    def work(device):
        seen.append(device)
        return on_cpu.ones(2, device=device).sum().item()

    with managed() as manager:
        assert manager.run(work, "inference") == 2.0
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            manager.run(lambda device: on_cpu.ones(2, 3, device=device) @ on_cpu.ones(2, 3, device=device))
    assert seen == [on_cpu.device("cpu")]


@pytest.mark.parametrize("level", list(OptimizationLevel))
@pytest.mark.parametrize("precision", [ModelPrecision.FP32, ModelPrecision.BF16, ModelPrecision.MIXED])
def test_a_model_is_optimised_by_level_and_precision_and_agrees(on_cpu, h100s, level, precision):
    torch = on_cpu
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    inputs = torch.randn(4, 8)
    with managed(optimization_level=level, precision=precision) as manager:
        found = manager.optimize_model(model, "net", inputs, **QUICK)
        report = report_of(found)
        assert report.level == level.value
        with torch.no_grad():
            expected, got = model.eval()(inputs), found(inputs)
        assert got.dtype is torch.float32
        assert float((expected - got).norm() / expected.norm()) < 0.2
        assert "net" in manager.get_status()["releasable"]
        assert undo(found) is model


def steps(model, call, **config):
    """The report, the steps that were not wanted, and those that were tried."""
    with managed(**config) as manager:
        report = report_of(manager.optimize_model(model, "net", call, **QUICK))
    return report, {step.id for step in report.steps if step.reason == "left out by the caller"}, {step.id for step in report.steps if step.outcome in (KEPT, REFUSED)}


@pytest.fixture
def convolution(torch):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())


def test_each_level_tries_more(on_cpu, h100s, convolution):
    tried = [steps(convolution, (2, 3, 8, 8), optimization_level=level, precision="fp32")[2] for level in OptimizationLevel]
    assert tried[0] == set()
    assert tried[0] < tried[1] < tried[2] <= tried[3]


def test_enable_compile_and_enable_channels_last_leave_their_steps_out(on_cpu, h100s, convolution):
    whole = {"optimization_level": "aggressive", "precision": "fp32"}
    _, unwanted, tried = steps(convolution, (2, 3, 8, 8), **whole)
    assert unwanted == set() and {"compile", "channels_last"} <= tried
    _, unwanted, tried = steps(convolution, (2, 3, 8, 8), **whole, enable_compile=False)
    assert "compile" in unwanted and "channels_last" in tried and "compile" not in tried
    _, unwanted, tried = steps(convolution, (2, 3, 8, 8), **whole, enable_channels_last=False)
    assert "channels_last" in unwanted and "compile" in tried and "channels_last" not in tried


def test_precision_and_enable_amp_decide_which_types_are_tried(on_cpu, h100s, convolution):
    def kinds(**config):
        report, _, tried = steps(convolution, (2, 3, 8, 8), **config)
        return report.precision, tried

    assert "autocast" in kinds(precision="mixed")[1]
    precision, tried = kinds(precision="mixed", enable_amp=False)
    assert precision == "fp32" and "autocast" not in tried
    assert "bf16_weights" in kinds(precision="bf16")[1] and "bf16_weights" not in kinds(precision="fp32")[1]
    assert kinds(precision="int8")[0] == "int8"


def test_a_model_without_a_name_or_inputs_is_only_set_to_evaluate(on_cpu, fleet):
    model = on_cpu.nn.Linear(4, 2)
    with managed() as manager:
        found = manager.optimize_model(model)
        assert found(on_cpu.ones(1, 4)).shape == (1, 2)
        with pytest.raises(gpuwarden.Error):
            manager.optimize_model(model, ["unhashable"])
        with pytest.raises(gpuwarden.Error):
            manager.optimize_model(object(), "no model")


def test_an_emergency_lets_go_of_what_is_registered_and_leaves_models_on_the_cpu_alone(on_cpu, h100s):
    model = on_cpu.nn.Linear(64, 64)
    with managed() as manager:
        manager.register_model("linear", model)
        address = manager.memory_manager.allocate(64 << 20)
        manager.memory_manager.deallocate(address)
        report = manager.emergency_release()
        freed = {step["name"]: step["freed_bytes"] for step in report["steps"]}
        assert any("pool" in name and size >= 64 << 20 for name, size in freed.items()), report
        assert freed.get("linear", 0) == 0, "there is no GPU memory to be had of it"
        assert model.weight.device.type == "cpu"
        del model
        assert "linear" not in manager.get_status()["releasable"]


def test_a_process_group_is_set_up_with_gloo_and_works(on_cpu, fleet, monkeypatch):
    torch = on_cpu
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with managed(distributed_backend="nccl") as manager:
        setup = manager.setup_distributed(init_process_group=True)
        try:
            assert setup["backend"] == "gloo"
            assert any("gloo" in note for note in setup["notes"]), setup["notes"]
            assert torch.distributed.get_backend() == "gloo"
            total = torch.ones(3)
            torch.distributed.all_reduce(total)
            assert total.tolist() == [1, 1, 1]
            manager.setup_distributed(init_process_group=True)
        finally:
            torch.distributed.destroy_process_group()
    assert os.environ["WORLD_SIZE"] == "1"


def test_a_cuda_manager_alone_gives_torchs_device_too(on_cpu, fleet):
    with CUDAManager({"enable_health_check": False}) as devices:
        devices.initialize()
        with devices.device_context() as device:
            assert device == on_cpu.device("cpu")


def test_a_profiled_operation_and_a_benchmark_are_there_on_the_cpu(on_cpu, fleet):
    model = on_cpu.nn.Linear(4, 2)
    with managed(enable_profiling=True) as manager:
        with manager.profile_operation("inference"):
            model(on_cpu.ones(1, 4))
        assert "inference" in [one["name"] for one in manager.get_status()["operations"]]
        report = manager.performance_monitor.benchmark(model, (8, 4), 5)
        assert report.median_ms > 0
