# SPDX-License-Identifier: Apache-2.0
"""Memory without a GPU: what is said there, and the shapes of what PyTorch answers, played by a stand-in."""

import os
import subprocess
import sys

import pytest

from gpuwarden._error import Error
from gpuwarden.torch import memory, memory_fraction, memory_pool, memory_status, memory_summary, pool_status, use_pool


@pytest.fixture
def gpu(torch, monkeypatch):
    """Two GPUs as torch.cuda tells of them; returns the statistics, to be changed."""
    stats = {
        "allocated_bytes.all.current": 3 << 20,
        "reserved_bytes.all.current": 8 << 20,
        "allocated_bytes.all.peak": 5 << 20,
        "reserved_bytes.all.peak": 9 << 20,
        "inactive_split_bytes.all.current": 1 << 20,
        "num_alloc_retries": 2,
        "num_ooms": 1,
    }

    class Properties:
        total_memory = 100 << 20

    for name, value in {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 2,
        "current_device": lambda: 1,
        "memory_stats": lambda device: stats,
        "mem_get_info": lambda device: (60 << 20, 100 << 20),
        "get_device_properties": lambda device: Properties,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return stats


def test_without_a_gpu_every_figure_is_unknown_and_it_is_said(torch):
    if torch.cuda.is_available():
        pytest.skip("PyTorch sees a GPU")
    status = memory_status()
    assert status.allocator == "none" and status.note == "PyTorch sees no GPU"
    assert status.allocated_bytes is None and status.device_total_bytes is None
    assert "PyTorch sees no GPU" in memory_summary()
    assert pool_status() is None


def test_the_figures_are_pytorchs(gpu):
    status = memory_status(0)
    assert status.device == "cuda:0"
    assert (status.allocated_bytes, status.reserved_bytes) == (3 << 20, 8 << 20)
    assert (status.peak_allocated_bytes, status.peak_reserved_bytes) == (5 << 20, 9 << 20)
    assert (status.allocation_retries, status.out_of_memory_errors) == (2, 1)
    assert (status.device_free_bytes, status.device_total_bytes) == (60 << 20, 100 << 20)
    assert status.to_dict()["inactive_split_bytes"] == 1 << 20


def test_a_figure_that_this_pytorch_lacks_is_unknown(gpu):
    del gpu["num_ooms"], gpu["inactive_split_bytes.all.current"]
    status = memory_status("cuda:0")
    assert status.out_of_memory_errors is None and status.inactive_split_bytes is None


def test_the_current_device_is_the_default(gpu, torch):
    assert memory_status().device == "cuda:1"
    assert memory_status("cuda").device == "cuda:1"
    assert memory_status("cpu").allocator == "none"


def test_nothing_is_started_by_asking(gpu, torch, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda device: pytest.fail("starts CUDA"))
    status = memory_status(0)
    assert status.allocated_bytes == 0 and "not used CUDA yet" in status.note


def test_a_foreign_allocator_without_statistics_is_told(gpu, torch, monkeypatch):
    def refuses(device):
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats\nmore")

    monkeypatch.setattr(torch.cuda, "memory_stats", refuses)
    status = memory_status(0)
    assert status.allocated_bytes is None and "keeps no statistics" in status.note


@pytest.mark.parametrize(("device", "words"), [(7, "no CUDA device 7"), ("sofa", "unknown device")])
def test_a_device_that_is_not_there_is_told(gpu, device, words):
    with pytest.raises(Error, match=words) as caught:
        memory_status(device)
    assert caught.value.code == "invalid_argument"


def test_the_summary_has_all_of_it(gpu):
    text = memory_summary(0)
    for words in (
        "cuda:0: allocator pytorch",
        "3.0 MiB",
        "peak 9.0 MiB",
        "5.0 MiB   of it split 1.0 MiB",
        "free 60.0 MiB",
        "2 retries, 1 out-of-memory errors",
    ):
        assert words in text


@pytest.mark.parametrize("fraction", [0, -0.5, 1.01, "half", True, None, float("nan")])
def test_a_fraction_outside_its_range_is_told(gpu, fraction):
    with pytest.raises(Error, match="above 0 and at most 1"):
        memory_fraction(fraction)


def test_a_fraction_is_handed_to_pytorch(gpu, torch, monkeypatch):
    told = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *arguments: told.append(arguments))
    assert memory_fraction(0.25, 0) == 25 << 20
    assert told == [(0.25, torch.device("cuda", 0))]


