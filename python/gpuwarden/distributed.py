# SPDX-License-Identifier: Apache-2.0
"""Choosing GPUs for this process: ids in, a device for PyTorch out.

    from gpuwarden.distributed import setup_gpu_environment

    device = setup_gpu_environment(num_gpus=2)
    model = model.to(device)

GPUs are named by their ids, as nvidia-smi and `gpuwarden list` number them, and by nothing else: CUDA counts what
CUDA_VISIBLE_DEVICES leaves, so that with GPUs 2 and 5 visible "cuda:0" is GPU 2 (`get_visible_gpus()` tells). Sizes are MB
of 2**20 bytes, as nvidia-smi has them. A GPU that somebody else has leased, uses or has disabled is not available, and
one whose use cannot be read is not either. What `gpuwarden run` reserved for this job, and what this process (or another
rank under the same launcher) uses itself, is.
"""
from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Union

from gpuwarden import _core
from gpuwarden._error import Error
from gpuwarden._machine import Machine, default_machine
from gpuwarden._process_memory import capability_of, find_torch, share_of, started_torch

__all__ = [
    "auto_select_gpus_for_model",
    "get_available_gpus",
    "get_gpu_info",
    "get_gpu_memory_usage",
    "get_optimal_device",
    "get_visible_gpus",
    "print_gpu_info",
    "reset_visible_gpus",
    "select_gpus",
    "set_visible_gpus",
    "setup_gpu_environment",
]

GpuId = Union[int, str]

_DEVICES = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_MB = 2**20
_log = logging.getLogger("gpuwarden")


class _Change(NamedTuple):
    """What this module put into CUDA_VISIBLE_DEVICES, and what both variables were before."""

    devices: str
    devices_before: str | None
    order_before: str | None


_change: _Change | None = None


def get_available_gpus() -> list[int]:
    """The ids of the GPUs that this process may take now, ascending; [] where there are none, or no driver.

    CUDA_VISIBLE_DEVICES restricts them as it was before this module set it.
    """
    machine = default_machine()
    return sorted(_ids(_choose(machine, {"all": True}))) if _gpus_of(machine) else []


def select_gpus(
    gpu_ids: Sequence[GpuId] | None = None,
    num_gpus: int | None = None,
    min_memory_mb: int | None = None,
    *,
    shared: bool = False,
    allow_busy: bool = False,
) -> list[int]:
    """The ids of GPUs that meet all that is asked for, best first; without a number, all of them.

    Args:
        gpu_ids: exactly these (an id, a UUID or its beginning, a range "0-3").
        num_gpus: so many: healthy, free and best connected to each other.
        min_memory_mb: memory of each, in all.
        shared: others may have them, too, where their leases are shared.
        allow_busy: GPUs on which processes without a lease compute will do.

    Raises Error (unsatisfied) where named GPUs, or so many, cannot be had, and says why; (invalid_argument) for a GPU that
    does not exist. Without GPUs in the machine it is [].
    """
    machine = default_machine()
    ids, count = _checked(gpu_ids, num_gpus)
    if not ids and not _gpus_of(machine):
        return []
    decision = _decide(machine, ids, count, _request(ids, count, min_memory_mb, shared, allow_busy))
    if not decision["satisfied"] and (ids or count):
        raise _unsatisfied(decision)
    return _ids(decision)


def get_gpu_info(gpu_ids: Sequence[GpuId] | None = None) -> list[dict[str, Any]]:
    """What is known of each GPU (or of those named), by id. Keys, None where not known:

    id, uuid, name, total_memory_mb, used_memory_mb, free_memory_mb, memory_utilization (percent used),
    gpu_utilization (percent of time busy), temperature_c, power_watts, compute_capability ("9.0"),
    multi_processor_count, state, available, reason (why it is not available).
    """
    machine = default_machine()
    gpus = _gpus_of(machine)
    if not gpus:
        return [] if not gpu_ids else [_find(gpus, name) for name in gpu_ids]
    decision = _choose(machine, {"all": True})
    available = set(_ids(decision))
    reasons = {row["index"]: row["reason"] for row in decision["rejected"]}
    wanted = gpus if gpu_ids is None else [_find(gpus, name) for name in gpu_ids]
    return [_info(gpu, gpu["index"] in available, reasons.get(gpu["index"], "")) for gpu in wanted]


