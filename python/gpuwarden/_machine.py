# SPDX-License-Identifier: Apache-2.0
"""The machine that is worked on: this one, a simulated fleet, or what a capture tells."""
from __future__ import annotations

import json
import math
import operator
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Union

from gpuwarden import _core
from gpuwarden._arguments import number, text
from gpuwarden._error import invalid
from gpuwarden._values import (
    Compatibility,
    Decision,
    Diagnosis,
    Examination,
    Leases,
    MemoryStatus,
    Plan,
    RunReport,
    Snapshot,
    Value,
    read,
)

Path = Union[str, "os.PathLike[str]"]
Gpus = Union[int, str, Iterable[Union[int, str]]]


class GpuMemory(NamedTuple):
    """One GPU's memory in bytes; None where the GPU does not tell."""

    index: int  # type: ignore[assignment]  # a field, not tuple's method
    uuid: str
    used_bytes: int | None
    free_bytes: int | None
    total_bytes: int | None


def options_text(options: dict[str, Any]) -> str:
    """Keyword arguments as the library reads them: what is None is left out."""
    given = {key: _plain(value) for key, value in options.items() if value is not None}
    if given.get("wait_s") == math.inf:
        given["wait_s"] = -1
    try:
        return json.dumps(given, allow_nan=False)
    except (TypeError, ValueError):
        raise invalid(_unreadable(given)) from None


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, set, frozenset, tuple, range)):
        return [_plain(one) for one in value]
    if isinstance(value, (bool, int, type)):
        return value
    try:
        return operator.index(value)  # of numpy and the like
    except TypeError:
        return value


def _unreadable(given: dict[str, Any]) -> str:
    for key, value in given.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"{key} cannot be read: {error}"
    return "an argument cannot be read"


def names_of(gpus: Gpus) -> list[str]:
    """GPUs as texts: indices, UUIDs or their beginnings, PCI bus ids, ranges ("0-3")."""
    if isinstance(gpus, (int, str)):
        gpus = [gpus]
    try:
        return [str(one) for one in gpus]
    except TypeError:
        raise invalid(f"gpus must be a GPU or a list of GPUs, not {gpus!r}", 'for example 0, "0-3", [0, 2]') from None


def _words(name: str, words: Sequence[str]) -> list[str]:
    if isinstance(words, str):
        raise invalid(f"{name} must be a list of texts, not {words!r}", f"{name}=[{words!r}]")
    try:
        return [text(name, one) for one in words]
    except TypeError:
        raise invalid(f"{name} must be a list of texts, not {words!r}") from None


def model_name(model: Any) -> str:
    return text("model", os.fspath(model) if isinstance(model, os.PathLike) else model)


def confidence(least: float | None) -> float | None:
    """min_confidence of diagnose()."""
    return None if least is None else number("min_confidence", least)


