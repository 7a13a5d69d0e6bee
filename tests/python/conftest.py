# SPDX-License-Identifier: Apache-2.0
"""Every test has folders of its own for leases, state and simulated fleets, and no GPU but a simulated one."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("GPUWARDEN_SIMULATE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GPUWARDEN_LEASE_DIR", "GPUWARDEN_STATE_DIR", "GPUWARDEN_SIM_DIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    yield
    from gpuwarden._machine import close_default

    close_default()
