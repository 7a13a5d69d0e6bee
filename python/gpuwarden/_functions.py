# SPDX-License-Identifier: Apache-2.0
"""What a Machine does, as functions on the default machine."""
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpuwarden import _core
from gpuwarden._arguments import text as _text
from gpuwarden._machine import (
    GpuMemory,
    Gpus,
    Path,
    Reservation,
    confidence,
    default_machine,
    model_name,
    options_text,
    paths,
)
from gpuwarden._values import (
    Compatibility,
    Decision,
    Diagnosis,
    Examination,
    Leases,
    MemoryStatus,
    Plan,
    Replay,
    RunReport,
    Snapshot,
    Value,
    read,
)


def snapshot(detail: str = "full", *, processes: bool = True, links: bool = False, holders: bool = False) -> Snapshot:
    """All GPUs at this moment: Machine.snapshot()."""
    return default_machine().snapshot(detail, processes=processes, links=links, holders=holders)


def gpu_memory() -> list[GpuMemory]:
    """Each GPU's memory in bytes: Machine.gpu_memory()."""
    return default_machine().gpu_memory()


def memory(gpus: Gpus = ()) -> MemoryStatus:
    """Who holds how much of each GPU's memory, in bytes: Machine.memory()."""
    return default_machine().memory(gpus)


def select(count: int | str | None = None, *, wait_s: float | None = None, **wanted: Any) -> Decision:
    """Which GPUs a request would get; nothing is held: Machine.select()."""
    return default_machine().select(count, wait_s=wait_s, **wanted)


def reserve(count: int | str | None = None, *, wait_s: float | None = None, **wanted: Any) -> Reservation:
    """Chooses GPUs and holds them: Machine.reserve()."""
    return default_machine().reserve(count, wait_s=wait_s, **wanted)


def run(argv: Sequence[Path], count: int | str | None = None, *, wait_s: float | None = None, **options: Any) -> RunReport:
    """Reserves GPUs and runs a command on them to its end: Machine.run()."""
    return default_machine().run(argv, count, wait_s=wait_s, **options)


def doctor(purpose: str | None = None, **options: Any) -> Examination:
    """Judges driver, GPUs, toolkits, frameworks and machine: Machine.doctor()."""
    return default_machine().doctor(purpose, **options)


def compat(question: str = "", **asked: Any) -> Compatibility:
    """What goes together: Machine.compat()."""
    return default_machine().compat(question, **asked)


def plan(model: str = "", **settings: Any) -> Plan:
    """Whether a model fits, and how: Machine.plan(). With gpus="8xh100" no machine is asked."""
    if "gpus" in settings:
        return read(Plan, _core.plan(None, model_name(model), options_text(settings)))
    return default_machine().plan(model, **settings)


def models() -> tuple[Value, ...]:
    """The models that plan() knows by name: `name`, `family`, `parameters`."""
    answer = json.loads(_core.models())
    rows = answer if isinstance(answer, list) else next(part for part in answer.values() if isinstance(part, list))
    return tuple(Value(row) for row in rows)


def diagnose(*logs: Path, live: bool = False, min_confidence: float | None = None) -> Diagnosis:
    """The cause of a failure from its logs: files, folders, archives.

    Args:
        live: it happened on this machine: its facts are looked at too.
        min_confidence: causes that are less sure (0 to 1) are left out; None: mere guesses (a first cause below 0.6).

    Raises:
        Error: not_found, permission_denied where there is nothing to read.
    """
    if live:
        return default_machine().diagnose(*logs, min_confidence=min_confidence)
    return read(Diagnosis, _core.diagnose(None, paths(logs), confidence(min_confidence)))


def leases() -> Leases:
    """Who holds which GPU and who waits: Machine.leases()."""
    return default_machine().leases()


def disable(gpus: Gpus, reason: str) -> tuple[Value, ...]:
    """Takes GPUs out of use: Machine.disable()."""
    return default_machine().disable(gpus, reason)


def enable(gpus: Gpus) -> tuple[Value, ...]:
    """Puts GPUs back into use: Machine.enable()."""
    return default_machine().enable(gpus)


def replay(trace: Path, **options: Any) -> Replay:
    """Runs recorded allocations (a PyTorch snapshot, a trace of `gpuwarden memory trace`) through the pool.

    Args:
        options: strategy ("balanced", "steady", "greedy", "consolidated", "fragmentation_aware", "all"), device_memory
            (bytes, or "80GiB"), repeat, tokens.
    """
    return read(Replay, _core.replay(paths(trace)[0], options_text(options)))


def metrics() -> tuple[Value, ...]:
    """All metrics: `id` (for Monitor), `unit`, `key` (of a snapshot's GPUs; None for what is derived), `help`."""
    return tuple(Value(row) for row in json.loads(_core.metrics()))


def fleets() -> Value:
    """The simulated fleets: `presets`, and the names of those that `running`."""
    return read(Value, _core.fleets())


def parse_size(text: str) -> int:
    """Bytes of "32GiB", "1.5 GB", "512M". Raises invalid_argument."""
    return _core.parse_size(_text("text", text))


def parse_duration(text: str) -> float:
    """Seconds of "500ms", "10s", "1h30m". Raises invalid_argument."""
    return _core.parse_duration(_text("text", text))
