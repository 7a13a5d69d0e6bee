# SPDX-License-Identifier: Apache-2.0
"""GPUManager, profile and publisher on a GPU that PyTorch sees. scripts/gpu_acceptance.sh runs these; elsewhere they are
skipped, and tests/python/test_gpu_torch.py holds the same against a stand-in."""

import json
import os
import subprocess
import sys
import time

import pytest

import gpuwarden
from gpuwarden import profile
from gpuwarden.gpu import GPUManager
from gpuwarden.torch import Measurement, Publisher

pytestmark = pytest.mark.cuda
MIB = 1 << 20


@pytest.fixture
def manager(torch):
    with GPUManager({"enable_monitoring": False}, cuda={"retry_delay": 0}) as made:
        yield made
    torch.cuda.empty_cache()


def idle(torch, device):
    return torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def test_the_context_gives_a_gpu_and_makes_it_current(torch, manager):
    status = manager.get_status()
    assert status["cuda_available"] is True and status["gpus"] and status["torch_problem"] is None
    last = status["gpus"][-1]["gpu"]
    with manager.device_context(last) as device:
        assert device.type == "cuda" and torch.cuda.current_device() == device.index
        assert torch.ones(3, device=device).sum().item() == 3
    with manager.device_context() as device:
        assert device == manager.cuda_manager.get_best_device()


def test_memory_is_the_gpus(torch, manager):
    memory = manager.memory_manager
    address = memory.allocate(64 * MIB)
    status = memory.get_status()
    assert status["backing"] == "cuda" and not status["fallback"]
    assert status["live_bytes"] == 64 * MIB
    memory.deallocate(address)
    assert memory.trim() > 0


@pytest.mark.parametrize("pooling", [True, False])
def test_pooling_decides_whether_torchs_cache_is_kept_after_a_context(torch, pooling):
    torch.cuda.empty_cache()
    with GPUManager({"enable_monitoring": False, "enable_memory_pooling": pooling}) as manager:
        with manager.device_context() as device:
            torch.empty(64 * MIB, dtype=torch.uint8, device=device)
        assert (idle(torch, device) >= 64 * MIB) == pooling
    torch.cuda.empty_cache()


def test_a_memory_fraction_holds_torch_and_work_goes_on_on_the_cpu(torch):
    seen = []
    try:
        with GPUManager({"enable_monitoring": False, "memory_fraction": 0.05}, cuda={"retry_delay": 0, "max_retries": 0}) as manager:
            total = torch.cuda.get_device_properties(0).total_memory

            def work(device):
                seen.append(device.type)
                if device.type == "cuda":
                    torch.empty(total // 10, dtype=torch.uint8, device=device)
                return device.type

            assert manager.run(work) == "cpu"
    finally:
        for device in range(torch.cuda.device_count()):
            torch.cuda.set_per_process_memory_fraction(1.0, device)
    assert "cuda" in seen


def test_an_emergency_moves_models_off_the_gpu(torch, manager):
    with manager.device_context() as device:
        model = torch.nn.Linear(4096, 4096, device=device)
    manager.register_model("linear", model)
    report = manager.emergency_release()
    assert model.weight.device.type == "cpu"
    assert report["freed_bytes"] >= 4096 * 4096 * 4
    assert model(torch.ones(1, 4096)).shape == (1, 4096)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "mixed", "int8"])
def test_a_model_is_optimised_through_the_manager(torch, manager, precision):
    with manager.device_context() as device:
        model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 16)).to(device).eval()
        inputs = torch.randn(32, 256, device=device)
        found = manager.optimize_model(model, "net", inputs, "basic", precision, cache=False, measurement=Measurement(seconds=0.2))
        with torch.no_grad():
            expected, got = model(inputs), found(inputs)
    assert got.device == expected.device
    assert float((expected - got).norm() / expected.norm()) < 0.2


def test_a_process_group_is_nccls(torch, manager, monkeypatch):
    if not torch.distributed.is_nccl_available():
        pytest.skip("this PyTorch has no NCCL")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    setup = manager.setup_distributed(init_process_group=True)
    try:
        assert setup["backend"] == "nccl" == torch.distributed.get_backend()
        value = torch.ones(4, device="cuda:0")
        torch.distributed.all_reduce(value)
        assert value.tolist() == [1.0] * 4
    finally:
        torch.distributed.destroy_process_group()


def test_an_operation_has_device_time_memory_energy_and_utilization(torch):
    profile.reset()
    profile.enable(device=True, memory=True)
    try:
        with GPUManager({"enable_profiling": True}, monitor={"interval": 0.1}) as manager, manager.device_context() as device:
            assert manager.performance_monitor.wait_for_reading(30)
            a = torch.randn(4096, 4096, device=device)
            torch.cuda.synchronize(device)
            with manager.profile_operation("products"):
                kept = [a @ a for _ in range(200)]
                torch.cuda.synchronize(device)
            deadline = 100
            while not (found := profile.results().operation("products")).runs_told and deadline:
                time.sleep(0.1)
                deadline -= 1
            del kept
        assert 0 < found.device.total_seconds <= found.wall.total_seconds * 1.05
        assert found.memory_peak_bytes >= 200 * 4096 * 4096 * 4
        assert found.energy_joules is None or found.energy_joules > 0
    finally:
        profile.enable(device=False, memory=False)
        profile.reset()


PUBLISHING = """
import sys, torch
held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
print("ready", flush=True)
sys.stdin.read()
"""


def test_other_processes_see_a_pytorch_that_publishes(torch, tmp_path):
    """It imports nothing of gpuwarden: the .pth of an installed package begins, or sitecustomize here."""
    (tmp_path / "sitecustomize.py").write_text("import gpuwarden\n")
    places = os.pathsep.join([str(tmp_path), *(part for part in sys.path if part)])
    environment = {**os.environ, "GPUWARDEN_PUBLISH": "0.1", "GPUWARDEN_MEMORY_DIR": str(tmp_path / "pools"), "PYTHONPATH": places}
    child = subprocess.Popen([sys.executable, "-c", PUBLISHING], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        os.environ["GPUWARDEN_MEMORY_DIR"] = environment["GPUWARDEN_MEMORY_DIR"]
        found = []
        for _ in range(300):
            status = gpuwarden.memory().to_dict()
            found = [pool for gpu in status["gpus"] for pool in gpu.get("pools", []) if pool["pid"] == child.pid]
            if found and found[0]["live_bytes"] >= 64 * MIB:
                break
            child.poll()
            assert child.returncode is None
            time.sleep(0.1)
        assert found and found[0]["strategy"] == "pytorch", json.dumps(status)[:2000]
        assert found[0]["reserved_bytes"] >= found[0]["live_bytes"] >= 64 * MIB
    finally:
        os.environ.pop("GPUWARDEN_MEMORY_DIR", None)
        child.stdin.close()
        child.wait(60)


def test_a_publisher_tells_this_process(torch, tmp_path):
    held = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda:0")
    with Publisher(60, str(tmp_path / "pools")) as publisher:
        publisher.publish_once()
        (file,) = publisher.files
        assert f"live_bytes {torch.cuda.memory_allocated(0)}" in open(file, encoding="utf-8").read()
    del held
