# SPDX-License-Identifier: Apache-2.0
"""Frozen values made of the library's JSON answers: units stand in the names, unknown is None."""
from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

V = TypeVar("V", bound="Value")

_SHOWN_ITEMS = 6


class Value:
    """An answer that does not change. Its fields are attributes (`value.power_watts`) and items (`value["power_watts"]`).

    Lists are tuples, nested objects are Values, what is unknown is None. `to_dict()` gives plain Python that json.dumps
    takes. Two values are equal where their fields are.
    """

    __slots__ = ("_fields",)
    _fields: dict[str, Any]
    #: Which classes the fields' values have: field -> class; of a list's items, too.
    _classes: ClassVar[Mapping[str, type[Value]]] = {}
    #: The field that a notebook shows as a table, and its columns: a title and a path of fields.
    _table: ClassVar[str] = ""
    _columns: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init__(self, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_fields", {key: _wrap(item, self._classes.get(key, Value)) for key, item in fields.items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_fields":
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            known = ", ".join(sorted(self._fields))
            raise AttributeError(f"{type(self).__name__} has no field '{name}' (it has: {known})") from None

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The field, or `default` where there is none."""
        return self._fields.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def keys(self) -> Iterator[str]:
        """The names of the fields."""
        return iter(self._fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._fields})

    def __eq__(self, other: object) -> bool:
        return self._fields == other._fields if isinstance(other, Value) else NotImplemented

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers, texts, bools and None."""
        return {key: _plain(item) for key, item in self._fields.items()}

    def __repr__(self) -> str:
        shown = [f"{key}={_short(item)}" for key, item in self._fields.items() if not _is_empty(item)]
        more = ", ..." if len(shown) > _SHOWN_ITEMS else ""
        return f"{type(self).__name__}({', '.join(shown[:_SHOWN_ITEMS])}{more})"

    def _repr_html_(self) -> str:
        if self._table:
            return _title_html(self) + table_html(self._columns, self._fields.get(self._table) or ())
        rows = [{"field": key, "value": _short(item)} for key, item in self._fields.items()]
        return table_html((("", "field"), (type(self).__name__, "value")), [Value(row) for row in rows])


def _is_empty(item: Any) -> bool:
    return item is None or item is False or (isinstance(item, (str, tuple)) and not item)


def _wrap(item: Any, kind: type[Value]) -> Any:
    if isinstance(item, Mapping):
        return kind(item)
    if isinstance(item, (list, tuple)):
        return tuple(_wrap(one, kind) for one in item)
    return item


def _plain(item: Any) -> Any:
    if isinstance(item, Value):
        return item.to_dict()
    return [_plain(one) for one in item] if isinstance(item, tuple) else item


def _short(item: Any) -> str:
    if isinstance(item, tuple) and len(item) > 3:
        return f"<{len(item)} items>"
    if isinstance(item, Value):
        return f"{type(item).__name__}(...)"
    text = repr(item)
    return text if len(text) <= 80 else text[:77] + "..."


def _title_html(value: Value) -> str:
    if not value.get("simulated"):
        return ""
    return f"<p>SIMULATED {html.escape(str(value.get('fleet') or ''))}</p>"


def _at(item: Any, path: str) -> Any:
    for name in path.split("."):
        item = item.get(name) if isinstance(item, Value) else None
    return item


def show_cell(name: str, item: Any) -> str:
    """A field as people read it: bytes as GiB, None as "-"."""
    if item is None:
        return "-"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if name.endswith("_bytes") and isinstance(item, (int, float)):
        return f"{item / 2**30:.1f} GiB"
    if isinstance(item, float):
        return f"{item:.4g}"
    return ", ".join(map(str, item)) if isinstance(item, tuple) else str(item)


def table_html(columns: tuple[tuple[str, str], ...], rows: Any) -> str:
    """An HTML table: a column for each (title, path of fields), a row for each value."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title, _ in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(show_cell(path, _at(row, path)))}</td>" for _, path in columns) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _details_html(value: Value) -> str:
    """Its plain fields as one table, each of its lists of values as a table of its own."""
    lists = {key: item for key, item in value._fields.items() if _is_rows(item)}
    plain = [Value({"field": key, "value": show_cell(key, _brief(item))}) for key, item in value._fields.items() if key not in lists]
    tables = [table_html((("", "field"), ("", "value")), plain)] if plain else []
    for key, rows in lists.items():
        names = [name for name, item in rows[0]._fields.items() if not isinstance(item, Value) and not _is_rows(item)]
        tables.append(f"<p>{html.escape(key)}</p>" + table_html(tuple((name, name) for name in names), rows))
    return "".join(tables)


def _is_rows(item: Any) -> bool:
    return isinstance(item, tuple) and bool(item) and all(isinstance(one, Value) for one in item)


def _brief(item: Any) -> Any:
    """A nested value in one cell: its fields that are known."""
    if not isinstance(item, Value):
        return item
    return ", ".join(f"{key}: {show_cell(key, one)}" for key, one in item._fields.items() if not _is_empty(one) and not isinstance(one, Value))


class Gpu(Value):
    """One GPU with its reading: a record of `gpuwarden snapshot --json` (docs/json.md says what each field is).

    `index` (NVML's), `uuid`, `name`, `state`, `memory.total_bytes`, `memory.used_bytes`, `memory.free_bytes`,
    `utilization.gpu_percent`, `power_watts`, `temperature_celsius` ... The metrics' keys and units: gpuwarden.metrics().
    """


class Snapshot(Value):
    """All GPUs at one moment: `gpus`, `driver_version`, `host`, `taken_at`, `problem` (None where the driver answers)."""

    _classes = {"gpus": Gpu}
    _table = "gpus"
    _columns = (
        ("GPU", "index"),
        ("name", "name"),
        ("state", "state"),
        ("used", "memory.used_bytes"),
        ("total", "memory.total_bytes"),
        ("busy %", "utilization.gpu_percent"),
        ("power W", "power_watts"),
        ("°C", "temperature_celsius"),
    )


class Decision(Value):
    """A choice of GPUs: `satisfied`, `selected` (index, uuid, name), `rejected` (why each other GPU was not taken),
    `missing`, `cuda_visible_devices`."""

    _table = "selected"
    _columns = (("GPU", "index"), ("name", "name"), ("uuid", "uuid"))


class Examination(Value):
    """The doctor's verdict: `overall`, `findings` (id, severity, title, fix), worst first."""

    _table = "findings"
    _columns = (("severity", "severity"), ("check", "id"), ("finding", "title"))


class Diagnosis(Value):
    """The causes of a failure found in logs: `causes` (id, title, confidence, fix), surest first."""

    _table = "causes"
    _columns = (("confidence", "confidence"), ("cause", "id"), ("", "title"))


class Compatibility(Value):
    """What goes together, as `gpuwarden compat --json` answers: `kind`, `question`, and the `answer` of that kind."""

    def _repr_html_(self) -> str:
        question = self.get("question") or self.get("kind") or ""
        return f"{_title_html(self)}<p>{html.escape(str(question))}</p>{_details_html(self.get('answer') or Value({}))}"


class Plan(Value):
    """Whether a model fits, with which strategy, and what memory each GPU needs: `verdict`, `reason`, `recommended`,
    `strategies` (best first), `per_gpu` (bytes)."""

    _table = "strategies"
    _columns = (
        ("strategy", "name"),
        ("verdict", "verdict"),
        ("memory of each GPU", "expected_bytes"),
        ("micro batch", "micro_batch"),
        ("effective batch", "effective_batch"),
    )

    def _repr_html_(self) -> str:
        model, gpus = self.get("model") or Value({}), self.get("gpus") or Value({})
        what = f"{model.get('name') or 'model'} on {gpus.get('count')} x {gpus.get('name')}: {self.get('verdict')}"
        told = "".join(f"<p>{html.escape(str(line))}</p>" for line in (what, self.get("reason")) if line)
        return told + super()._repr_html_()


class MemoryStatus(Value):
    """Who holds how much of each GPU: `gpus` with processes and what their pools tell."""

    _table = "gpus"
    _columns = (("GPU", "index"), ("name", "name"), ("used", "memory.used_bytes"), ("total", "memory.total_bytes"))


class Replay(Value):
    """What allocators made of a recorded workload: `peak_reserved_bytes`, `utilization`, `strategies` (each one's figures)."""


class Leases(Value):
    """Who holds what and who waits: `leases`, `waiting`."""

    _table = "leases"
    _columns = (("GPU", "uuid"), ("shared", "shared"))


class RunReport(Value):
    """How a job ended and what its GPUs did: `exit_code`, `ranks`, `gpus`, `wall_time_seconds`, `waste`, `findings`."""

    _table = "gpus"
    _columns = (("GPU", "index"), ("name", "name"), ("peak", "peak_memory_bytes"), ("busy %", "mean_utilization_percent"))


class Alert(Value):
    """An alert: `id`, `rule`, `level`, `gpu`, `uuid`, `message`, `next_step`, `value`, `unit`, `since`, `ended`."""


class AlertChange(Value):
    """What a reading changed: `kind` ("began", "repeated", "ended"), `alert`, `silenced`."""

    _classes = {"alert": Alert}


class Health(Value):
    """How fit a GPU is: `uuid`, `index`, `state` ("available", "busy", "error", "disabled"), `reason`, `next_step`."""


class HealthChange(Value):
    """A GPU whose state changed: `before`, `now`."""

    _classes = {"before": Health, "now": Health}


class Statistics(Value):
    """A metric over a stretch of time, weighted by time: `min`, `mean`, `max`, `p50`, `p95`, `p99` in the metric's unit,
    `readings`, `covered_seconds`."""


class Series(Value):
    """A metric over time: `points` with `time_unix` (s), `min`, `mean`, `max` in the metric's unit; gaps are left out."""

    _table = "points"
    _columns = (("time", "time_unix"), ("min", "min"), ("mean", "mean"), ("max", "max"))


def read(kind: type[V], text: str) -> V:
    """The value of a JSON text."""
    return kind(json.loads(text))
