# SPDX-License-Identifier: Apache-2.0
"""Which steps helped, remembered on disk: one JSON file for each combination of model, inputs, device and versions.

A file holds names and figures only; whatever it says is checked before it is believed, and the output of what is made
from it is compared with the original's as always."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from .report import OUTCOMES, StepResult

#: A change in the meaning of the files, or of the steps, is another number.
FORMAT = 1
_LARGEST = 1 << 20


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/gpuwarden/optimize, or ~/.cache/gpuwarden/optimize. As XDG says, a relative path does not
    count."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    return folder / "gpuwarden" / "optimize"


def structure_of(model: Any) -> str:
    """A digest of the model's modules, of their code where they are not PyTorch's, and of the shapes and types of its
    weights; not of the weights themselves."""
    parts: list[Any] = []
    for path, module in model.named_modules():
        kind = type(module)
        parts.append([path, kind.__module__, kind.__qualname__, module.extra_repr() if hasattr(module, "extra_repr") else ""])
        if not kind.__module__.startswith("torch."):
            parts.append(_code_of(kind))
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        parts.append([name, list(tensor.shape), str(tensor.dtype), bool(tensor.requires_grad)])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _code_of(kind: type) -> list[str]:
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    if code is None:
        return []
    constants = [repr(value) for value in code.co_consts if not hasattr(value, "co_code")]
    return [code.co_code.hex(), *code.co_names, *constants]


def file_for(key: dict[str, Any], folder: Path | None = None) -> Path:
    """Where the answer to this key is kept."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return (folder or cache_folder()) / f"{digest}.json"


def read(key: dict[str, Any], known_steps: tuple[str, ...], folder: Path | None = None) -> tuple[dict[str, Any] | None, str]:
    """The remembered answer ({"steps": [StepResult], "original_ms", "optimized_ms"}), or None; and a note where there is
    a file that cannot be used."""
    file = file_for(key, folder)
    try:
        with open(file, "rb") as opened:
            text = opened.read(_LARGEST + 1)
    except FileNotFoundError:
        return None, ""
    except OSError as problem:
        return None, f"the cache cannot be read: {problem}"
    try:
        return _checked(text, key, known_steps), ""
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        return None, f"the cache file {file} is damaged and was ignored: {problem}"


def _checked(text: bytes, key: dict[str, Any], known_steps: tuple[str, ...]) -> dict[str, Any]:
    if len(text) > _LARGEST:
        raise ValueError("it is too large")
    content = json.loads(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("key") != key:
        raise ValueError("it belongs to another question")
    steps = [StepResult(**step) for step in content["steps"]]
    for step in steps:
        if step.id not in known_steps or step.outcome not in OUTCOMES or not isinstance(step.reason, str):
            raise ValueError(f"unknown step {step.id!r}")
    for name in ("original_ms", "optimized_ms"):
        if type(content[name]) not in (int, float):
            raise ValueError(f"{name} is no number")
    return {"steps": steps, "original_ms": content["original_ms"], "optimized_ms": content["optimized_ms"]}


def write(key: dict[str, Any], answer: dict[str, Any], folder: Path | None = None) -> str:
    """Replaces the file as a whole; returns a note where that failed."""
    file = file_for(key, folder)
    temporary = ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".new-", suffix=".json")
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            json.dump({"format": FORMAT, "key": key, **answer}, opened, indent=1)
        os.replace(temporary, file)
    except OSError as problem:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        return f"the result could not be cached: {problem}"
    return ""
