# SPDX-License-Identifier: Apache-2.0
"""Calls every nvml* function of nvidia-ml-py with plausible arguments, each in a process of its own.

Prints JSON: {"functions": {name: {"outcome": ..., "detail": ...}}, "gpus": [...]}. An outcome is "value", "nvml" (an
NVMLError, by name), "python" (an exception before or after the call), "signal" or "hangs".
"""
import ctypes
import inspect
import json
import os
import select
import signal
import sys

import pynvml

SECONDS = 60
# These leave NVML in another state than they found it, or take a callback.
LEFT_OUT = {"nvmlInit", "nvmlInitWithFlags", "nvmlShutdown"}


def buffer():
    """A zeroed struct that is larger than any of NVML's."""
    return ctypes.create_string_buffer(1 << 16)


def instance_handles(device):
    """A GPU instance and a compute instance where the GPU has some, else null."""
    try:
        gpu_instance = pynvml.nvmlDeviceGetGpuInstanceById(device, 7)
        return gpu_instance, pynvml.nvmlGpuInstanceGetComputeInstanceById(gpu_instance, 0)
    except (pynvml.NVMLError, TypeError, AttributeError):
        return ctypes.c_void_p(0), ctypes.c_void_p(0)


def arguments_for(device):
    gpu_instance, compute_instance = instance_handles(device)
    numbers = dict.fromkeys(
        ("index type sensor link counter fan errorType counterType profile profileId timeStamp mode state level api scope "
         "threshold clock clockType memoryClockMHz clockId pstate metric capability unit_type bridge speed").split(), 0)
    known = {
        "handle": device, "device": device, "handle1": device, "handle2": device, "device1": device, "device2": device,
        "gpuInstance": gpu_instance, "computeInstance": compute_instance, "unit": ctypes.c_void_p(0),
        "pid": os.getpid(), "fieldIds": [pynvml.NVML_FI_DEV_MEMORY_TEMP], "timeoutms": 1, "timeoutMs": 1,
        "pciInfo": pynvml.nvmlDeviceGetPciInfo(device), "pciBusId": pynvml.nvmlDeviceGetPciInfo(device).busId,
        "uuid": pynvml.nvmlDeviceGetUUID(device), "serial": b"0", "result": 0, "cpuSetSize": 4,
        "eventSet": pynvml.nvmlEventSetCreate(), "pcie_link_state": 0, "errorCode": 0,
    }
    return {**numbers, **known}


def call(name, index):
    """Runs in the child: what the function answers."""
    device = pynvml.nvmlDeviceGetHandleByIndex(index)
    arguments = arguments_for(device)
    function = getattr(pynvml, name)
    given = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in arguments:
            given.append(arguments[parameter.name])
        elif parameter.default is inspect.Parameter.empty:
            words = parameter.name.lower()
            is_struct = any(part in words for part in ("info", "struct", "params", "profiles", "settings", "status"))
            given.append(buffer() if is_struct else 0)
        else:
            break
    try:
        return {"outcome": "value", "detail": repr(function(*given))[:200]}
    except pynvml.NVMLError as error:
        return {"outcome": "nvml", "detail": type(error).__name__}
    except Exception as error:  # what pynvml makes of unsuitable arguments is its own affair
        return {"outcome": "python", "detail": f"{type(error).__name__}: {error}"[:200]}


def in_child(work):
    """The outcome of `work` in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w", encoding="utf-8") as out:
            json.dump(work(), out)
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], SECONDS)
    if not ready:
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if not ready:
        return {"outcome": "hangs", "detail": ""}
    if os.WIFSIGNALED(status):
        return {"outcome": "signal", "detail": str(os.WTERMSIG(status))}
    return json.loads(text)


def or_none(function, *arguments):
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def look(index):
    """What the functions that monitors use say of a GPU."""
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(gpu)
    fuller = or_none(pynvml.nvmlDeviceGetMemoryInfo, gpu, pynvml.nvmlMemory_v2)
    rates = or_none(pynvml.nvmlDeviceGetUtilizationRates, gpu)
    limits = or_none(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, gpu)
    ecc = or_none(pynvml.nvmlDeviceGetTotalEccErrors, gpu, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
                  pynvml.NVML_VOLATILE_ECC)
    return {
        "name": pynvml.nvmlDeviceGetName(gpu), "uuid": pynvml.nvmlDeviceGetUUID(gpu),
        "memory_total": memory.total, "memory_used": memory.used, "memory_reserved": fuller and fuller.reserved,
        "temperature": pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
        "power_milliwatts": pynvml.nvmlDeviceGetPowerUsage(gpu),
        "power_limit_milliwatts": pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
        "power_limit_range": limits, "utilization": rates and rates.gpu,
        "clock_sm": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
        "clock_memory": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
        "ecc_corrected": ecc,
        "processes": [{"pid": one.pid, "memory": one.usedGpuMemory}
                      for one in or_none(pynvml.nvmlDeviceGetComputeRunningProcesses, gpu) or []],
    }


def main():
    pynvml.nvmlInit()
    names = [name for name, value in vars(pynvml).items()
             if name.startswith("nvml") and inspect.isfunction(value) and name not in LEFT_OUT]
    count = pynvml.nvmlDeviceGetCount()
    # Some functions change the GPUs: look before.
    gpus = [look(index) for index in range(count)]
    functions = {name: in_child(lambda name=name: call(name, 0)) for name in names}
    json.dump({"gpus": gpus, "functions": functions}, sys.stdout)


main()