def print_gpu_info(gpu_ids: Sequence[GpuId] | None = None) -> None:
    """Prints a line for each GPU (or those named), after how many can be had."""
    infos = get_gpu_info(gpu_ids)
    usable = sum(info["available"] for info in infos)
    print(f"Available GPUs: {usable}" + ("" if usable == len(infos) else f" of {len(infos)}"))
    for info in infos:
        print(_line(info))
    if not infos:
        print(_why_none(default_machine()))


def get_gpu_memory_usage(gpu_id: GpuId) -> tuple[int, int, float]:
    """(used, total, percent used) of a GPU's memory by all processes, in MB.

    Raises Error (invalid_argument) for a GPU that does not exist, (unavailable) where it does not tell.
    """
    gpu = _find(_gpus_of(default_machine()), gpu_id)
    used, total = gpu["memory"]["used_bytes"], gpu["memory"]["total_bytes"]
    if used is None or not total:
        raise Error("unavailable", f"GPU {gpu_id} does not report its memory", gpu.get("next_step") or "see gpuwarden list")
    return used // _MB, total // _MB, 100 * used / total


def set_visible_gpus(gpu_ids: Sequence[GpuId]) -> None:
    """Lets CUDA see these GPUs in this process and those that it starts, in this order; [] hides all.

    Sets CUDA_VISIBLE_DEVICES to their UUIDs, which mean the same in every order of devices. Others' use is warned of,
    not refused. Raises Error (failed) where CUDA has been started in this process: it has read the variable then, and
    does not read it again.
    """
    machine = default_machine()
    gpus = _gpus_of(machine)
    chosen = [_find(gpus, name) for name in gpu_ids]
    for gpu in chosen:
        if not gpu["uuid"]:
            raise Error("unavailable", f"GPU {gpu['index']} is {gpu['state']}: {gpu['cause']}", gpu["next_step"])
    _make_visible([gpu["uuid"] for gpu in chosen])
    if not chosen:
        return
    decision = _choose(machine, {"gpu_ids": [str(gpu["index"]) for gpu in chosen]})
    named = {gpu["index"] for gpu in chosen}
    for row in decision["rejected"]:
        if row["index"] in named and row["kind"] not in ("fits", "not_named"):
            warnings.warn(f"GPU {row['index']}: {row['reason']}", stacklevel=2)


def reset_visible_gpus() -> None:
    """Gives CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER the values back that they had before this module set them."""
    global _change
    change, _change = _change, None
    if change is None or os.environ.get(_DEVICES) != change.devices:
        return
    for name, value in ((_DEVICES, change.devices_before), (_ORDER, change.order_before)):
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def get_visible_gpus() -> list[int]:
    """The ids of the GPUs that CUDA shows this process, in CUDA's order: the first is "cuda:0"."""
    machine = default_machine()
    if not _gpus_of(machine):
        return []
    numbers = {int(gpu): number for gpu, number in _ordinals(machine).items() if number is not None}
    return sorted(numbers, key=numbers.__getitem__)


