# SPDX-License-Identifier: Apache-2.0
"""Simulated fleets for tests: GPUs that behave, fail and recover as they are told."""
from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from gpuwarden._arguments import text, whole
from gpuwarden._error import invalid
from gpuwarden._machine import Chosen, Machine, close_default, use_machine


class Simulation:
    """A simulated fleet, as `with gpuwarden.simulate("h100x8") as fleet:` gives it.

    Within it the package's functions and modules see the fleet.
    """

    def __init__(self, fleet: str, faults: Iterable[str] = (), shared: bool = False) -> None:
        self._spec = text("fleet", fleet)
        self._faults = [faults] if isinstance(faults, str) else list(faults)
        self._shared = shared
        self._stack = ExitStack()
        self._machine: Chosen | None = None

    def __enter__(self) -> Simulation:
        if self._machine is not None:
            raise invalid("this simulation is already running", "make another: gpuwarden.simulate(...)")
        with ExitStack() as stack:
            close_default()
            if not self._shared:
                self._enter_own_folders(stack)
            machine = stack.enter_context(Machine(simulate=self._spec))
            self._machine = stack.enter_context(use_machine(machine))
            for fault in self._faults:
                self.fault(*_placed(fault))
            self._stack = stack.pop_all()
        return self

    @staticmethod
    def _enter_own_folders(stack: ExitStack) -> None:
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        root = tempfile.mkdtemp(prefix="gpuwarden-", dir=memory)
        stack.callback(_remove_folder, root, os.getpid())
        for name in ("GPUWARDEN_SIM_DIR", "GPUWARDEN_STATE_DIR", "GPUWARDEN_LEASE_DIR"):
            folder = os.path.join(root, name[10:].lower())
            os.mkdir(folder)
            stack.callback(_restore, name, os.environ.get(name))
            os.environ[name] = folder

    def __exit__(self, *exception: object) -> None:
        self._machine = None
        self._stack.close()

    @property
    def machine(self) -> Machine:
        """The fleet as a Machine; in a forked child, one of the child's own. Raises outside of the `with`."""
        if self._machine is None:
            raise invalid("this simulation is not running", 'with gpuwarden.simulate("h100x8") as fleet: ...')
        return self._machine.here()

    def control(self, op: str, **values: Any) -> dict[str, Any]:
        """One control call of the simulator: fault, clear_faults, set, clock, reset, show, declare, undeclare."""
        return dict(json.loads(self.machine._core.simulator_call(json.dumps({"op": op, **values})) or "null") or {})

    def fault(self, gpu: int, fault: str) -> None:
        """Injects a fault: "xid=79", "off_the_bus", "hang", "ecc_uncorrected=1" ... (a wrong one's hint lists them)."""
        self.control("fault", gpu=whole("gpu", gpu), fault=text("fault", fault))

    def clear_faults(self, gpu: int | None = None) -> None:
        """Ends the faults of one GPU, or of all."""
        self.control("clear_faults", gpu=gpu)

    def set(self, gpu: int, field: str, value: float | None) -> None:
        """Fixes a reading: set(0, "temperature", 90); None: the GPU does not report it."""
        self.control("set", gpu=gpu, field=field, value=value)

    def load(self, gpus: Iterable[int], memory_bytes: int, utilization_percent: int = 60, pid: int | None = None) -> None:
        """Has a process (this one) show as holding so much memory and load on each of the GPUs."""
        snapshot = self.machine.snapshot("basic")
        uuids = [snapshot.gpus[index].uuid for index in gpus]
        self.control(
            "declare",
            pid=pid or os.getpid(),
            gpus=uuids,
            memory_bytes=memory_bytes,
            utilization_percent=utilization_percent,
        )

    def advance(self, seconds: float) -> None:
        """Lets the fleet's clock jump ahead."""
        self.control("clock", advance_seconds=seconds)

    def __repr__(self) -> str:
        return f"Simulation({self._spec!r}{'' if self._machine else ', not running'})"


def simulate(fleet: str, faults: Iterable[str] = (), shared: bool = False) -> Simulation:
    """A context in which the package works on a simulated fleet.

    Args:
        fleet: as Machine(simulate=...).
        faults: injected at once, each "GPU:FAULT" ("3:xid=79").
        shared: joins the fleet of that name which other processes are in, or that `gpuwarden sim start` keeps; else it is
            this process's own, and its leases and disabled GPUs are, too.

    A process can have one simulated machine at a time: raises unavailable where another Machine(simulate=...) is open.
    A process that is forked within it (multiprocessing's "fork") is in the same fleet, with a connection of its own;
    its reservations are its own, too. One that is started anew ("spawn", a program) is not: programs that are started within see the fleet through Machine.run(), or with Machine.simulated_environment().
    """
    return Simulation(fleet, faults, shared)


def _placed(fault: str) -> tuple[int, str]:
    gpu, colon, what = str(fault).partition(":")
    if not colon or not gpu.strip().isdigit() or not what:
        raise invalid(f"'{fault}' is not GPU:FAULT", 'for example "3:xid=79"')
    return int(gpu), what


def _remove_folder(root: str, owner: int) -> None:
    """A forked child that leaves the `with` leaves its parent's folder alone."""
    if os.getpid() == owner:
        # A program of the fleet may still be writing there.
        shutil.rmtree(root, ignore_errors=True)


def _restore(name: str, before: str | None) -> None:
    if before is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = before
