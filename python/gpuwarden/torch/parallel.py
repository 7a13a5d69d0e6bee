# SPDX-License-Identifier: Apache-2.0
"""Several ranks: their group, and a model wrapped as the planner says."""

from __future__ import annotations

import contextlib
import datetime
import os
import time
import warnings
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional

from ._common import error, load_torch, version

__all__ = ["Ranks", "distribute", "process_group", "strategy_of"]

#: The planner's strategies, and what wraps a model for them.
_WRAPPERS = {
    "single": "none",
    "none": "none",
    "ddp": "ddp",
    "data_parallel": "ddp",
    "dataparallel": "ddp",
    "dp": "ddp",
    "fsdp": "fsdp",
    "fsdp2": "fsdp",
    "fsdp1": "fsdp",
    "zero3": "fsdp",
    "zero2": "fsdp-keep",
    "zero1": "zero1",
}


@dataclass(frozen=True)
class Ranks:
    """This process among the others, as torchrun and `gpuwarden run` tell it."""

    rank: int
    local_rank: int
    world_size: int
    backend: Optional[str]  #: "nccl", "gloo"; None for one rank without a group
    device: Any  #: the torch.device of this rank
    reason: str  #: why this backend

    @property
    def main(self) -> bool:
        """Whether this rank is the one that prints and writes."""
        return self.rank == 0


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isdigit():
        raise error("invalid_argument", f"{name}: '{text}' is not a number", "start the program with gpuwarden run or torchrun")
    return int(text)


def _choose_backend(torch: Any, wanted: Optional[str], device: Any) -> tuple[str, str]:
    """A backend that this build has and that fits the device, and why."""
    dist = torch.distributed
    usable = {"nccl": dist.is_nccl_available() and device.type == "cuda", "gloo": True}
    if hasattr(dist, "is_gloo_available"):
        usable["gloo"] = dist.is_gloo_available()
    first = wanted or ("nccl" if device.type == "cuda" else "gloo")
    if usable.get(first, wanted is not None and first not in usable):
        return first, "asked for" if wanted else f"fits '{device.type}'"
    if usable["gloo"]:
        why = "PyTorch sees no GPU" if device.type != "cuda" else "this build of PyTorch has no NCCL"
        return "gloo", f"{first} cannot be used: {why}"
    raise error("unavailable", f"this build of PyTorch has neither {first} nor gloo", "install another build of PyTorch")


_LET_GO_S = 0.1


@contextlib.contextmanager
def process_group(backend: Optional[str] = None, *, timeout_s: float = 1800.0,
                  environment: Optional[Mapping[str, str]] = None) -> Iterator[Ranks]:  # fmt: skip
    """The group of all ranks, ended with the block: nccl on GPUs, gloo on CPUs and where nccl cannot be used (with the
    reason). A group that exists already is used and left. Without WORLD_SIZE, or with 1, there is no group.

    timeout_s: after which an operation that other ranks do not join fails.
    Raises Error (unavailable) where torch.distributed is missing or the ranks do not find each other.
    """
    torch = load_torch()
    environment = os.environ if environment is None else environment
    world = _number(environment, "WORLD_SIZE", 1)
    rank, local = _number(environment, "RANK", 0), _number(environment, "LOCAL_RANK", 0)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.device("cuda", local % gpus) if gpus else torch.device("cpu")
    if gpus:
        # Before anything is pinned or allocated, which would open a context on GPU 0.
        torch.cuda.set_device(device)
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available():
        if world > 1:
            raise error("unavailable", "this build of PyTorch has no torch.distributed", "install another build of PyTorch")
        yield Ranks(rank, local, world, None, device, "one rank")
        return
    if dist.is_initialized():
        yield Ranks(dist.get_rank(), local, dist.get_world_size(), dist.get_backend(), device, "the group was there")
        return
    if world <= 1:
        yield Ranks(rank, local, 1, None, device, "one rank")
        return
    backend, reason = _choose_backend(torch, backend, device)
    try:
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout_s))
    except (RuntimeError, ValueError) as problem:
        first = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise error("unavailable", f"{world} ranks did not come together: {first}", "every rank needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: gpuwarden run, torchrun") from problem
    try:
        yield Ranks(rank, local, world, backend, device, reason)
        if backend == "gloo":
            # Its threads need the GIL to let go of the tensors of what they did last; at the interpreter's end that
            # aborts the program (seen with PyTorch 2.13, in ~AsyncAllgatherWork). Groups outlive their end there, so
            # that nothing waits for the threads: a barrier, which has no tensors, is their last work, and then the GIL
            # is theirs for a moment.
            with contextlib.suppress(RuntimeError):
                dist.barrier()
            time.sleep(_LET_GO_S)
    finally:
        dist.destroy_process_group()


