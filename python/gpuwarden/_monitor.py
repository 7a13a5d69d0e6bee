# SPDX-License-Identifier: Apache-2.0
"""Watching GPUs in the background."""
from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from typing import Any

from gpuwarden import _core
from gpuwarden._arguments import function, number, text, whole
from gpuwarden._machine import Machine, default_machine, options_text
from gpuwarden._values import Alert, AlertChange, Health, HealthChange, Series, Snapshot, Statistics, V, Value, read

_running: weakref.WeakSet[Monitor] = weakref.WeakSet()


class Monitor:
    """Reads the GPUs again and again in threads of the library: history, alerts and health.

        with gpuwarden.Monitor(interval_s=1) as monitor:
            monitor.add_alert_callback(lambda change: print(change.kind, change.alert.message))
            train()
            print(monitor.statistics(0, "utilization", last_s=60))

    Args:
        machine: the default machine where it is left out.
        interval_s: seconds between readings, 0.1 to 600.
        rules: alert rules in YAML (docs/alerts.md), beside the built-in ones.
        remember_s: how long readings are kept in memory (3600).
        processes: reads who uses each GPU too.
        store: a file for history that outlives the program.

    Callbacks are called from one thread of the library, one at a time, with the interpreter's lock; what they raise goes
    to sys.unraisablehook. In a forked child its methods raise unavailable.
    """

    def __init__(
        self,
        machine: Machine | None = None,
        *,
        interval_s: float = 1.0,
        rules: str | None = None,
        remember_s: float | None = None,
        processes: bool = True,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        options = {
            "interval_s": interval_s,
            "rules": rules,
            "remember_s": remember_s,
            "processes": processes,
            "store": store,
        }
        self._core = _core.Monitor((machine or default_machine())._core, options_text(options))

    def start(self) -> Monitor:
        """Begins to read. Raises failed where it is running, or as opening the store fails."""
        self._core.start()
        _running.add(self)
        return self

    def stop(self) -> None:
        """Ends at once; what was read stays to be asked for. Stopping twice is no error."""
        self._core.stop()
        _running.discard(self)

    def __enter__(self) -> Monitor:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it reads."""
        return self._core.running

    def add_reading_callback(self, callback: Callable[[Snapshot], object]) -> None:
        """Heard with each reading."""
        function("callback", callback)
        self._core.add_reading_callback(lambda text: callback(read(Snapshot, text)))

    def add_alert_callback(self, callback: Callable[[AlertChange], object]) -> None:
        """Heard when an alert begins, is repeated or ends."""
        function("callback", callback)
        self._core.add_alert_callback(lambda text: callback(read(AlertChange, text)))

    def add_health_callback(self, callback: Callable[[HealthChange], object]) -> None:
        """Heard when a GPU becomes fit or unfit, busy or free, disabled or enabled."""
        function("callback", callback)
        self._core.add_health_callback(lambda text: callback(read(HealthChange, text)))

    def latest(self) -> Snapshot | None:
        """The last reading; None before the first."""
        return _maybe(Snapshot, self._core.latest())

    def wait(self, timeout_s: float = 10.0) -> Snapshot | None:
        """Waits for the next reading, at most `timeout_s` seconds (math.inf: without end); None where none comes in time.
        Ctrl-C ends the waiting."""
        return _maybe(Snapshot, self._core.wait_for_reading(number("timeout_s", timeout_s)))

    def history(self, gpu: int | str, metric: str, last_s: float = 3600, step_s: float = 0) -> Series:
        """A metric (gpuwarden.metrics()) of a GPU over the last seconds, in the metric's unit; `step_s` joins readings."""
        times = (number("last_s", last_s), number("step_s", step_s))
        return read(Series, self._core.history(str(gpu), text("metric", metric), *times))

    def statistics(self, gpu: int | str, metric: str, last_s: float = 600) -> Statistics | None:
        """The metric's min, mean, max and percentiles over the last seconds; None where nothing was read."""
        return _maybe(Statistics, self._core.statistics(str(gpu), text("metric", metric), number("last_s", last_s)))

    def energy(self, gpu: int | str, last_s: float = 600) -> Value | None:
        """`joules` that the GPU took in the last seconds, `from_counter`: its own; None where it is not known."""
        return _maybe(Value, self._core.energy(str(gpu), number("last_s", last_s)))

    def health(self) -> tuple[Health, ...]:
        """How fit each GPU is, as judged over time."""
        return _list(Health, self._core.health())

    def alerts(self) -> tuple[Alert, ...]:
        """Those that last, worst and oldest first."""
        return _list(Alert, self._core.alerts())

    def alert_log(self, most: int = 100) -> tuple[AlertChange, ...]:
        """The last changes of alerts, newest first."""
        return _list(AlertChange, self._core.alert_log(whole("most", most, most=2**32 - 1)))

    def acknowledge(self, alert: int, by: str) -> None:
        """Ends its repetition. Raises not_found for an id that is not active."""
        self._core.acknowledge(whole("alert", alert), text("by", by))

    def silence(self, rule: str = "", gpu: int | str = "", for_s: float = 3600, by: str = "", comment: str = "") -> None:
        """Alerts of this rule and GPU (empty: of all) are not told for so many seconds."""
        words = (text("by", by), text("comment", comment))
        self._core.silence(text("rule", rule), str(gpu), number("for_s", for_s), *words)


def _maybe(kind: type[V], text: str | None) -> V | None:
    return None if text is None else read(kind, text)


def _list(kind: type[V], text: str) -> tuple[V, ...]:
    import json

    rows: list[dict[str, Any]] = json.loads(text)
    return tuple(kind(row) for row in rows)


@atexit.register
def _stop_all() -> None:
    # Their threads call Python, which is about to end.
    for monitor in list(_running):
        if monitor.running:
            monitor.stop()