def test_a_fraction_needs_a_gpu(torch):
    if torch.cuda.is_available():
        pytest.skip("PyTorch sees a GPU")
    with pytest.raises(Error, match="no GPU") as caught:
        memory_fraction(0.5)
    assert caught.value.code == "unavailable"


def test_a_library_that_is_not_there_is_told(torch):
    with pytest.raises(Error) as caught:
        use_pool("/nowhere/libgpuwarden_torch.so")
    assert caught.value.code == "unavailable"
    if not str(torch.__version__).startswith("1."):
        assert "/nowhere/libgpuwarden_torch.so" in caught.value.message


def test_an_old_pytorch_is_told(torch, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.2.1")
    with pytest.raises(Error, match=r"PyTorch 2\.2\.1 cannot use"):
        use_pool()


def test_after_cuda_was_used_it_is_too_late(gpu, torch, monkeypatch):
    import ctypes

    monkeypatch.setattr(torch, "__version__", "2.13.0")
    function = ctypes.CFUNCTYPE(None)(lambda: None)
    library = type("Library", (), dict.fromkeys(memory._HOOKS.values(), function))()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda path: library)
    with pytest.raises(Error, match="can no longer be changed") as caught:
        use_pool("x.so")
    assert caught.value.code == "failed"
    assert memory._pool is None


def test_the_library_is_looked_for_in_the_environment_first(monkeypatch):
    monkeypatch.setenv("GPUWARDEN_TORCH_LIBRARY", "/there/lib.so")
    assert memory._pool_library(None) == "/there/lib.so"
    assert memory._pool_library("/here.so") == "/here.so"


@pytest.mark.parametrize("missing", ["gpu", "feature"])
def test_where_there_can_be_no_pool_the_body_runs_and_the_scope_says_why(torch, monkeypatch, missing):
    if torch.cuda.is_available():
        pytest.skip("PyTorch sees a GPU")
    if missing == "feature":
        monkeypatch.delattr(torch.cuda, "MemPool", raising=False)
    with memory_pool("inference") as scope:
        assert float(torch.ones(2).sum()) == 2
    assert not scope.active and scope.reserved_bytes() is None
    old = missing == "feature" or not hasattr(torch.cuda, "MemPool")
    assert ("2.5 or later" if old else "no GPU") in scope.reason


def test_a_pool_is_used_again_and_left_after_a_failure(gpu, torch, monkeypatch):
    import contextlib

    used = []

    class MemPool:
        def snapshot(self):
            return [{"total_size": 5}, {"total_size": 7}]

    @contextlib.contextmanager
    def use(pool, device):
        used.append(("enter", pool, device))
        try:
            yield
        finally:
            used.append(("leave", pool, device))

    monkeypatch.setattr(torch.cuda, "MemPool", MemPool, raising=False)
    monkeypatch.setattr(torch.cuda, "use_mem_pool", use, raising=False)
    with memory_pool("a", 0) as first:
        assert first.active and first.reserved_bytes() == 12
    with pytest.raises(ValueError), memory_pool("a", 0, pool=first.pool):
        raise ValueError
    assert [kind for kind, *_ in used] == ["enter", "leave"] * 2
    assert {id(pool) for _, pool, _ in used} == {id(first.pool)}


def test_importing_starts_no_torch():
    program = (
        "import sys, gpuwarden.torch, gpuwarden.torch.optimize, gpuwarden.torch.benchmarking, gpuwarden.torch.memory; "
        "sys.exit('torch' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode
        == 0
    )


def test_without_pytorch_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(Error, match="PyTorch cannot be imported") as caught:
        memory_status()
    assert caught.value.code == "unavailable" and caught.value.hint == "pip install torch"
