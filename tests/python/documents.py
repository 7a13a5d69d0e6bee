# SPDX-License-Identifier: Apache-2.0
"""What the tests of the users' documents share: machines to run their examples on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import gpuwarden
from gpuwarden import _process_memory, distributed, environment


@contextlib.contextmanager
def machine_without_gpus(folder: Path) -> Iterator[gpuwarden.Machine]:
    """A machine on which there is neither a driver nor a GPU, whatever the real one has."""
    nothing = str(folder / "nothing")
    variables = ("GPUWARDEN_NVML_LIBRARY", "GPUWARDEN_NVIDIA_SMI", "GPUWARDEN_SYS_ROOT", "GPUWARDEN_PROC_ROOT")
    with mock.patch.dict(os.environ, dict.fromkeys(variables, nothing)):
        os.environ.pop("GPUWARDEN_SIMULATE", None)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        machine = gpuwarden.Machine()
        with contextlib.ExitStack() as stack:
            for module in (distributed, environment, _process_memory):
                stack.enter_context(mock.patch.object(module, "default_machine", lambda: machine))
            yield machine


@contextlib.contextmanager
def untouched_environment() -> Iterator[None]:
    """CUDA_VISIBLE_DEVICES and what this process remembers of it are as before afterwards."""
    with mock.patch.dict(os.environ):
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            os.environ.pop(name, None)
        yield
        distributed.reset_visible_gpus()


def seed(name: str) -> str | None:
    """The text of a user's document, where the shared folder lies beside the checkout or GPUWARDEN_SEEDS names it."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "seeds"
    folder = Path(os.environ.get("GPUWARDEN_SEEDS", beside))
    found = sorted(folder.glob(f"{name}_*.txt")) if folder.is_dir() else []
    return found[0].read_text(encoding="utf-8") if found else None
