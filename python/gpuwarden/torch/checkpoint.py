# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are whole or not there, and resuming from the latest one, its random numbers included."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Optional, Union

from ._common import error, load_torch

__all__ = ["Checkpoints", "load_checkpoint", "save_checkpoint", "stop_requested_by"]

PathLike = Union[str, "os.PathLike[str]"]
_NAME = re.compile(r"^step-(\d{9,})(\.pt)?$")


def _sync_folder(folder: Path) -> None:
    """What was renamed in the folder is there after a loss of power, too."""
    try:
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):  # some file systems do not take it for folders
            os.fsync(handle)
    finally:
        os.close(handle)


def save_checkpoint(path: PathLike, state: Any) -> Path:
    """Writes `state` (whatever torch.save takes) beside `path`, has it on the disk, and renames it: whoever opens `path`
    finds the old or the new file, never half of one. Raises OSError; the old file is then as it was."""
    torch = load_torch()
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    _sync_folder(target.parent)
    return target


def load_checkpoint(path: PathLike, map_location: Any = "cpu") -> Any:
    """What save_checkpoint() wrote: tensors, numbers and texts in dicts and lists; no code of the file is run (PyTorch
    2.0 and later). Raises Error (not_found) without the file, (corrupt) where it is no such file."""
    torch = load_torch()
    try:
        return torch.load(path, map_location=map_location, weights_only=True)
    except FileNotFoundError:
        raise error("not_found", f"there is no checkpoint '{os.fspath(path)}'", "look at the folder's name") from None
    except Exception as problem:
        if "Unsupported operand 71" in str(problem):
            raise error("unavailable", "PyTorch 1.13 reads no fractions without running a file's code", "PyTorch 2.0 or later") from None
        raise error("corrupt", f"'{os.fspath(path)}' is no checkpoint of tensors and plain values: {problem}".splitlines()[0],
                    "it was written by something else, or copied in part") from problem  # fmt: skip


def _distributed(torch: Any) -> Optional[Any]:
    """torch.distributed where this process is one of several ranks."""
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist if dist.get_world_size() > 1 else None


def _is_sharded(torch: Any, model: Any) -> bool:
    """Whether no rank has the whole model (FSDP2)."""
    # PyTorch 2.5 and later. Where nobody has imported it nothing is sharded, and importing it takes a second.
    tensor = sys.modules.get("torch.distributed.tensor")
    return tensor is not None and any(isinstance(parameter, tensor.DTensor) for parameter in model.parameters())


def _gather(dist: Optional[Any], mine: Any) -> list[Any]:
    """What each rank has to say, by rank."""
    if dist is None:
        return [mine]
    said: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(said, mine)
    return said


@contextlib.contextmanager
def _all_or_none(dist: Optional[Any]) -> Iterator[None]:
    """The block ends on all ranks, or raises on all of them: nobody waits for a rank whose disk is full."""
    problem: Optional[Exception] = None
    try:
        yield
    except Exception as raised:
        problem = raised
    said = _gather(dist, None if problem is None else f"{type(problem).__name__}: {problem}")
    if problem is not None:
        raise problem
    for rank, why in enumerate(said):
        if why is not None:
            raise error("failed", f"rank {rank} could not write the checkpoint: {why}", "the checkpoints before it are as they were")


def _unwrapped(model: Any) -> Any:
    """The model that DDP holds, so that names do not depend on how many ranks there were."""
    kind = getattr(getattr(load_torch().nn, "parallel", None), "DistributedDataParallel", ())
    return model.module if kind and isinstance(model, kind) else model


