# SPDX-License-Identifier: Apache-2.0
"""Tells other processes what a stock PyTorch holds: `gpuwarden memory` shows allocated, reserved and peak of it.

    import gpuwarden

    gpuwarden.publish()          # or, without a change of the program: GPUWARDEN_PUBLISH=1 in its environment

A thread of its own looks once a second at PyTorch's counters, and writes a small file for each GPU when they have changed
(/dev/shm/gpuwarden-pools-UID, or GPUWARDEN_MEMORY_DIR). It neither imports PyTorch nor starts CUDA: before the program
does, there is nothing to tell. A PyTorch on gpuwarden's own allocator tells by itself.
"""
from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from gpuwarden import _core
from gpuwarden._error import Error
from gpuwarden._process_memory import started_torch

#: What is told of a GPU: its UUID, and figures by their names in `gpuwarden memory --json`.
Figures = tuple[str, dict[str, int]]

#: The figures and the counters of torch.cuda.memory_stats() that they are; those that a version lacks are left out.
_COUNTERS = {
    "live_bytes": "allocated_bytes.all.current",
    "peak_live_bytes": "allocated_bytes.all.peak",
    "requested_bytes": "requested_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "segments": "segment.all.current",
    "live_blocks": "active.all.current",
    "allocations": "allocation.all.allocated",
    "out_of_memory": "num_ooms",
}

_log = logging.getLogger("gpuwarden")


def figures_of(stats: dict[str, int], limit_bytes: int | None = None) -> dict[str, int]:
    """The figures in torch.cuda.memory_stats() of one device; {} where there are none. Pure."""
    figures = {name: int(stats[counter]) for name, counter in _COUNTERS.items() if counter in stats}
    if "reserved_bytes" not in figures or "live_bytes" not in figures:
        return {}
    figures["free_bytes"] = max(0, figures["reserved_bytes"] - figures["live_bytes"])
    if limit_bytes is not None:
        figures["limit_bytes"] = limit_bytes
    return figures


def torch_figures() -> list[Figures]:
    """What PyTorch holds in this process now; [] where it has not started CUDA. Starts nothing."""
    torch = started_torch()
    if torch is None:
        return []
    told = []
    for device, uuid in enumerate(_core.started_cuda_devices() or []):
        figures = figures_of(dict(torch.cuda.memory_stats(device)), _limit_of(torch, device))
        if uuid and figures.get("peak_reserved_bytes"):
            told.append((uuid, figures))
    return told


def _limit_of(torch: Any, device: int) -> int | None:
    """The limit that set_per_process_memory_fraction() set; None where there is none, or this PyTorch does not tell it."""
    ask = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    fraction = ask(device) if ask is not None else 1.0
    return None if fraction >= 1 else int(fraction * torch.cuda.get_device_properties(device).total_memory)


class Publisher:
    """Tells until close(), or to the end of the process. A context manager. Thread-safe.

    Args:
        interval_s: seconds between looks.
        folder: where the files are; "" for the user's own. GPUWARDEN_MEMORY_DIR is for whoever calls publish().
        source: gives what is to be told; PyTorch's counters where it is None.
    """

    def __init__(
        self, interval_s: float = 1.0, folder: str = "", source: Callable[[], Iterable[Figures]] | None = None
    ) -> None:
        if not interval_s > 0:
            raise Error("invalid_argument", "interval_s must be greater than 0 seconds")
        self.interval_s = interval_s
        self.folder = folder
        self._source = source or torch_figures
        self._files: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="gpuwarden-publish", daemon=True)
        self._thread.start()

    def publish_once(self) -> None:
        """Looks and tells now. Raises Error where the folder cannot be used."""
        told = list(self._source())
        with self._lock:
            if self._stop.is_set():
                return
            for gpu, figures in told:
                if gpu not in self._files:
                    self._files[gpu] = _core.StatusFile.create(self.folder)
                self._files[gpu].write(gpu, "pytorch", figures)

    @property
    def files(self) -> list[str]:
        """The files that are written."""
        with self._lock:
            return [file.file for file in self._files.values()]

    def close(self) -> None:
        """Stops, and removes the files. Closing what is closed is no error."""
        self._stop.set()
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(timeout=5)
        with self._lock:
            self._files.clear()  # each removes its file

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.wait(self.interval_s):
            try:
                self.publish_once()
            except Exception as problem:  # the program goes on without it, whatever its counters say
                if not self._complained:
                    _log.warning("cannot publish PyTorch's memory: %s", problem)
                self._complained = True


_publisher: Publisher | None = None
_guard = threading.Lock()


def publish(interval_s: float = 1.0, *, folder: str | None = None) -> Publisher:
    """Begins to tell others of this process's PyTorch, once however often it is called; the publisher's close() ends it.

    Args:
        interval_s: seconds between looks at PyTorch's counters.
        folder: where the files are; None: GPUWARDEN_MEMORY_DIR, else the user's own, where `gpuwarden memory` looks.
    """
    global _publisher
    with _guard:
        if _publisher is None or _publisher._stop.is_set():
            where = os.environ.get("GPUWARDEN_MEMORY_DIR", "") if folder is None else folder
            _publisher = Publisher(interval_s, where)
        return _publisher


def start_if_asked() -> Publisher | None:
    """publish() where GPUWARDEN_PUBLISH asks for it: 1 or on, or seconds between looks; 0, off and nothing: it does not."""
    text = os.environ.get("GPUWARDEN_PUBLISH", "").strip().lower()
    if text in ("", "0", "off"):
        return None
    if text in ("1", "on"):
        return publish()
    try:
        return publish(float(text))
    except (ValueError, Error):
        print(f"gpuwarden: GPUWARDEN_PUBLISH: '{text}' is neither on, off nor a number of seconds", file=sys.stderr)
        return None


def _end() -> None:
    if _publisher is not None:
        _publisher.close()


def _begin_anew() -> None:
    """In a forked child: the thread is not there, and the files are the parent's."""
    global _publisher, _guard
    _guard = threading.Lock()
    before, _publisher = _publisher, None
    if before is not None and not before._stop.is_set():
        _publisher = Publisher(before.interval_s, before.folder, before._source)


atexit.register(_end)
os.register_at_fork(after_in_child=_begin_anew)