def paths(files: Path | Sequence[Path] | None) -> list[str]:
    if files is None:
        return []
    try:
        return [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [text("a path", os.fspath(file)) for file in files]
    except TypeError:
        raise invalid(f"{files!r} is neither a path nor a list of paths") from None


class Reservation:
    """GPUs that are held for this process and its children, until it is left, released, or garbage.

        with gpuwarden.reserve(count=2) as gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus.cuda_visible_devices

    Other users of gpuwarden leave them alone meanwhile. In a forked child it is the parent's: release() raises there.
    """

    def __init__(self, core: _core.Reservation) -> None:
        self._core = core

    @property
    def decision(self) -> Decision:
        """Which GPUs, and why the others were not taken."""
        return read(Decision, self._core.decision())

    @property
    def cuda_visible_devices(self) -> str:
        """A value for CUDA_VISIBLE_DEVICES: UUIDs with commas between; empty for the CPU."""
        return str(self.decision.cuda_visible_devices)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Of the GPUs or MIG instances that are held; empty once released."""
        return tuple(self._core.uuids())

    @property
    def held(self) -> bool:
        """Whether this process still holds them."""
        return self._core.held

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reservation does not guarantee; usually nothing."""
        return tuple(self._core.warnings())

    def release(self) -> None:
        """Gives them back. Releasing twice is no error."""
        self._core.release()

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"Reservation({', '.join(self.uuids) or 'released'})"

    def _repr_html_(self) -> str:
        return self.decision._repr_html_()


class Machine:
    """A machine: its GPUs, their leases, and the software around them.

    Args:
        simulate: a simulated fleet: a preset ("h100x8"), a YAML file, a capture's file, a started fleet's name. Only one
            simulated machine can be open in a process at a time. Where neither `simulate` nor `capture` is given,
            GPUWARDEN_SIMULATE of the environment is honoured.
        capture: files that stand for the machine: output of `gpuwarden snapshot`, nvidia-smi, a bundle, a log of a
            failure (for doctor(); what needs facts of a machine raises where it tells none).
        root: the software is looked at below this folder (an image, a chroot).
        timeout_s: how long the driver, and then each GPU, may take to answer.
        wake: reads sleeping GPUs too, which wakes them.
        probe: whom to ask: "auto", "nvml" or "nvidia-smi".
        knowledge: YAML files to lay over the knowledge base.

    Raises:
        Error: unavailable (no simulator), invalid_argument (no such fleet), or as reading the capture fails.
    """

    def __init__(
        self,
        simulate: str | None = None,
        capture: Path | Sequence[Path] | None = None,
        root: Path | None = None,
        *,
        timeout_s: float | None = None,
        wake: bool = False,
        probe: str | None = None,
        knowledge: Sequence[Path] = (),
    ) -> None:
        if simulate is None and capture is None:
            simulate = os.environ.get("GPUWARDEN_SIMULATE") or None
        if simulate is not None:
            text("simulate", simulate)
        self._root = "/" if root is None else paths(root)[0]
        self._pid = os.getpid()
        options = {"timeout_s": timeout_s, "wake": wake, "probe": probe, "knowledge": paths(knowledge)}
        self._core = _core.Machine.open(simulate, paths(capture), options_text(options))

    def close(self) -> None:
        """Ends its connection to the driver; what is asked afterwards raises. Closing twice is no error."""
        self._core.close()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._core.closed:
            return "Machine(closed)"
        what = self._core.fleet if self._core.simulated else self._core.capture_name or "this machine"
        return f"Machine({'SIMULATED ' if self._core.simulated else ''}{what})"

    @property
    def simulated(self) -> bool:
        """Whether its GPUs are a simulated fleet's."""
        return self._core.simulated

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

    def simulated_environment(self) -> dict[str, str]:
        """What a program's environment needs so that it sees the simulated fleet; empty for real GPUs."""
        return dict(json.loads(self._core.simulated_environment()))

    def snapshot(
        self, detail: str = "full", *, processes: bool = True, links: bool = False, holders: bool = False
    ) -> Snapshot:
        """All GPUs at this moment.

        Args:
            detail: "basic" (what choosing needs), "full" (every metric that NVML gives at once) or "slow" (PCIe and
                NVLink throughput and profiling too: 20 to 100 ms for each GPU).
            processes: who computes on each GPU.
            links: how the GPUs are joined.
            holders: processes that have a GPU open though NVML does not list them.

        Never raises for a driver that does not answer: `problem` says so, and `gpus` holds what the kernel knows.
        """
        options = {"detail": detail, "processes": processes, "links": links, "holders": holders}
        return read(Snapshot, self._core.snapshot(options_text(options)))

    def survey(self, *, software: bool = True, ask_pythons: bool = False) -> Snapshot:
        """The GPUs and the software around them: driver, toolkits, Pythons, containers (`environment`); seconds."""
        options = {"root": self._root, "software": software, "ask_pythons": ask_pythons}
        return read(Snapshot, self._core.survey(options_text(options)))

    def gpu_memory(self) -> list[GpuMemory]:
        """Each GPU's memory in bytes, by NVML index: the cheapest reading. Raises unavailable without a driver."""
        return [GpuMemory(*row) for row in self._core.gpu_memory()]

    def memory(self, gpus: Gpus = ()) -> MemoryStatus:
        """Who holds how much of each GPU's memory (bytes), with what the processes' pools tell of themselves."""
        return read(MemoryStatus, self._core.memory_status(names_of(gpus)))

    def select(self, count: int | str | None = None, *, wait_s: float | None = None, **wanted: Any) -> Decision:
        """Which GPUs a request would get; nothing is held.

        Args:
            count: how many (1); "2:4": as many as there are of these.
            wait_s: how long to wait until there are such GPUs; negative or infinite: without end.
            wanted: what `gpuwarden select` has options for, with "_" for "-": gpu_ids, all, min_memory and
                min_free_memory (bytes, or a text with a unit: "40GiB"), max_utilization (percent),
                min_compute_capability ("8.0"), name, mig, mig_profile, prefer, exclude, share, allow_busy, device
                ("cpu", "cuda:1"), priority; cpu=True is device="cpu". model or model_size with what `gpuwarden plan`
                takes (task, sequence, micro_batch ...).

        Raises:
            Error: invalid_argument; unavailable where no driver answers; timed_out. A request that cannot be met is an
                answer: `satisfied` is False and `missing` says why.
        """
        return read(Decision, _core.select(self._core, options_text({"count": count, "wait_s": wait_s, **wanted})))

    def reserve(self, count: int | str | None = None, *, wait_s: float | None = None, **wanted: Any) -> Reservation:
        """Chooses GPUs as select() does and holds them. Ctrl-C ends the waiting.

        Raises:
            Error: unsatisfied where there are no such GPUs now; timed_out after `wait_s` seconds; as select().
        """
        command = " ".join(sys.argv) or "python"
        options = {"count": count, "wait_s": wait_s, "command": command, **wanted}
        return Reservation(_core.reserve(self._core, options_text(options)))

    def run(
        self, argv: Sequence[Path], count: int | str | None = None, *, wait_s: float | None = None, **options: Any
    ) -> RunReport:
        """Reserves GPUs and runs a command on them to its end, with torchrun's variables. Ctrl-C ends the job.

        Args:
            argv: the program and its arguments; its output goes where this process's goes.
            count: how many GPUs; without a word about them one for each rank. Other wishes as for select().
            options: environment (a dict, set on top), and what `gpuwarden run` has options for, with "_" for "-":
                nproc_per_node (ranks: a number, or "gpu": one for each), one_gpu_per_rank, numa_binding, module, nnodes
                (nodes), node_rank, master_addr (master_address), master_port, rdzv_endpoint; log_dir (log_directory),
                redirects, tee; max_restarts, heal, restart_delay, restart_arg, hang_timeout, time_limit, signal,
                straggler, checkpoint, probation, cpu_fallback; record, status, sample_period, grace, sim_load
                (simulated_load: "memory=20GiB,util=80"). A duration is a number of seconds, or a text ("10m"); grace_s
                and sample_period_s take seconds alone.

        Returns how it ended (`exit_code` is what a shell would report), what its GPUs did, and each failed try with its
        cause (`attempts`, `post_mortem`).

        Raises:
            Error: not_found or permission_denied where the program cannot be run; as reserve().
        """
        if isinstance(argv, str):
            raise invalid(f"argv must be a list of words, not {argv!r}", f"run({argv.split()!r})")
        words = paths(argv)
        if not words:
            raise invalid("no command is given", 'run(["python", "train.py"])')
        return read(RunReport, _core.run(self._core, words, options_text({"count": count, "wait_s": wait_s, **options})))

    def doctor(
        self,
        purpose: str | None = None,
        *,
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        expect: Path | None = None,
        software: bool = True,
        ask_pythons: bool = False,
    ) -> Examination:
        """Judges driver, GPUs, toolkits, frameworks and machine, as `gpuwarden doctor` does.

        Args:
            purpose: what for: "pytorch==2.5.1+cu124", "train llama-3-8b".
            only, skip: checks or areas.
            expect: a site's inventory to compare with (docs/knowledge.md).
            software: look at the software around the GPUs, too.
            ask_pythons: start each Python with PyTorch and ask it (some seconds).
        """
        options = {
            "purpose": purpose,
            "only": _words("only", only),
            "skip": _words("skip", skip),
            "expect": None if expect is None else paths(expect)[0],
            "software": software,
            "ask_pythons": ask_pythons,
            "root": self._root,
        }
        return read(Examination, _core.doctor(self._core, options_text(options)))

    def compat(self, question: str = "", **asked: Any) -> Compatibility:
        """What goes together: "cu128", "torch==2.5.1", "RTX 5090", "xid 79"; without a question: what this machine runs.

        Args:
            asked: gpus and driver to judge for instead of this machine's (of a capture and of a simulated fleet: over
                what these tell); cuda; purpose; matrix; on, a date ("2027-06") to judge by instead of today.
        """
        return read(Compatibility, _core.compat(self._core, text("question", question), options_text(asked)))

    def plan(self, model: str = "", **settings: Any) -> Plan:
        """Whether a model fits on these GPUs, and how.

        Args:
            model: a name (gpuwarden.models()), a config.json or its folder; or params="7B".
            settings: gpus ("8xh100" instead of this machine's) and everything that `gpuwarden plan` takes, with "_" for
                "-": task, sequence, micro_batch, global_batch, precision, optimizer, recompute, strategy ...
                command is a line that starts it now ("vllm serve Qwen/Qwen3-8B -tp 2"): what it says, the others go
                before.
        """
        return read(Plan, _core.plan(self._core, model_name(model), options_text(settings)))

    def diagnose(self, *logs: Path, min_confidence: float | None = None) -> Diagnosis:
        """The cause of a failure from its logs (files, folders, archives), judged with this machine's facts."""
        return read(Diagnosis, _core.diagnose(self._core, paths(logs), confidence(min_confidence)))

    def leases(self) -> Leases:
        """Who holds which GPU and who waits."""
        return read(Leases, _core.leases(self._core))

    def disable(self, gpus: Gpus, reason: str) -> tuple[Value, ...]:
        """Takes GPUs out of use until enable(): by root for everybody, else for one's own jobs. Gives all that are."""
        return read(Value, _core.disable(self._core, names_of(gpus), text("reason", reason))).disabled  # type: ignore[no-any-return]

    def enable(self, gpus: Gpus) -> tuple[Value, ...]:
        """Puts them back. Raises permission_denied where another's word disables one."""
        return read(Value, _core.enable(self._core, names_of(gpus))).disabled  # type: ignore[no-any-return]

    def disabled(self) -> tuple[Value, ...]:
        """What is out of use: uuid, reason, by, for_everybody, since."""
        return read(Value, _core.disabled(self._core)).disabled  # type: ignore[no-any-return]


_lock = threading.RLock()
_default: Machine | None = None
_chosen: list[Chosen] = []  # by simulate() and use_machine(), the last one counts


class Chosen:
    """A machine that counts as the default one. Where it is another process's, by which this one was forked, a simulated
    fleet is joined with a connection of this process's own: a test's worker sees what the test sees."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._fleet = machine.simulated_environment().get("GPUWARDEN_SIM_FLEET")

    def here(self) -> Machine:
        """The machine, as this process may use it. Raises unavailable where the fleet has ended."""
        with _lock:
            if self._machine._pid != os.getpid() and self._fleet is not None:
                self._machine = Machine(simulate=self._fleet)
            return self._machine

    def close(self) -> None:
        """Closes what here() opened in this process; the machine itself is whoever's made it."""
        if self._machine._pid == os.getpid():
            self._machine.close()


def default_machine() -> Machine:
    """The machine that the functions of the package work on: that of the innermost `with simulate(...)`, else this
    machine, or the fleet that GPUWARDEN_SIMULATE names. In a forked child it is opened anew: a simulated fleet is the
    parent's, joined."""
    global _default
    with _lock:
        if _chosen:
            return _chosen[-1].here()
        wanted = os.environ.get("GPUWARDEN_SIMULATE") or None
        usable = _default is not None and not _default.closed and _default._pid == os.getpid()
        if _default is None or not usable or getattr(_default, "_wanted", None) != wanted:
            if _default is not None:
                _default.close()
            _default = Machine()
            _default._wanted = wanted  # type: ignore[attr-defined]
        return _default


@contextmanager
def use_machine(machine: Machine) -> Iterator[Chosen]:
    """Within it `machine` is the default machine."""
    chosen = Chosen(machine)
    with _lock:
        _chosen.append(chosen)
    try:
        yield chosen
    finally:
        with _lock:
            _chosen.remove(chosen)
        if machine._pid != os.getpid():
            chosen.close()


def close_default() -> None:
    """Closes the default machine where it is a simulated one, of which a process can have one at a time."""
    with _lock:
        if _default is not None and _default._pid == os.getpid() and not _default.closed and _default.simulated:
            _default.close()


def _after_fork() -> None:
    # Another thread may have held it when this process was forked.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
