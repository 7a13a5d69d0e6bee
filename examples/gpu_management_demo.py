#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All that gpuwarden.gpu does, one after the other: on this machine's GPUs, on its CPU, or on a simulated fleet:

    GPUWARDEN_SIMULATE=h100x8 python3 examples/gpu_management_demo.py

examples/manager/main.cpp is the same in C++.
"""
from gpuwarden.gpu import AlertLevel, GPUConfig, GPUManager, OptimizationLevel


def show_devices(manager):
    status = manager.get_status()
    print(f"{'SIMULATED: ' if status['simulated'] else ''}{len(status['gpus'])} GPUs; CUDA available to torch: "
          f"{status['cuda_available']}")
    for gpu in status["gpus"]:
        print(f"  GPU {gpu['gpu']} {gpu['name']}: {gpu['state']}")
    if status["problem"]:
        print(f"  {status['problem']}")


def show_failover(manager):
    """The first GPU fails; the work goes on elsewhere."""
    manager.add_error_callback(lambda failure: failure.failover and print(f"moved to GPU {failure.failover.gpu}"))
    calls = []

    def inference(device):
        with manager.profile_operation("inference"):
            calls.append(device)
            if manager.get_status()["gpus"] and len(calls) <= 3:
                raise RuntimeError("CUDA error: for the example")
            return f"inference ran on {device} after {len(calls) - 1} failures"

    print(manager.run(inference, "inference"))


def show_memory(manager):
    memory = manager.memory_manager
    with memory.memory(64 * 2**20):
        status = memory.get_status()
        print(f"memory from the {status['backing']}: {status['live_bytes'] >> 20} MiB live")
    report = manager.emergency_release()
    print(f"let go of: {report['freed_bytes'] >> 20} MiB in {len(report['steps'])} steps")


def show_model(manager):
    try:
        import torch
    except ImportError:
        print("models: torch is not installed")
        return
    model = manager.optimize_model(torch.nn.Linear(64, 64), "demo")
    with manager.device_context() as device, torch.no_grad():
        print("model on", device, "->", tuple(model(torch.ones(2, 64)).shape))


def main():
    config = GPUConfig(optimization_level=OptimizationLevel.BASIC, memory_fraction=0.5, enable_profiling=True)
    thresholds = {"temperature": {"above": 85, "level": AlertLevel.CRITICAL}}
    with GPUManager(config, cuda={"retry_delay": 0}, monitor={"interval": 0.2, "thresholds": thresholds}) as manager:
        manager.add_alert_callback(lambda alert: print(f"{alert.level.name}: {alert.message}"))
        show_devices(manager)
        show_failover(manager)
        show_memory(manager)
        show_model(manager)
        setup = manager.setup_distributed()
        print(f"distributed: {setup['backend']}, rank {setup['rank']} of {setup['world_size']}")
        for operation in manager.performance_monitor.get_profile().operations:
            print(f"profiled: {operation.name}, {operation.wall.count} runs")


if __name__ == "__main__":
    main()
