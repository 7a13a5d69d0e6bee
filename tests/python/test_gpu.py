# SPDX-License-Identifier: Apache-2.0
"""gpuwarden.gpu: what each class does, on simulated fleets."""
from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuwarden
from gpuwarden import gpu as g


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("GPUWARDEN_SIM_DIR", str(tmp_path / "sim"))
    monkeypatch.setenv("GPUWARDEN_STATE_DIR", str(tmp_path / "state"))
    machine = gpuwarden.Machine(simulate="h100x8")
    yield machine
    machine._core.close()


@pytest.fixture
def manager(fleet: Any) -> Iterator[g.GPUManager]:
    with g.GPUManager(g.GPUConfig(enable_profiling=True), cuda={"retry_delay": 0}, machine=fleet) as made:
        yield made


@pytest.mark.parametrize(("key", "value"), [
    ("device_ids", [0, 0]), ("memory_fraction", 0), ("memory_fraction", 1.2), ("optimization_level", "turbo"),
    ("precision", "fp7"), ("enable_amp", "yes"), ("enable_compile", 1), ("enable_channels_last", None.__class__),
    ("enable_memory_pooling", 3), ("enable_monitoring", "no"), ("allocation_strategy", "best"),
    ("max_memory_cache_ratio", -1), ("enable_profiling", "on"), ("distributed_backend", "smoke"), ("enable_distributed", 2)])
def test_a_bad_value_names_its_key_and_its_range(key: str, value: Any) -> None:
    with pytest.raises(gpuwarden.Error) as raised:
        g.GPUConfig(**{key: value})
    assert raised.value.code == "invalid_argument"
    assert key in raised.value.message
    assert f"{key} must be" in raised.value.hint


def test_names_do_for_enumerations() -> None:
    config = g.GPUConfig(precision="bf16", allocation_strategy="greedy")  # type: ignore[arg-type]
    assert config.precision is g.ModelPrecision.BF16
    assert config.allocation_strategy is g.AllocationStrategy.GREEDY
    assert g.AlertLevel.INFO < g.AlertLevel.CRITICAL


def test_the_status_tells_simulated_gpus_beside_torchs_word(manager: g.GPUManager) -> None:
    status = manager.get_status()
    assert status["simulated"] is True
    assert len(status["gpus"]) == 8
    assert status["cuda_available"] in (False, True)
    assert status["driver"]["available"] is True
    assert status["config"]["max_memory_cache_ratio"] == 0.8
    assert manager.cuda_manager.get_device_state(3) is g.DeviceState.AVAILABLE
    with pytest.raises(gpuwarden.Error, match="GPU 9 is not managed"), manager.device_context(9):
        pass
    with manager.device_context(2) as device:
        assert str(device) == "cpu"  # of a simulated GPU torch knows nothing


def test_device_ids_restrict_and_are_checked(fleet: Any) -> None:
    with g.GPUManager({"device_ids": [5, 2], "enable_monitoring": False}, machine=fleet) as manager:
        assert [gpu.gpu for gpu in manager.cuda_manager.get_devices()] == [5, 2]
        assert manager.get_status()["monitoring"] is False
    with pytest.raises(gpuwarden.Error, match="no GPU 42"):
        g.GPUManager(g.GPUConfig(device_ids=[42]), machine=fleet)


def test_work_is_tried_again_and_moved(manager: g.GPUManager) -> None:
    failures: list[g.DeviceFailure] = []
    manager.add_error_callback(failures.append)
    calls = []

    def work(device: Any) -> str:
        calls.append(str(device))
        if len(calls) <= 3:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return "done"

    assert manager.run(work, "inference") == "done"
    assert [one.will_retry for one in failures] == [True, True, False]
    assert failures[-1].failover.gpu == 1
    assert manager.cuda_manager.get_device_state(0) is g.DeviceState.ERROR
    manager.cuda_manager.enable_device(0)
    assert manager.cuda_manager.get_device_state(0) is g.DeviceState.AVAILABLE


