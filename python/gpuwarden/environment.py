# SPDX-License-Identifier: Apache-2.0
"""Judging a CUDA environment, watching its GPUs and memory, and explaining what went wrong, with plain dicts as answers.

    from gpuwarden.environment import CUDAEnvironmentValidator

    for advice in CUDAEnvironmentValidator().validate_environment()["recommendations"]:
        print(advice)

Behind it are the knowledge base (`gpuwarden compat`), the doctor, the reader of `gpuwarden list`, what processes publish
of their memory (`gpuwarden memory`) and the rules of `gpuwarden diagnose`. Sizes that end in `_gb` are GB of 2**30 bytes.
What is not known is None. Nothing here starts CUDA; where something is simulated, "simulated" is True.
"""
from __future__ import annotations

import json
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpuwarden import _core
from gpuwarden._error import Error
from gpuwarden._find_torch import import_torch
from gpuwarden._machine import Machine, default_machine
from gpuwarden._process_memory import CUDAMemoryManager, capability_of, find_torch, in_gb, monitor_memory, share_of

__all__ = ["CUDAEnvironmentValidator", "CUDAMemoryManager", "CUDATroubleshooter", "GPUPerformanceMonitor", "monitor_memory"]

#: What the knowledge base's words for a driver's standing are here.
_STATUS = {
    "below minimum": "incompatible",
    "GPU no longer served": "incompatible",
    "below required": "needs_update",
    "below recommended": "needs_update",
    "sufficient": "compatible",
    "optimal": "optimal",
    "unknown": "unknown",
}