def strategy_of(plan: Any) -> str:
    """The strategy of a plan: its name, or what `gpuwarden plan --json` and gpuwarden.plan() answer (the recommended
    one). Raises Error (invalid_argument) where there is none."""
    if isinstance(plan, str):
        return plan
    get = plan.get if hasattr(plan, "get") else lambda name, default=None: getattr(plan, name, default)
    settings = get("settings", None)
    if settings is not None:
        return _named(settings)
    for name in ("recommended", "strategy"):
        found = get(name, None)
        if found is not None:
            return strategy_of(found)
    raise error("invalid_argument", "the plan names no strategy", "a strategy's name (ddp, fsdp2), or what gpuwarden.plan() answers")


def _named(settings: Any) -> str:
    """The strategy of a plan's settings."""
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"):
        if (settings.get(name) or 1) > 1:
            return name
    sharding = settings.get("sharding") or "none"
    if sharding != "none":
        return str(sharding)
    return "ddp" if (settings.get("data_parallel") or 1) > 1 else "single"


def distribute(model: Any, plan: Any = "ddp", *, device: Any = None, precision: Optional[str] = None) -> Any:
    """The model wrapped for the ranks of this job as a plan says: DistributedDataParallel, or FSDP2 (fully_shard).

    plan: a strategy's name, or what gpuwarden.plan() answers. "data_parallel" is answered with DDP and a warning that says
        why. ZeRO's stages are FSDP2 with or without giving weights back after the forward pass; stage 1 is DDP (use
        torch.distributed.optim.ZeroRedundancyOptimizer with it).
    device: where the model is moved; None: the GPU that this rank has set, else the CPU.
    precision: for FSDP2: "bf16" or "fp16" to compute and gather in; None: as the parameters are.

    With one rank (no process group) the model is only moved. Raises Error (invalid_argument) for unknown strategies,
    (unsatisfied) for those that need code of the model's own (tensor, pipeline parallelism), (unavailable) where this
    PyTorch has no FSDP2 (before 2.4; 2.6 has it at its place).
    """
    torch = load_torch()
    name = strategy_of(plan).lower().replace("-", "_").replace("zero_", "zero")
    if any(word in name for word in ("tensor", "pipeline", "expert", "context", "3d")):
        raise error("unsatisfied", f"'{strategy_of(plan)}' splits the model's own code", "gpuwarden plan --emit torchrun shows how it is started; wrapping alone cannot do it")
    how = _WRAPPERS.get(name)
    if how is None:
        raise error("invalid_argument", f"unknown strategy '{strategy_of(plan)}'", "one of: " + ", ".join(sorted(_WRAPPERS)))
    if name in ("data_parallel", "dataparallel", "dp"):
        warnings.warn("DataParallel is answered with DistributedDataParallel: DataParallel copies the model to every GPU in each step and drives them all from one Python process; start one rank per GPU with gpuwarden run", stacklevel=2)
    if device is None:
        device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    device = torch.device(device)
    model = model.to(device)
    dist = getattr(torch, "distributed", None)
    alone = dist is None or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1
    if alone or how == "none":
        return model
    if how in ("ddp", "zero1"):
        ids = [device.index if device.index is not None else torch.cuda.current_device()] if device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    return _fully_sharded(torch, model, precision, reshard=how == "fsdp")


def _fully_sharded(torch: Any, model: Any, precision: Optional[str], reshard: bool) -> Any:
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # PyTorch 2.6 and later
    except Exception:
        try:
            from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard  # 2.4, 2.5
        except Exception as problem:
            major, minor = version(torch)
            raise error("unavailable", f"PyTorch {major}.{minor} has no FSDP2", "PyTorch 2.6 or later; or the strategy ddp") from problem
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if precision is not None and precision not in kinds:
        raise error("invalid_argument", f"unknown precision '{precision}'", "bf16, fp16 or None")
    policy = MixedPrecisionPolicy(param_dtype=kinds[precision], reduce_dtype=torch.float32) if precision else MixedPrecisionPolicy()
    for block in _blocks(torch, model):
        fully_shard(block, mp_policy=policy, reshard_after_forward=reshard)
    return fully_shard(model, mp_policy=policy, reshard_after_forward=reshard)


def _blocks(torch: Any, model: Any) -> list[Any]:
    """The layers of a stack, each gathered as one: members of the ModuleLists and Sequentials that are not within
    another of them and have parameters."""
    for module in model.modules():
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and len(module) > 1 and module is not model:
            layers = [layer for layer in module if any(True for _ in layer.parameters())]
            if len(layers) > 1:
                return layers
    return []