def get_optimal_device(gpu_ids: Sequence[GpuId] | None = None) -> Any:
    """The best of the GPUs that CUDA shows this process (or of those named) as torch.device, by CUDA's number for it.

    The CPU where there is no GPU, or where PyTorch cannot use it. Without PyTorch a text, "cuda:0" or "cpu". Raises Error
    (unsatisfied) where there are GPUs and none can be had.
    """
    machine = default_machine()
    gpus = _gpus_of(machine)
    if not gpus or (gpu_ids is not None and not gpu_ids):
        return _device(machine, None)
    wanted = {_find(gpus, name)["index"] for name in gpu_ids} if gpu_ids is not None else {gpu["index"] for gpu in gpus}
    others = [str(gpu["index"]) for gpu in gpus if gpu["index"] not in wanted]
    decision = _choose(machine, {"count": 1, "exclude": others}, now=True)
    if not decision["satisfied"]:
        raise _unsatisfied(decision)
    return _device(machine, _ordinals(machine)[str(_ids(decision)[0])])


def setup_gpu_environment(
    gpu_ids: Sequence[GpuId] | None = None,
    num_gpus: int | None = None,
    *,
    min_memory_mb: int | None = None,
    device: str | None = None,
    shared: bool = False,
    allow_busy: bool = False,
) -> Any:
    """Chooses GPUs as select_gpus() does, makes them CUDA's in this process, and returns the device to work on.

    That is torch.device("cuda:0"), under torchrun "cuda:LOCAL_RANK"; the CPU for device="cpu", for num_gpus=0, where the
    machine has no GPU (with a warning), and where PyTorch cannot use CUDA, as on a simulated fleet. Nothing is reserved:
    `gpuwarden run` and `gpuwarden.reserve()` do that.

    Raises Error as select_gpus() does, (unsatisfied) where there are GPUs and all are taken, (failed) where CUDA has been
    started already and shows others.
    """
    machine = default_machine()
    if device is not None and str(device) not in ("cpu", "cuda", "auto"):
        raise Error("invalid_argument", f"unknown device '{device}'", "cpu, cuda or auto; gpu_ids names GPUs")
    if device == "cpu" or num_gpus == 0:
        _make_visible([])
        return _device(machine, None)
    gpus = _gpus_of(machine)
    if not gpus:
        warnings.warn(f"{_why_none(machine)}: using the CPU", stacklevel=2)
        return _device(machine, None)
    ids, count = _checked(gpu_ids, num_gpus)
    decision = _decide(machine, ids, count, _request(ids, count, min_memory_mb, shared, allow_busy))
    if not decision["satisfied"]:
        raise _unsatisfied(decision)
    rank = _local_rank(len(decision["selected"]))
    _make_visible([device["uuid"] for device in decision["selected"]])
    mapping = ", ".join(f"GPU {one} is cuda:{number}" for number, one in enumerate(_ids(decision)))
    _log.info("CUDA_VISIBLE_DEVICES is set: %s in this process", mapping)
    return _device(machine, rank)


def auto_select_gpus_for_model(model_size_gb: float, *, shared: bool = False, allow_busy: bool = False) -> list[int]:
    """The ids of as few GPUs as hold a model whose weights take `model_size_gb` (of 10**9 bytes, in 16 bit) for inference.

    [] without GPUs in the machine. Raises Error (unsatisfied) where it does not fit, with what would help in the hint.
    For training, and for models by name, see gpuwarden.plan().
    """
    if not model_size_gb > 0:
        raise Error("invalid_argument", f"model_size_gb must be greater than 0, not {model_size_gb}")
    machine = default_machine()
    if not _gpus_of(machine):
        return []
    request = {**_request([], None, None, shared, allow_busy), "model_size_bytes": int(model_size_gb * 10**9)}
    del request["all"]
    decision = _choose(machine, request)
    if not decision["satisfied"]:
        raise _unsatisfied(decision)
    return _ids(decision)


# ---- what they share


def _gpus_of(machine: Machine) -> list[dict[str, Any]]:
    gpus: list[dict[str, Any]] = machine.snapshot().to_dict()["gpus"]
    return gpus


def _why_none(machine: Machine) -> str:
    problem = machine.snapshot().to_dict().get("problem")
    return f"no GPU: {problem['message']}" if problem else "this machine has no GPUs"