class CUDAEnvironmentValidator:
    """Whether driver, CUDA and PyTorch fit the GPUs and the work.

    Args:
        gpu: the GPU that is expected, by words of its name; the requirements on the driver are those of this model.
        workload: the work; rules of a site that name it come over the published figures (docs/knowledge.md).
        count: how many of these GPUs there ought to be; None: at least one.
        knowledge: YAML files to lay over the knowledge base, beside those of site and user.
        machine: the machine to judge; None: this one, or the simulated one.

    Raises Error (invalid_argument) for a GPU that nobody knows, and for a wrong overlay.
    """

    def __init__(
        self,
        gpu: str = "H100",
        workload: str = "qwen3",
        *,
        count: int | None = None,
        knowledge: Sequence[str | os.PathLike[str]] = (),
        machine: Machine | None = None,
    ) -> None:
        self.gpu = gpu
        self.workload = workload
        self.count = count
        self._machine = machine
        self._options = {"gpu": gpu, "workload": workload, "knowledge": [os.fspath(file) for file in knowledge]}
        self.compatibility_matrix: dict[str, Any] = self._matrix(self._tables())

    def validate_environment(self) -> dict[str, Any]:
        """The whole: keys nvidia_driver, cuda_runtime, pytorch_cuda, gpu_compatibility (each with "status"),
        simulated, and recommendations: sentences, gravest first."""
        survey = self._survey()
        results: dict[str, Any] = {
            "nvidia_driver": self._check_nvidia_driver(),
            "cuda_runtime": self._check_cuda_runtime(survey),
            "pytorch_cuda": self._check_pytorch_cuda(),
            "gpu_compatibility": self._check_gpu_compatibility(),
            "simulated": bool(survey.get("simulated")),
        }
        results["recommendations"] = self._generate_recommendations(results)
        return results

    def _here(self) -> Machine:
        return self._machine or default_machine()

    def _tables(self) -> dict[str, Any]:
        tables: dict[str, Any] = json.loads(_core.compatibility(self._here()._core, json.dumps(self._options)))
        return tables

    def _survey(self) -> dict[str, Any]:
        survey: dict[str, Any] = json.loads(self._here()._core.survey(json.dumps({"software": True})))
        return survey

    @property
    def _key(self) -> str:
        return re.sub(r"\W+", "_", self.gpu.lower()).strip("_")

    def _needs(self, tables: dict[str, Any]) -> dict[str, Any]:
        """The row of the GPU: of the models that are meant the one that asks for most."""
        rows: list[dict[str, Any]] = tables["named"]
        if not rows:
            raise Error("not_found", f"no requirements are known for '{self.gpu}'", "gpuwarden compat --gpu NAME")
        return rows[0]

    def _matrix(self, tables: dict[str, Any]) -> dict[str, Any]:
        needs = self._needs(tables)
        releases = {
            row["cuda"]: {
                "driver_min": row["min_driver"],
                "driver_min_minor_version": row["min_driver_minor_version"],
                "pytorch_support": row["torch"][0].split("+")[0] if row["torch"] else None,
                "vllm_support": row["vllm"][0].split(" ")[0] if row["vllm"] else None,
            }
            for row in tables["cuda"]
        }
        own = {
            "minimum_driver": needs["minimum"],
            "recommended_driver": needs["recommended"],
            f"required_for_{self.workload}": needs["required"],
            f"optimal_for_{self.workload}": needs["optimal"],
        }
        return {self._key: own, "cuda_versions": releases}

    def _check_nvidia_driver(self) -> dict[str, Any]:
        """status: incompatible, needs_update, compatible, optimal, unknown, or error with a message."""
        tables = self._tables()
        if tables["driver"] is None:
            problem = self._here().snapshot().to_dict().get("problem")
            return {"status": "error", "message": problem["message"] if problem else "no NVIDIA driver answers"}
        needs = self._needs(tables)
        return {
            "status": _STATUS.get(needs["standing"], "unknown"),
            "standing": needs["standing"],
            "version": tables["driver"],
            "minimum_required": needs["minimum"],
            "recommended": needs["recommended"],
            f"{self.workload}_required": needs["required"],
            f"{self.workload}_optimal": needs["optimal"],
        }

    def _check_cuda_runtime(self, survey: dict[str, Any]) -> dict[str, Any]:
        """status: ok, or error; version and path of the toolkit in use, all toolkits, what the driver supports."""
        environment = survey.get("environment") or {}
        toolkits = environment.get("toolkits") or []
        torch = find_torch()
        bundled = torch.version.cuda if torch is not None else None
        result = {"driver_supports": survey.get("cuda_driver"), "toolkits": [toolkit["version"] for toolkit in toolkits]}
        if not toolkits and not bundled:
            return {"status": "error", "message": "no CUDA toolkit and no PyTorch with CUDA was found", **result}
        active = next((toolkit for toolkit in toolkits if toolkit.get("active")), toolkits[0] if toolkits else None)
        if active is None:
            return {"status": "ok", "version": bundled, "path": None, "source": "PyTorch", **result}
        return {"status": "ok", "version": active["version"], "path": active["path"], "source": "toolkit", **result}

    def _check_pytorch_cuda(self) -> dict[str, Any]:
        """status: ok, or error with a message; version, cuda_version and available of the PyTorch of this process."""
        torch, why = import_torch()
        if torch is None:
            return {"status": "error", "message": f"PyTorch cannot be imported by this Python: {why}", "available": False}
        result = {"version": str(torch.__version__), "cuda_version": torch.version.cuda, "available": _sees_cuda(torch)}
        if not torch.version.cuda:
            return {"status": "error", "message": "this PyTorch is built without CUDA", **result}
        if not result["available"]:
            return {"status": "error", "message": "PyTorch finds no GPU that it can use", **result}
        return {"status": "ok", **result}

    def _check_gpu_compatibility(self) -> dict[str, Any]:
        """status: compatible, incompatible, unknown, or error; gpu_count, how many are of the expected model, each GPU."""
        snapshot = self._here().snapshot().to_dict()
        standing = {row["gpu"]: row["standing"] for row in self._tables()["here"]}
        rows = [self._gpu_row(gpu, standing) for gpu in snapshot["gpus"]]
        expected = sum(self.gpu.lower() in gpu["name"].lower() for gpu in snapshot["gpus"])
        result = {
            "gpu_count": len(rows),
            f"{self._key}_count": expected,
            "expected_count": self.count,
            "gpus": rows,
            "memory": self._get_gpu_memory_info(),
        }
        if not rows:
            problem = snapshot.get("problem")
            return {"status": "error", "message": problem["message"] if problem else "no GPU was found", **result}
        states = [row["driver"] for row in rows]
        if any(state == "incompatible" for state in states):
            return {"status": "incompatible", **result}
        return {"status": "unknown" if "unknown" in states else "compatible", **result}

    def _gpu_row(self, gpu: dict[str, Any], standing: dict[str, Any]) -> dict[str, Any]:
        return {
            "device_id": gpu["index"],
            "name": gpu["name"],
            "compute_capability": capability_of(gpu),
            "state": gpu["state"],
            "driver": _STATUS.get(standing.get(gpu["name"], ""), "unknown"),
        }

    def _get_gpu_memory_info(self) -> list[dict[str, Any]]:
        """Of each GPU: device_id, total_gb, allocated_gb and cached_gb of this process, free_gb, utilization (percent)."""
        status = CUDAMemoryManager(self._machine).get_memory_status()
        keys = {"total_gb": "total_memory_gb", "utilization": "utilization_percent"}
        names = ("device_id", "total_gb", "allocated_gb", "cached_gb", "free_gb", "utilization")
        return [{name: device[keys.get(name, name)] for name in names} for device in status["devices"]]

    def _generate_recommendations(self, results: dict[str, Any]) -> list[str]:
        """What to do, gravest first."""
        advice: list[str | None] = [
            self._driver_advice(results["nvidia_driver"]),
            "INSTALL: CUDA runtime not found. Install a CUDA toolkit, or PyTorch with CUDA"
            if results["cuda_runtime"]["status"] == "error"
            else None,
            "INSTALL: PyTorch CUDA support not available. Reinstall PyTorch with CUDA: "
            + results["pytorch_cuda"].get("message", "")
            if results["pytorch_cuda"]["status"] == "error"
            else None,
            self._inventory_advice(results["gpu_compatibility"]),
        ]
        troubles = [
            f"CRITICAL: GPU {gpu['device_id']} ({gpu['name']}) is {gpu['state']}: run gpuwarden doctor"
            for gpu in results["gpu_compatibility"]["gpus"]
            if gpu["state"] not in ("available", "busy")
        ]
        return troubles + [one for one in advice if one]

    def _driver_advice(self, driver: dict[str, Any]) -> str | None:
        if driver["status"] == "error":
            return f"CRITICAL: {driver['message']}. Install a driver: gpuwarden driver plan"
        if driver["status"] == "incompatible":
            return (
                f"CRITICAL: Update NVIDIA driver from {driver['version']} to at least {driver['minimum_required']}"
                f" for {self.gpu} compatibility"
            )
        if driver["status"] == "needs_update":
            wanted = max(driver[f"{self.workload}_required"], driver["recommended"], key=_numbers)
            return (
                f"UPDATE RECOMMENDED: Current driver {driver['version']} should be updated to {wanted}"
                f" for {self.workload} support"
            )
        return None

    def _inventory_advice(self, gpus: dict[str, Any]) -> str | None:
        found = gpus[f"{self._key}_count"]
        if self.count is not None and found != self.count:
            return f"WARNING: {found} of {self.count} {self.gpu} GPUs detected. Verify hardware configuration"
        return None if found else f"WARNING: No {self.gpu} GPUs detected. Verify hardware configuration"


