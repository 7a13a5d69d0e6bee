# SPDX-License-Identifier: Apache-2.0
"""PyTorch where it is installed, and a clock that models move themselves: no test here depends on how fast it runs."""

from __future__ import annotations

import os

import pytest
from costly_models import always_faster, convolutions, costly, optimize  # noqa: F401  # fixtures

# Before PyTorch is imported. One small kernel is compiled: processes and headers made beforehand for many cost more.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")


def _torch():
    try:
        import torch
    except ImportError as problem:
        return None, str(problem)
    return torch, ""


def pytest_configure(config):
    config.addinivalue_line("markers", "cuda: needs a GPU that PyTorch sees (scripts/gpu_acceptance.sh)")


def pytest_collection_modifyitems(items):
    torch, _ = _torch()
    if torch is not None and torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason="PyTorch sees no GPU"))


@pytest.fixture
def torch():
    """PyTorch; a skip without it, a failure where the environment says that it must be there."""
    found, why = _torch()
    if found is None and os.environ.get("GPUWARDEN_REQUIRE_TORCH") == "1":
        pytest.fail(f"GPUWARDEN_REQUIRE_TORCH=1, but PyTorch cannot be imported: {why}")
    if found is None:
        pytest.skip(f"no PyTorch: {why}")
    return found


class FakeClock:
    """Seconds; models advance it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"