def _find(gpus: list[dict[str, Any]], name: GpuId) -> dict[str, Any]:
    if isinstance(name, bool) or not isinstance(name, (int, str)):
        raise Error("invalid_argument", f"{name!r} is no GPU", "an id such as 0, or a UUID")
    text = str(name)
    found = [gpu for gpu in gpus if str(gpu["index"]) == text]
    found = found or [gpu for gpu in gpus if text.startswith("GPU-") and gpu["uuid"].startswith(text)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(str(gpu["index"]) for gpu in gpus)
    raise Error("invalid_argument", f"there is no GPU {text}", f"there are {known}" if gpus else "this machine has no GPUs")


def _checked(gpu_ids: Iterable[GpuId] | None, num_gpus: int | None) -> tuple[list[str], int | None]:
    ids = [str(name) for name in gpu_ids] if gpu_ids is not None else []
    if num_gpus is not None and (isinstance(num_gpus, bool) or not isinstance(num_gpus, int) or num_gpus < 0):
        raise Error("invalid_argument", f"num_gpus must be a number of GPUs, not {num_gpus!r}")
    if gpu_ids is not None and not ids:
        raise Error("invalid_argument", "gpu_ids names no GPU", "leave it out for all, or use device=\"cpu\"")
    if ids and num_gpus is not None and num_gpus != len(ids):
        raise Error("invalid_argument", f"num_gpus is {num_gpus}, and gpu_ids names {len(ids)}", "leave one of them out")
    return ids, num_gpus


def _request(
    ids: list[str], count: int | None, min_memory_mb: int | None, shared: bool, allow_busy: bool
) -> dict[str, Any]:
    request: dict[str, Any] = {"share": shared, "allow_busy": allow_busy}
    if ids:
        request["gpu_ids"] = ids
    elif count:
        request["count"] = count
    else:
        request["all"] = True
    if min_memory_mb is not None:
        request["min_memory"] = int(min_memory_mb * _MB)
    return request


def _decide(machine: Machine, ids: list[str], count: int | None, request: dict[str, Any]) -> dict[str, Any]:
    """Ranks ask one after another, and what the first one does must not change what the next one gets."""
    if not count or ids or len(_ranks()) < 2:
        return _choose(machine, request)
    everything = {key: value for key, value in request.items() if key != "count"}
    decision = _choose(machine, {**everything, "all": True})
    if len(decision["selected"]) < count:
        return _choose(machine, request)
    decision["selected"] = sorted(decision["selected"], key=lambda device: device["index"])[:count]
    return decision


def _choose(machine: Machine, request: dict[str, Any], now: bool = False) -> dict[str, Any]:
    """A decision of the library. `now`: under CUDA_VISIBLE_DEVICES as it is, else as it was before this module set it."""
    options = {"pids": sorted(_ranks()), **_visibility(now), **request}
    decision: dict[str, Any] = json.loads(_core.choose_for_process(machine._core, json.dumps(options)))
    for warning in decision["warnings"]:
        warnings.warn(warning, stacklevel=3)
    return decision


def _visibility(now: bool) -> dict[str, str | None]:
    devices, order = os.environ.get(_DEVICES), os.environ.get(_ORDER)
    if _change is not None and not now and devices == _change.devices:
        devices, order = _change.devices_before, _change.order_before
    return {"cuda_visible_devices": devices, "cuda_device_order": order}


def _ordinals(machine: Machine) -> dict[str, int | None]:
    numbers: dict[str, int | None] = json.loads(_core.cuda_ordinals(machine._core, json.dumps(_visibility(True))))
    return numbers


def _ids(decision: dict[str, Any]) -> list[int]:
    return [device["index"] for device in decision["selected"]]


def _unsatisfied(decision: dict[str, Any]) -> Error:
    reasons = [f"GPU {row['index']}: {row['reason']}" for row in decision["rejected"] if row["kind"] != "not_named"]
    changes = [change["what"] for change in (decision.get("model") or {}).get("changes", [])]
    hint = "\n  ".join([*reasons, *changes])
    return Error("unsatisfied", decision["missing"] or "no GPU is available", hint)


def _ranks() -> set[int]:
    """The processes that count as one's own: this one, and under a launcher of ranks its other children."""
    own = {os.getpid()}
    if int(os.environ.get("LOCAL_WORLD_SIZE") or 1) < 2:
        return own
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as children:
            return own | {int(pid) for pid in children.read().split()}
    except OSError:
        return own


def _local_rank(gpus: int) -> int:
    text = os.environ.get("LOCAL_RANK", "")
    rank = int(text) if text.isdigit() else 0
    if rank >= gpus:
        raise Error("unsatisfied", f"LOCAL_RANK is {rank}, and {gpus} GPUs are chosen", "start as many ranks as GPUs are used")
    return rank


def _make_visible(uuids: list[str]) -> None:
    global _change
    value = ",".join(uuids)
    started = cuda_started_devices()
    if started is not None:
        if started == uuids:
            return
        raise Error(
            "failed",
            "CUDA has been started in this process: it has read CUDA_VISIBLE_DEVICES and does not read it again",
            "choose GPUs before the first use of torch.cuda, or in a new process",
        )
    if _change is None or os.environ.get(_DEVICES) != _change.devices:
        _change = _Change(value, os.environ.get(_DEVICES), os.environ.get(_ORDER))
    else:
        _change = _change._replace(devices=value)
    os.environ[_DEVICES] = value
    os.environ[_ORDER] = "PCI_BUS_ID"


def cuda_started_devices() -> list[str] | None:
    """UUIDs of the devices that CUDA shows this process by their numbers; None where CUDA has not been started in it."""
    devices = _core.started_cuda_devices()
    if devices is None:
        return [] if started_torch() is not None else None
    return devices


@contextmanager
def _without_starting_cuda() -> Iterator[None]:
    """PyTorch (2.0 and later) asks NVML then, so that CUDA_VISIBLE_DEVICES can still be changed."""
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _device(machine: Machine, ordinal: int | None) -> Any:
    """torch.device of CUDA's number where PyTorch sees CUDA, else the CPU."""
    torch = find_torch()
    if torch is None:
        return "cpu" if ordinal is None or machine._core.simulated else f"cuda:{ordinal}"
    if ordinal is None:
        return torch.device("cpu")
    with _without_starting_cuda():
        seen = torch.cuda.is_available()
    return torch.device(f"cuda:{ordinal}" if seen else "cpu")


def _info(gpu: dict[str, Any], available: bool, reason: str) -> dict[str, Any]:
    memory = gpu["memory"]
    used, total, free = (memory.get(f"{what}_bytes") for what in ("used", "total", "free"))
    return {
        "id": gpu["index"],
        "uuid": gpu["uuid"],
        "name": gpu["name"],
        "total_memory_mb": None if total is None else total // _MB,
        "used_memory_mb": None if used is None else used // _MB,
        "free_memory_mb": None if free is None else free // _MB,
        "memory_utilization": share_of(used, total),
        "gpu_utilization": (gpu.get("utilization") or {}).get("gpu_percent"),
        "temperature_c": gpu.get("temperature_celsius"),
        "power_watts": gpu.get("power_watts"),
        "compute_capability": capability_of(gpu),
        "multi_processor_count": gpu.get("multiprocessors"),
        "state": gpu["state"],
        "available": available,
        "reason": "" if available else reason,
    }


def _line(info: dict[str, Any]) -> str:
    memory = "memory not known"
    if info["memory_utilization"] is not None:
        used = f"{info['used_memory_mb']} MB used ({info['memory_utilization']:.1f}%)"
        memory = f"{info['total_memory_mb']} MB total, {used}"
    capability = f", Compute {info['compute_capability']}" if info["compute_capability"] else ""
    why = "" if info["available"] else f" - not available: {info['reason']}"
    return f"GPU {info['id']}: {info['name']} ({memory}{capability}){why}"