class GPUPerformanceMonitor:
    """Readings of all GPUs, one now or many over time, and what they come to.

    Args:
        monitoring_interval: seconds between readings.
        machine: None: this one, or the simulated one.
    """

    def __init__(self, monitoring_interval: float = 5, machine: Machine | None = None) -> None:
        if not monitoring_interval > 0:
            raise Error("invalid_argument", "monitoring_interval must be greater than 0 seconds")
        self.monitoring_interval = monitoring_interval
        self.metrics_history: list[dict[str, Any]] = []
        self._machine = machine
        self._stop = threading.Event()

    def get_gpu_metrics(self) -> dict[str, Any]:
        """{"timestamp", "simulated", "devices": [...]}, or {"error": why} where no GPU can be read.

        A device has device_id, name, state, memory (total_gb, used_gb, free_gb, utilization_percent), temperature_c,
        power_watts, utilization (gpu_percent, memory_percent) and clocks (graphics_mhz, memory_mhz).
        """
        try:
            snapshot = (self._machine or default_machine()).snapshot().to_dict()
        except Error as error:
            return {"error": str(error)}
        if not snapshot["gpus"]:
            problem = snapshot.get("problem")
            return {"error": problem["message"] if problem else "no GPU was found"}
        devices = [_metrics_of(gpu) for gpu in snapshot["gpus"]]
        return {"timestamp": snapshot["time_unix_ms"] / 1000, "simulated": snapshot["simulated"], "devices": devices}

    def monitor_continuous(self, duration_minutes: float = 60) -> list[dict[str, Any]]:
        """Reads every monitoring_interval for so long, into metrics_history, which it returns. Ctrl-C, and stop() from
        another thread, end it early; what was read stays."""
        self._stop.clear()
        end = time.monotonic() + duration_minutes * 60
        due = time.monotonic()
        while due < end:
            metrics = self.get_gpu_metrics()
            if "error" not in metrics:
                self.metrics_history.append(metrics)
            due += self.monitoring_interval
            if self._stop.wait(max(0.0, min(due, end) - time.monotonic())):
                break
        return self.metrics_history

    def stop(self) -> None:
        """Ends monitor_continuous()."""
        self._stop.set()

    def get_performance_summary(self) -> dict[str, Any]:
        """Average, max and min of gpu_utilization, memory_utilization (percent), temperature (Celsius) and power (watts) of
        each device over metrics_history, None where no reading told; {"error": why} where there is none."""
        if not self.metrics_history:
            return {"error": "No metrics collected"}
        first, last = self.metrics_history[0], self.metrics_history[-1]
        by_device: dict[int, list[dict[str, Any]]] = {}
        for reading in self.metrics_history:
            for device in reading["devices"]:
                by_device.setdefault(device["device_id"], []).append(device)
        return {
            "monitoring_duration_minutes": (last["timestamp"] - first["timestamp"] + self.monitoring_interval) / 60,
            "devices": [_summary_of(device_id, readings) for device_id, readings in sorted(by_device.items())],
        }


