# SPDX-License-Identifier: Apache-2.0
"""The classes of the guidelines for CUDA environments (document 000): methods and result keys as they stand there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import gpuwarden
from documents import machine_without_gpus, untouched_environment
from gpuwarden.environment import (
    CUDAEnvironmentValidator,
    CUDAMemoryManager,
    CUDATroubleshooter,
    GPUPerformanceMonitor,
    monitor_memory,
)
from gpuwarden.torch.publishing import Publisher

# The rows of the document's own matrix for H100, as a site writes them.
SITE = """
source: test
rules:
  - id: qwen3-on-h100
    gpu: H100
    workload: qwen3
    driver: {minimum: 525.60.13, recommended: 535.129.03, required: 550.54.15, optimal: 570.47.03}
"""


@pytest.fixture(autouse=True)
def own_environment():
    with untouched_environment():
        yield


@pytest.fixture
def h100x8():
    with gpuwarden.simulate("h100x8"):
        yield gpuwarden.default_machine()


@pytest.fixture
def without_gpus(tmp_path):
    with machine_without_gpus(tmp_path) as machine:
        yield machine


@pytest.fixture
def site(tmp_path) -> Path:
    file = tmp_path / "site.yaml"
    file.write_text(SITE, encoding="utf-8")
    return file


def test_the_matrix_is_the_knowledge_bases_and_a_site_may_override_it(h100x8, site):
    published = CUDAEnvironmentValidator().compatibility_matrix
    assert set(published["h100"]) == {
        "minimum_driver",
        "recommended_driver",
        "required_for_qwen3",
        "optimal_for_qwen3",
    }
    assert published["cuda_versions"]["12.4"] == {
        "driver_min": "550.54.14",
        "driver_min_minor_version": "525.60.13",
        "pytorch_support": published["cuda_versions"]["12.4"]["pytorch_support"],
        "vllm_support": "0.7.0",
    }
    assert published["cuda_versions"]["11.8"]["pytorch_support"].startswith("2.0")
    own = CUDAEnvironmentValidator(knowledge=[site]).compatibility_matrix["h100"]
    assert own == {
        "minimum_driver": "525.60.13",
        "recommended_driver": "535.129.03",
        "required_for_qwen3": "550.54.15",
        "optimal_for_qwen3": "570.47.03",
    }


def test_the_environment_is_validated(h100x8, site):
    results = CUDAEnvironmentValidator(knowledge=[site], count=8).validate_environment()
    assert list(results)[:4] == ["nvidia_driver", "cuda_runtime", "pytorch_cuda", "gpu_compatibility"]
    driver = results["nvidia_driver"]
    assert driver["status"] == "compatible"
    assert driver["version"] == "550.54.15"
    assert (driver["minimum_required"], driver["recommended"]) == ("525.60.13", "535.129.03")
    assert driver["qwen3_required"] == "550.54.15"
    gpus = results["gpu_compatibility"]
    assert gpus["status"] == "compatible"
    assert gpus["h100_count"] == gpus["gpu_count"] == 8
    assert gpus["memory"][0]["total_gb"] == pytest.approx(79.6, abs=0.5)
    assert results["simulated"] is True
    assert not any("H100" in advice or "driver" in advice for advice in results["recommendations"])
    json.dumps(results)


def test_an_old_driver_and_missing_gpus_are_told(tmp_path, site):
    with gpuwarden.simulate("a100x4"):
        results = CUDAEnvironmentValidator(knowledge=[site]).validate_environment()
        assert results["gpu_compatibility"]["h100_count"] == 0
        assert any(advice.startswith("WARNING: No H100 GPUs detected") for advice in results["recommendations"])
    fleet = tmp_path / "old.yaml"
    fleet.write_text("driver: 535.129.03\ngpus: [{model: NVIDIA H100 80GB HBM3, count: 7}]\n", encoding="utf-8")
    with gpuwarden.simulate(str(fleet)):
        results = CUDAEnvironmentValidator(knowledge=[site], count=8).validate_environment()
        assert results["nvidia_driver"]["status"] == "needs_update"
        advice = results["recommendations"]
        assert any("Current driver 535.129.03 should be updated to 550.54.15 for qwen3" in one for one in advice)
        assert any(one.startswith("WARNING: 7 of 8 H100 GPUs detected") for one in advice)


def test_an_environment_without_gpus_is_an_answer(without_gpus):
    results = CUDAEnvironmentValidator().validate_environment()
    assert results["nvidia_driver"]["status"] == "error"
    assert results["gpu_compatibility"]["status"] == "error"
    assert results["recommendations"][0].startswith("CRITICAL: ")
    assert any("No H100 GPUs detected" in advice for advice in results["recommendations"])


def test_a_gpu_that_nobody_knows_is_refused(h100x8):
    with pytest.raises(gpuwarden.Error) as error:
        CUDAEnvironmentValidator(gpu="Voodoo 2")
    assert error.value.code == "invalid_argument"


def test_metrics_have_the_documents_keys(h100x8):
    metrics = GPUPerformanceMonitor(monitoring_interval=5).get_gpu_metrics()
    assert metrics["timestamp"] > 1.7e9
    assert len(metrics["devices"]) == 8
    device = metrics["devices"][3]
    assert device["device_id"] == 3
    assert set(device["memory"]) == {"total_gb", "used_gb", "free_gb", "utilization_percent"}
    assert device["temperature_c"] > 0 and device["power_watts"] > 0
    assert set(device["utilization"]) == {"gpu_percent", "memory_percent"}
    assert device["clocks"]["graphics_mhz"] > 0 and device["clocks"]["memory_mhz"] > 0


def test_monitoring_sums_up_what_it_read(h100x8):
    monitor = GPUPerformanceMonitor(monitoring_interval=0.02)
    assert monitor.get_performance_summary() == {"error": "No metrics collected"}
    history = monitor.monitor_continuous(duration_minutes=0.05 / 60)
    assert history is monitor.metrics_history and len(history) >= 1
    summary = monitor.get_performance_summary()
    assert summary["monitoring_duration_minutes"] > 0
    assert len(summary["devices"]) == 8
    device = summary["devices"][0]
    for key in ("gpu_utilization", "memory_utilization", "temperature", "power"):
        assert device[key]["min"] <= device[key]["average"] <= device[key]["max"]
    assert device["temperature"]["average"] == pytest.approx(
        sum(one["devices"][0]["temperature_c"] for one in history) / len(history)
    )


def test_what_no_reading_tells_is_not_known_and_a_lost_gpu_is_no_error():
    monitor = GPUPerformanceMonitor()

    def reading(at: float, *ids: int) -> dict:
        nothing = {"gpu_percent": None, "memory_percent": None}
        device = {"name": "T4", "memory": {"utilization_percent": 50.0}, "utilization": nothing, "power_watts": 70.0}
        return {"timestamp": at, "devices": [{**device, "device_id": one, "temperature_c": 30 + one} for one in ids]}

    monitor.metrics_history = [reading(0, 0, 1), reading(60, 1)]
    summary = monitor.get_performance_summary()
    assert summary["monitoring_duration_minutes"] == pytest.approx(65 / 60)
    assert summary["devices"][0]["gpu_utilization"] == {"average": None, "max": None, "min": None}
    assert [device["temperature"]["max"] for device in summary["devices"]] == [30, 31]


def test_without_gpus_monitoring_says_why(without_gpus):
    monitor = GPUPerformanceMonitor(monitoring_interval=0.01)
    assert monitor.get_gpu_metrics()["error"]
    assert monitor.monitor_continuous(duration_minutes=0.0001) == []
    assert monitor.get_performance_summary() == {"error": "No metrics collected"}
    memory = CUDAMemoryManager().get_memory_status()
    assert memory["error"].startswith("CUDA not available") and memory["devices"] == []
    with monitor_memory("nothing"):
        pass


def test_memory_status_has_the_documents_keys(h100x8):
    status = CUDAMemoryManager().get_memory_status()
    assert status["device_count"] == 8
    assert set(status["devices"][0]) == {
        "device_id",
        "name",
        "total_memory_gb",
        "allocated_gb",
        "cached_gb",
        "free_gb",
        "utilization_percent",
        "compute_capability",
        "multiprocessor_count",
    }
    device = status["devices"][0]
    assert device["allocated_gb"] == 0, "this process holds nothing"
    assert device["compute_capability"] == "9.0" and device["multiprocessor_count"] == 132
    assert 0 < device["free_gb"] < device["total_memory_gb"]


def test_memory_is_watched_over_an_operation(tmp_path, monkeypatch, capsys):
    pools = tmp_path / "pools"
    monkeypatch.setenv("GPUWARDEN_MEMORY_DIR", str(pools))
    manager = CUDAMemoryManager()
    with gpuwarden.simulate("h100x8"):
        gpu = gpuwarden.snapshot().gpus[0].uuid
        held = [(gpu, {"live_bytes": 3 << 30, "reserved_bytes": 4 << 30})]
        with Publisher(60, str(pools), lambda: held) as publisher, manager.monitor_memory_usage("load model"):
            publisher.publish_once()
    out = capsys.readouterr().out
    assert "=== Memory Usage Report: load model === (simulated GPUs)" in out
    assert "  Allocated: 0.00GB -> 3.00GB (+3.00GB)" in out
    assert "  Cached: 0.00GB -> 4.00GB (+4.00GB)" in out
    assert manager.memory_snapshots[0]["operation"] == "load model"


def test_the_report_is_printed_where_the_operation_fails(h100x8, capsys):
    with pytest.raises(RuntimeError, match="boom"), monitor_memory("step"):
        raise RuntimeError("boom")
    assert "Memory Usage Report: step" in capsys.readouterr().out


def test_memory_is_optimised_without_starting_anything(h100x8, monkeypatch):
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    done = CUDAMemoryManager().optimize_memory_usage()
    assert done["freed_gb"] == 0 and done["expandable_segments"] is True
    assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize(
    ("message", "causes"),
    [
        ("CUDA version mismatch", {"toolkit_framework_mismatch", "driver_too_old"}),
        ("RuntimeError: CUDA error", {"cuda_unknown_error"}),
        ("CUDA out of memory", {"oom_capacity"}),
        ("Memory allocation failed", {"oom_capacity"}),
        ("Tensor parallel errors", {"nccl_version_or_init", "p2p_unsupported"}),
        ("GPU communication failures", {"nccl_version_or_init", "p2p_unsupported"}),
        ("RuntimeError: CUDA error: invalid device ordinal", {"invalid_device_ordinal"}),
        ("CUDA available: False\nGPU count: 0", {"no_device_detected"}),
        ("RuntimeError: Address already in use", {"port_in_use"}),
    ],
)
def test_every_symptom_of_the_documents_has_an_answer(message, causes):
    found = CUDATroubleshooter().diagnose_issue(message)
    assert found["error_message"] == message
    assert found["recommended_solutions"] and found["diagnostic_commands"]
    assert found["causes"][0]["id"] in causes, "the surest one"
    assert not found["guess"]


def test_what_no_rule_knows_is_looked_up_and_said_to_be_a_guess():
    found = CUDATroubleshooter().diagnose_issue("the fans of the card are loud")
    assert found["guess"] and found["causes"]
    assert CUDATroubleshooter().diagnose_issue("") == {
        "error_message": "",
        "recommended_solutions": [],
        "diagnostic_commands": ["gpuwarden doctor", "nvidia-smi"],
        "causes": [],
        "guess": False,
    }


def test_common_issues_come_from_the_rules():
    issues = CUDATroubleshooter().common_issues
    assert set(issues) == {"driver_mismatch", "memory_fragmentation", "multi_gpu_issues"}
    assert all(issue["symptoms"] and issue["solutions"] for issue in issues.values())


def test_the_comprehensive_diagnostic_has_all_parts(h100x8):
    results = CUDATroubleshooter().run_comprehensive_diagnostic()
    assert set(results) == {"environment_validation", "gpu_metrics", "memory_status", "system_info"}
    assert results["system_info"]["cpu_count"] >= 1 and results["system_info"]["total_memory_gb"] > 0
    json.dumps(results)
