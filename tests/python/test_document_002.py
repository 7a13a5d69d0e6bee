# SPDX-License-Identifier: Apache-2.0
"""Every example of the GPU management document runs as it stands, with only the package's name changed: on a simulated
fleet and without a GPU, each in a process of its own."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None

CONFIGURATION = """
from dataclasses import fields
from gpuwarden.gpu import AllocationStrategy, GPUConfig, ModelPrecision, OptimizationLevel

config = GPUConfig()
assert [key.name for key in fields(config)] == [
    "device_ids", "memory_fraction", "optimization_level", "precision", "enable_amp", "enable_compile",
    "enable_channels_last", "enable_memory_pooling", "enable_monitoring", "allocation_strategy",
    "max_memory_cache_ratio", "enable_profiling", "distributed_backend", "enable_distributed"]
assert config.device_ids is None and config.memory_fraction is None
assert config.optimization_level == OptimizationLevel.BASIC
assert config.precision == ModelPrecision.MIXED
assert config.allocation_strategy == AllocationStrategy.BALANCED
assert config.max_memory_cache_ratio == 0.8 and config.distributed_backend == "nccl"
assert config.enable_amp and config.enable_compile and config.enable_channels_last
assert config.enable_memory_pooling and config.enable_monitoring
assert not config.enable_profiling and not config.enable_distributed
assert [level.name for level in OptimizationLevel] == ["NONE", "BASIC", "AGGRESSIVE", "EXPERIMENTAL"]
assert [precision.name for precision in ModelPrecision] == ["FP32", "FP16", "BF16", "INT8", "MIXED"]
assert [strategy.name for strategy in AllocationStrategy] == [
    "GREEDY", "BALANCED", "CONSOLIDATED", "FRAGMENTATION_AWARE", "STEADY"]
"""

BASIC_BEGIN = """
from gpuwarden.gpu import GPUManager, GPUConfig, OptimizationLevel

# Create configuration
config = GPUConfig(
    optimization_level=OptimizationLevel.BASIC,
    enable_monitoring=True,
    enable_memory_pooling=True
)

# Initialize GPU manager
gpu_manager = GPUManager(config)

# Check status
status = gpu_manager.get_status()
print(f"CUDA Available: {status['cuda_available']}")
"""

BASIC_MODEL = """
# Optimize model
optimized_model = gpu_manager.optimize_model(model, "my_model")
"""

BASIC_END = """
# Use device context
with gpu_manager.device_context() as device:
    # Perform GPU operations
    pass
print("device", device, "of", len(status["gpus"]))
"""

ADVANCED = """
from gpuwarden.gpu import (
    CUDAManager, MemoryManager, PerformanceMonitor,
    AllocationStrategy, AlertLevel
)

# Direct component usage
cuda_manager = CUDAManager({'enable_health_check': True})
cuda_manager.initialize()

memory_manager = MemoryManager({
    'allocation_strategy': 'balanced',
    'enable_pooling': True,
    'max_pool_size': 2 * 1024**3  # 2GB
})

performance_monitor = PerformanceMonitor({
    'enable_alerting': True,
    'enable_profiling': True
})

# Add alert callback
def handle_alert(alert):
    if alert.level == AlertLevel.CRITICAL:
        print(f"CRITICAL: {alert.message}")

performance_monitor.add_alert_callback(handle_alert)

# Profile operations
with performance_monitor.profile_operation("inference"):
    # Run inference
    pass
assert performance_monitor.get_profile().operation("inference").wall.count == 1
print("devices", len(cuda_manager.get_devices()), memory_manager.get_status()["allocation_strategy"])
"""


STARTED = """
import gpuwarden
import gpuwarden.distributed
from gpuwarden.gpu import CUDAManager

gpuwarden.distributed.cuda_started_devices = lambda: ["GPU-of-another-choice"]
cuda_manager = CUDAManager()
cuda_manager.initialize()
try:
    cuda_manager.set_visible_devices([0])
except gpuwarden.Error as error:
    print(error.message)
"""


def run(code: str, fleet: str, tmp_path: Path) -> str:
    environment = {**os.environ, "GPUWARDEN_SIMULATE": fleet, "GPUWARDEN_SIM_DIR": str(tmp_path / "sim"),
                   "GPUWARDEN_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_has_the_documents_keys_and_defaults(tmp_path: Path) -> None:
    run(CONFIGURATION, "h100x8", tmp_path)


@pytest.mark.parametrize(("fleet", "gpus"), [("h100x8", 8), ("none", 0)])
def test_basic_usage(fleet: str, gpus: int, tmp_path: Path) -> None:
    said = run(BASIC_BEGIN + BASIC_END, fleet, tmp_path)
    assert "CUDA Available: " in said
    assert f"of {gpus}" in said


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
@pytest.mark.parametrize("fleet", ["h100x8", "none"])
def test_basic_usage_with_a_model(fleet: str, tmp_path: Path) -> None:
    model = "import torch\nmodel = torch.nn.Linear(4, 2)\n"
    check = "\nassert optimized_model(torch.ones(1, 4)).shape == (1, 2)\n"
    assert "device cpu" in run(model + BASIC_BEGIN + BASIC_MODEL + BASIC_END + check, fleet, tmp_path)


@pytest.mark.skipif(HAS_TORCH, reason="torch is there")
def test_without_torch_a_model_is_refused_and_the_rest_works(tmp_path: Path) -> None:
    code = BASIC_BEGIN + """
import gpuwarden
try:
    gpu_manager.optimize_model(object(), "my_model")
except gpuwarden.Error as error:
    print(error.code)
""" + BASIC_END
    assert "unavailable" in run(code, "h100x8", tmp_path)


@pytest.mark.parametrize(("fleet", "gpus"), [("h100x8", 8), ("none", 0)])
def test_advanced_usage(fleet: str, gpus: int, tmp_path: Path) -> None:
    assert f"devices {gpus} balanced" in run(ADVANCED, fleet, tmp_path)


def test_visible_devices_are_not_changed_once_cuda_has_started(tmp_path: Path) -> None:
    assert "CUDA has been started in this process" in run(STARTED, "h100x8", tmp_path)


@pytest.mark.parametrize(("fleet", "sentence"), [("h100x8", "moved to GPU 1"), ("none", "ran on cpu")])
def test_the_demo_shows_the_whole(fleet: str, sentence: str, tmp_path: Path) -> None:
    demo = Path(__file__).parents[2] / "examples" / "gpu_management_demo.py"
    assert sentence in run(demo.read_text(), fleet, tmp_path)