class CUDATroubleshooter:
    """From an error's words to its causes and what to do about them."""

    #: What people complain of, by the part of the system that is at fault.
    _SYMPTOMS = {
        "driver_mismatch": ("CUDA version mismatch", "RuntimeError: CUDA error"),
        "memory_fragmentation": ("CUDA out of memory", "Memory allocation failed"),
        "multi_gpu_issues": ("Tensor parallel errors", "GPU communication failures"),
    }

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine

    @property
    def common_issues(self) -> dict[str, dict[str, list[str]]]:
        """{issue: {"symptoms": [...], "solutions": [...]}}, of the rules of `gpuwarden diagnose`."""
        issues = {}
        for issue, symptoms in self._SYMPTOMS.items():
            solutions = [step for symptom in symptoms for step in self.diagnose_issue(symptom)["recommended_solutions"]]
            issues[issue] = {"symptoms": list(symptoms), "solutions": list(dict.fromkeys(solutions))}
        return issues

    def diagnose_issue(self, error_message: str) -> dict[str, Any]:
        """Causes of an error message, or of a whole log, surest first.

        Keys: error_message, recommended_solutions, diagnostic_commands (what proves or refutes the causes), causes (id,
        title, summary, confidence from 0 to 1; None where only words were found), guess (True: no rule knows the message,
        its words were looked up).
        """
        found = json.loads(_core.diagnose_text(error_message))["causes"]
        guess = not found and bool(error_message.strip())
        if guess:
            found = json.loads(_core.look_up(error_message))["causes"][:3]
        commands = [step for cause in found for step in cause["confirm"]]
        return {
            "error_message": error_message,
            "recommended_solutions": list(dict.fromkeys(step for cause in found for step in cause["fix"])),
            "diagnostic_commands": list(dict.fromkeys([*commands, "gpuwarden doctor", "nvidia-smi"])),
            "causes": [_cause_of(cause) for cause in found],
            "guess": guess and bool(found),
        }

    def run_comprehensive_diagnostic(self) -> dict[str, Any]:
        """All of it: environment_validation, gpu_metrics, memory_status, system_info."""
        return {
            "environment_validation": CUDAEnvironmentValidator(machine=self._machine).validate_environment(),
            "gpu_metrics": GPUPerformanceMonitor(machine=self._machine).get_gpu_metrics(),
            "memory_status": CUDAMemoryManager(self._machine).get_memory_status(),
            "system_info": self._get_system_info(),
        }

    def _get_system_info(self) -> dict[str, Any]:
        total, available = _host_memory()
        return {
            "platform": platform.platform(),
            "python_version": platform.python_version(),
            "cpu_count": os.cpu_count(),
            "total_memory_gb": total,
            "available_memory_gb": available,
        }


