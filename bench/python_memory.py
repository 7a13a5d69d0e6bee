# SPDX-License-Identifier: Apache-2.0
"""Memory of 8 GPUs read from Python: gpuwarden (NVML in a process that can be killed) beside nvidia-ml-py and nvitop (in
the program's own), on a simulated fleet with a latency for each call. And what a monitor at 1 Hz takes of a core: its own
work (a driver that answers at once), and with that latency, in which the simulated driver keeps the core busy.

    python bench/python_memory.py [LATENCY_US [ROUNDS [SECONDS of the monitor]]]     needs gpuwarden, nvidia-ml-py, nvitop
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLEET = """driver: 550.54.15
nvlink: nvswitch
call_latency_microseconds: {}
gpus: [{{model: NVIDIA H100 80GB HBM3, count: 8}}]
"""


def milliseconds(work, rounds):
    """The median, and what the fastest tenth took at most: on a machine that does much else the first tells of others."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1000)
    tenth = sorted(times)[len(times) // 10]
    return f"{statistics.median(times):.2f} ms, the fastest tenth {tenth:.2f} ms"


def processor_seconds():
    """What this process and its children, NVML's reader among them, have used."""
    ticks = 0
    own = os.getpid()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == own or int(stat.parent.name) == own:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def peers(rounds):
    """In a process that the simulator's libraries are given to."""
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    print("nvidia-ml-py", milliseconds(lambda: [pynvml.nvmlDeviceGetMemoryInfo(one) for one in handles], rounds))
    from nvitop import Device

    devices = Device.all()
    print("nvitop", milliseconds(lambda: [one.memory_used() for one in devices], rounds))


def monitor_share(folder, call_us, seconds):
    """Of a core; its reader's process included."""
    import gpuwarden

    fleet = Path(folder, "monitor.yaml")
    fleet.write_text(FLEET.format(call_us))
    with gpuwarden.simulate(str(fleet)), gpuwarden.Monitor(interval_s=1) as monitor:
        monitor.wait(10)
        begun, used = time.perf_counter(), processor_seconds()
        time.sleep(seconds)
        return (processor_seconds() - used) / (time.perf_counter() - begun)


def main():
    latency = float(sys.argv[1]) if len(sys.argv) > 1 else 100
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 30
    import gpuwarden

    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder, "bench.yaml")
        fleet.write_text(FLEET.format(latency))
        with gpuwarden.simulate(str(fleet)) as simulation:
            machine = simulation.machine
            machine.gpu_memory()
            print("gpuwarden", milliseconds(machine.gpu_memory, rounds), flush=True)
            environment = {**os.environ, **machine.simulated_environment()}
            subprocess.run([sys.executable, __file__, "--peers", str(rounds)], env=environment, check=True)
        for call_us in (0, latency) if seconds > 0 else ():
            share = monitor_share(folder, call_us, seconds)
            print(f"monitor at 1 Hz, {call_us:g} us a call: {share * 100:.2f} % of a core, reader's process included")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peers"]:
        peers(int(sys.argv[2]))
    else:
        main()