def test_a_bug_is_raised_at_once(manager: g.GPUManager) -> None:
    calls = []

    def work(device: Any) -> None:
        calls.append(device)
        raise KeyError("typo")

    with pytest.raises(KeyError, match="typo"):
        manager.run(work)
    assert len(calls) == 1
    assert manager.cuda_manager.get_device_state(0) is g.DeviceState.AVAILABLE


def test_memory_is_pooled_limited_and_given_back(fleet: Any) -> None:
    with g.MemoryManager({"max_pool_size": 64 * 2**20, "enable_cleanup": False}, machine=fleet) as memory:
        with memory.memory(8 * 2**20) as address:
            assert address > 0
            assert memory.get_status()["live_bytes"] == 8 * 2**20
        status = memory.get_status()
        assert status["live_bytes"] == 0
        assert status["limit_bytes"] == 64 * 2**20
        assert memory.trim() > 0
        with pytest.raises(gpuwarden.Error) as raised:
            memory.allocate(65 * 2**20)
        assert raised.value.code == "unsatisfied"
        with pytest.raises(gpuwarden.Error, match="memory_fraction"):
            memory.set_memory_fraction(2)
    with pytest.raises(gpuwarden.Error, match="closed"):
        memory.get_status()


def test_emergency_release_takes_what_frees_most_first(manager: g.GPUManager) -> None:
    order: list[str] = []
    for name, size in (("small", 10), ("large", 1000)):
        manager.register_releasable(name, lambda size=size: size, lambda name=name, size=size: order.append(name) or size)
    assert manager.emergency_release(1000)["enough"] is True
    assert order == ["large"]
    report = manager.emergency_release()
    assert order == ["large", "large", "small"]
    assert report["freed_bytes"] >= 1010


def test_alerts_reach_callbacks_with_their_level(fleet: Any) -> None:
    told: list[g.Alert] = []
    came = threading.Event()

    def hear(alert: g.Alert) -> None:
        told.append(alert)
        came.set()

    config = {"interval": 0.1, "thresholds": {"temperature": {"above": 1, "level": g.AlertLevel.CRITICAL}}}
    with g.PerformanceMonitor(config, machine=fleet) as monitor:
        monitor.add_alert_callback(hear)
        assert came.wait(60)
        assert told[0].level is g.AlertLevel.CRITICAL
        assert told[0].rule == "threshold_temperature"
        assert "temperature" in told[0].message
        metrics = monitor.get_current_metrics()
        assert metrics is not None
        assert metrics.gpus[0].metrics.temperature > 1
        assert monitor.get_alerts()
        monitor.stop_monitoring()
        assert monitor.running is False
        assert monitor.get_metrics_summary(3600).gpus[0].metrics.temperature.max > 1
    with pytest.raises(gpuwarden.Error, match="temprature"):
        g.PerformanceMonitor({"thresholds": {"temprature": 3}}, machine=fleet)


def test_profiling_is_off_unless_asked_for(fleet: Any) -> None:
    with g.PerformanceMonitor({}, machine=fleet) as monitor, monitor.profile_operation("never measured"):
        pass
    assert all(one.name != "never measured" for one in monitor.get_profile().operations)


def test_distributed_setup_sets_what_is_missing(manager: g.GPUManager, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    setup = manager.setup_distributed()
    try:
        assert setup["world_size"] == 1
        assert os.environ["MASTER_PORT"] == str(setup["master_port"])
        assert setup["backend"] in ("nccl", "gloo")
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_says_so(manager: g.GPUManager) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            manager.get_status()
        except gpuwarden.Error as error:
            os.write(writing, error.code.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        assert said.read() == "unavailable"
    os.waitpid(child, 0)


def test_models_are_registered_weakly(manager: g.GPUManager) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "nn"):
        pytest.skip("needs torch")
    model = torch.nn.Linear(4, 4)
    manager.register_model("linear", model)
    assert "linear" in manager.get_status()["releasable"]
    del model
    assert "linear" not in manager.get_status()["releasable"]
    with pytest.raises(gpuwarden.Error, match="not a model"):
        manager.register_model("number", 3)