# ---- what they share


def _sees_cuda(torch: Any) -> bool:
    from gpuwarden.distributed import _without_starting_cuda

    with _without_starting_cuda():
        return bool(torch.cuda.is_available())


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version or "")]


def _metrics_of(gpu: dict[str, Any]) -> dict[str, Any]:
    memory, utilization, clocks = gpu["memory"], gpu.get("utilization") or {}, gpu.get("clocks") or {}
    return {
        "device_id": gpu["index"],
        "name": gpu["name"],
        "state": gpu["state"],
        "memory": {
            "total_gb": in_gb(memory["total_bytes"]),
            "used_gb": in_gb(memory["used_bytes"]),
            "free_gb": in_gb(memory["free_bytes"]),
            "utilization_percent": share_of(memory["used_bytes"], memory["total_bytes"]),
        },
        "temperature_c": gpu.get("temperature_celsius"),
        "power_watts": gpu.get("power_watts"),
        "utilization": {key: utilization.get(key) for key in ("gpu_percent", "memory_percent")},
        "clocks": {
            "graphics_mhz": clocks.get("graphics_megahertz"),
            "memory_mhz": clocks.get("memory_megahertz"),
        },
    }


_SUMMED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "gpu_utilization": lambda device: device["utilization"]["gpu_percent"],
    "memory_utilization": lambda device: device["memory"]["utilization_percent"],
    "temperature": lambda device: device["temperature_c"],
    "power": lambda device: device["power_watts"],
}


def _summary_of(device_id: int, readings: list[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"device_id": device_id, "name": readings[0]["name"]}
    for name, value_of in _SUMMED.items():
        values = [value for value in map(value_of, readings) if value is not None]
        summary[name] = {
            "average": sum(values) / len(values) if values else None,
            "max": max(values, default=None),
            "min": min(values, default=None),
        }
    return summary


def _cause_of(cause: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": cause["id"],
        "title": cause["title"],
        "summary": cause.get("summary") or cause.get("meaning") or "",
        "confidence": cause.get("confidence"),
    }


def _host_memory() -> tuple[float | None, float | None]:
    """Memory of the host in GB: all of it, and what can be had without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    except (OSError, ValueError, IndexError):
        return None, None
    return in_gb(sizes.get("MemTotal")), in_gb(sizes.get("MemAvailable"))
