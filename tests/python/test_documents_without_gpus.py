# SPDX-License-Identifier: Apache-2.0
"""The examples of documents 004 and 000 again, on a machine with neither driver nor GPU: each goes on on the CPU or says
what is missing; none ends in an exception of another kind than gpuwarden.Error."""

from __future__ import annotations

import json
import os
import warnings

import pytest

import gpuwarden
from documents import machine_without_gpus, untouched_environment
from gpuwarden.distributed import (
    auto_select_gpus_for_model,
    get_available_gpus,
    get_gpu_info,
    get_gpu_memory_usage,
    get_optimal_device,
    get_visible_gpus,
    print_gpu_info,
    select_gpus,
    set_visible_gpus,
    setup_gpu_environment,
)
from gpuwarden.environment import (
    CUDAEnvironmentValidator,
    CUDAMemoryManager,
    CUDATroubleshooter,
    GPUPerformanceMonitor,
)


@pytest.fixture(autouse=True)
def nothing(tmp_path):
    with untouched_environment(), machine_without_gpus(tmp_path) as machine:
        yield machine


def on_the_cpu(**wanted):
    """setup_gpu_environment(), which warns that it is the CPU."""
    with pytest.warns(UserWarning, match="using the CPU"):
        device = setup_gpu_environment(**wanted)
    assert str(device) == "cpu" and get_visible_gpus() == []
    return device


# Document 004


@pytest.mark.parametrize("wanted", [{"num_gpus": 2}, {"gpu_ids": [0, 2]}, {}])
def test_quick_start(wanted):
    on_the_cpu(**wanted)


def test_basic_selection(capsys):
    print(f"Available GPUs: {get_available_gpus()}")
    print_gpu_info()
    assert capsys.readouterr().out.splitlines()[:2] == ["Available GPUs: []", "Available GPUs: 0"]
    on_the_cpu(gpu_ids=[0, 2, 4, 6])
    on_the_cpu(num_gpus=4)


def test_advanced_selection():
    assert select_gpus(min_memory_mb=32000) == []
    assert auto_select_gpus_for_model(model_size_gb=140) == []
    for gpu_id in [0, 1, 2, 3]:
        with pytest.raises(gpuwarden.Error, match=f"there is no GPU {gpu_id}") as raised:
            get_gpu_memory_usage(gpu_id)
        assert raised.value.hint


def test_manual_control():
    with pytest.raises(gpuwarden.Error, match="there is no GPU 0"):
        set_visible_gpus([0, 2, 4, 6])
    assert "CUDA_VISIBLE_DEVICES" not in os.environ, "nothing is hidden where nothing was chosen"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert str(get_optimal_device(gpu_ids=[0, 2, 4, 6])) == "cpu"


def test_scenarios():
    on_the_cpu(gpu_ids=[0])
    on_the_cpu(gpu_ids=[2, 3, 5, 7])
    assert str(setup_gpu_environment(device="cpu")) == "cpu"


def test_best_practices(capsys):
    available = get_available_gpus()
    if not available:
        print("Warning: No GPUs available, using CPU")
    else:
        print(f"Found {len(available)} GPUs")
        print_gpu_info()
    for gpu_id in available:
        get_gpu_memory_usage(gpu_id)
    assert capsys.readouterr().out == "Warning: No GPUs available, using CPU\n"


def test_interactive_selection(monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: "1, 3")
    selected = [int(x.strip()) for x in input("Enter GPU IDs (comma-separated): ").split(",")]
    on_the_cpu(gpu_ids=selected)


def test_selection_by_load():
    loads = []
    for info in get_gpu_info():
        _, _, util = get_gpu_memory_usage(info["id"])
        loads.append((info["id"], util))
    assert loads == [], "the document takes the first of them: there is none to take"


@pytest.mark.parametrize("model_size_gb", [7, 40, 140])
def test_conditional_selection(model_size_gb):
    memory_needed_gb = model_size_gb * 2
    on_the_cpu(num_gpus=1 if memory_needed_gb <= 40 else 4 if memory_needed_gb <= 160 else 8)


# Document 000


def test_the_environment_is_validated_and_the_metrics_say_why_there_are_none():
    results = CUDAEnvironmentValidator().validate_environment()
    assert results["nvidia_driver"]["status"] == "error"
    assert results["recommendations"] and isinstance(results["recommendations"][0], str)
    json.dumps(results)
    monitor = GPUPerformanceMonitor(monitoring_interval=0.01)
    assert "error" in monitor.get_gpu_metrics()
    assert monitor.get_performance_summary() == {"error": "No metrics collected"}


def test_memory_is_looked_at_watched_and_tidied(capsys):
    manager = CUDAMemoryManager()
    with manager.monitor_memory_usage("model_loading"):
        pass
    assert "CUDA not available" in capsys.readouterr().out
    assert manager.get_memory_status()["devices"] == []
    assert manager.optimize_memory_usage()["freed_gb"] == 0
    assert manager.memory_snapshots[0]["operation"] == "model_loading"


def test_the_troubleshooter_diagnoses_and_examines():
    troubleshooter = CUDATroubleshooter()
    found = troubleshooter.diagnose_issue("CUDA out of memory")
    assert found
    results = troubleshooter.run_comprehensive_diagnostic()
    assert results["gpu_metrics"]["error"] and results["memory_status"]["error"]
    assert results["environment_validation"]["gpu_compatibility"]["status"] == "error"
    json.dumps(results)