def _random_state(torch: Any) -> dict[str, Any]:
    version, internal, gauss = random.getstate()
    # As tensors: 1.13 reads no numbers of 32 bits without running code.
    state: dict[str, Any] = {
        "python": [version, torch.tensor(internal, dtype=torch.int64), gauss],
        "torch": torch.get_rng_state(),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, position, has_gauss, gauss = numpy.random.get_state()
        state["numpy"] = [str(kind), torch.tensor([int(key) for key in keys], dtype=torch.int64), int(position), int(has_gauss), float(gauss)]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _restore_random(torch: Any, state: dict[str, Any]) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal.tolist()), gauss))
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        with contextlib.suppress(ImportError):
            import numpy

            kind, keys, position, has_gauss, gauss = state["numpy"]
            numpy.random.set_state((kind, numpy.array(keys.tolist(), dtype="uint32"), position, has_gauss, gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def _spoken(steps: list[int]) -> str:
    return "steps " + ", ".join(str(step) for step in steps) if steps else "none"


class Checkpoints:
    """The checkpoints of a training, in a folder.

        checkpoints = Checkpoints("out", model, optimizer, scheduler=scheduler, keep=3)
        begin = checkpoints.resume()          # 0, or the step after the latest checkpoint
        for step in range(begin, steps):
            train(...)
            if checkpoints.due(step, every=500): checkpoints.save(step)

    Every rank calls save() and resume(). Rank 0 writes one file with the model; each rank's random numbers and what it
    told with `extra` are in it. A model that is sharded (FSDP2) is written by all ranks into a folder, by
    torch.distributed.checkpoint. Optimizers, schedulers and whatever else has state_dict() go by their names.
    """

    def __init__(self, folder: PathLike, model: Any, optimizer: Any = None, *, keep: int = 3, **others: Any) -> None:
        if keep < 1:
            raise error("invalid_argument", "keep must be at least 1", "how many checkpoints are left in the folder")
        self.folder = Path(folder)
        self._torch = load_torch()
        self._model = model
        self._optimizer = optimizer
        self._others = others
        self._keep = keep
        self._extra: dict[str, Any] = {}
        #: Whether `stop` of due() has said yes on any rank; the same on all of them.
        self.stop_heard = False

    def list(self) -> list[tuple[int, Path]]:
        """Steps and files of whole checkpoints, the oldest first."""
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            name = _NAME.match(path.name)
            if name and (path.is_file() or (path / "gpuwarden.pt").is_file()):
                found.append((int(name.group(1)), path))
        return sorted(found)

    def due(self, step: int, *, every: int, stop: Optional[Callable[[], bool]] = None) -> bool:
        """Whether to save after this step (from 0): every so many steps, and where `stop` says so on any rank."""
        wanted = (step + 1) % every == 0
        asked = bool(stop()) if stop is not None else False
        dist = _distributed(self._torch)
        if dist is not None and stop is not None:
            # A signal does not reach all ranks within the same step.
            flag = self._torch.tensor([1.0 if asked else 0.0])
            flag = flag.cuda() if dist.get_backend() == "nccl" else flag
            dist.all_reduce(flag, op=dist.ReduceOp.MAX)
            asked = bool(flag.item() > 0)
        self.stop_heard = self.stop_heard or asked
        return wanted or asked

    def save(self, step: int, **extra: Any) -> Path:
        """Writes the state after `step`; older checkpoints beyond `keep` are removed. Every rank calls it, and has it
        return when the checkpoint is whole. `extra`: numbers, texts and tensors, of each rank. Where a rank cannot write
        (OSError there), the others raise Error (failed) that names it."""
        dist = _distributed(self._torch)
        ranks = _gather(dist, {"random": _random_state(self._torch), "extra": extra})
        sharded = _is_sharded(self._torch, self._model)
        path = self.folder / (f"step-{step:09d}" if sharded else f"step-{step:09d}.pt")
        others = {name: other.state_dict() for name, other in self._others.items()}
        state: dict[str, Any] = {"step": step, "ranks": ranks, "others": others, "written": time.time()}
        if sharded:
            self._save_sharded(path, state, dist)
        else:
            with _all_or_none(dist):
                if dist is None or dist.get_rank() == 0:
                    state["model"] = _unwrapped(self._model).state_dict()
                    state["optimizer"] = self._optimizer.state_dict() if self._optimizer is not None else None
                    save_checkpoint(path, state)
        if dist is None or dist.get_rank() == 0:
            self._remove_old()
        return path

    def resume(self) -> int:
        """Loads the latest checkpoint into model, optimizer and the others; the step to go on with, 0 without one.

        A file that is not whole (which save() does not leave) on any rank is passed over by all of them for the one before
        it. With another number of ranks than it was written with, random numbers are not restored: the training goes on,
        not bit for bit. Raises Error (unsatisfied) where there are checkpoints, but none that all ranks see."""
        dist = _distributed(self._torch)
        mine = dict(self.list())
        seen = _gather(dist, sorted(mine))
        common = set.intersection(*(set(one) for one in seen))
        if not common and any(seen):
            other = next(rank for rank, one in enumerate(seen) if one != seen[0])
            raise error("unsatisfied", f"no checkpoint in '{self.folder}' is seen by all ranks: rank 0 sees {_spoken(seen[0])}, rank {other} {_spoken(seen[other])}",
                        "keep them on a file system that all nodes share, or copy them to each")  # fmt: skip
        for step in sorted(common, reverse=True):
            state = self._read_on_all(dist, mine[step])
            if state is not None:
                self._load(mine[step], state)
                return step + 1
        return 0

    def _read_on_all(self, dist: Optional[Any], path: Path) -> Optional[dict[str, Any]]:
        """What is in the checkpoint; None on all ranks where one of them finds it corrupt."""
        state, problem = None, None
        try:
            state = load_checkpoint(path / "gpuwarden.pt" if path.is_dir() else path)
        except Exception as raised:
            problem = raised
        code = None if problem is None else getattr(problem, "code", "failed")
        codes = _gather(dist, code)
        if problem is not None and code != "corrupt":
            raise problem
        others = [rank for rank, code in enumerate(codes) if code not in (None, "corrupt")]
        if others:
            raise error("failed", f"rank {others[0]} could not read '{path}' ({codes[others[0]]})", "see what that rank says")
        return state if all(code is None for code in codes) else None

    def extra(self) -> dict[str, Any]:
        """What save() was told with the latest checkpoint, by this rank."""
        return dict(self._extra)

    def _load(self, path: Path, state: dict[str, Any]) -> None:
        if path.is_dir():
            self._load_sharded(path)
        else:
            _unwrapped(self._model).load_state_dict(state["model"])
            if self._optimizer is not None and state.get("optimizer") is not None:
                self._optimizer.load_state_dict(state["optimizer"])
        for name, other in self._others.items():
            if name in state["others"]:
                other.load_state_dict(state["others"][name])
        dist = _distributed(self._torch)
        rank, world = (dist.get_rank(), dist.get_world_size()) if dist is not None else (0, 1)
        self._extra = state["ranks"][min(rank, len(state["ranks"]) - 1)]["extra"]
        if len(state["ranks"]) == world:
            _restore_random(self._torch, state["ranks"][rank]["random"])

    def _sharded_state(self) -> dict[str, Any]:
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self._model, self._optimizer if self._optimizer is not None else [])
        return {"model": model, "optimizer": optimizer}

    def _save_sharded(self, path: Path, state: dict[str, Any], dist: Any) -> None:
        import torch.distributed.checkpoint as dcp

        part = path.with_name(f".{path.name}.part")
        main = dist is None or dist.get_rank() == 0
        with _all_or_none(dist):
            if main:
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
        with _all_or_none(dist):
            dcp.save(self._sharded_state(), checkpoint_id=str(part))
        with _all_or_none(dist):
            if main:
                save_checkpoint(part / "gpuwarden.pt", state)
                shutil.rmtree(path, ignore_errors=True)
                os.replace(part, path)
                _sync_folder(path.parent)

    def _load_sharded(self, path: Path) -> None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict

        state = self._sharded_state()
        dcp.load(state, checkpoint_id=str(path))
        set_state_dict(self._model, self._optimizer if self._optimizer is not None else [],
                       model_state_dict=state["model"], optim_state_dict=state["optimizer"])  # fmt: skip

    def _remove_old(self) -> None:
        for _, path in self.list()[: -self._keep]:
            with contextlib.suppress(OSError):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        # What is left of saves that were killed; this training's own is done.
        for path in self.folder.glob(".step-*.part"):
            with contextlib.suppress(OSError):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


@contextlib.contextmanager
def stop_requested_by(signals: Iterable[int] = (signal.SIGUSR1, signal.SIGTERM)) -> Iterator[Callable[[], bool]]:
    """Within it these signals (Slurm's --signal=USR1@60, the end of a time limit) are noted instead of ending the
    program: what it gives says whether one has come. Handlers are as before afterwards. Only in the main thread.

        with stop_requested_by() as stopping:
            for step in ...:
                if checkpoints.due(step, every=500, stop=stopping): checkpoints.save(step)
                if checkpoints.stop_heard: break
    """
    came = {"signal": 0}

    def note(number: int, _: Any) -> None:
        came["signal"] = number

    before = {}
    try:
        for number in signals:
            before[number] = signal.signal(number, note)
    except ValueError:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise error("invalid_argument", "signals are heard in the main thread alone", "enter stop_requested_by() there") from None
    try:
        yield lambda: came["signal"] != 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
