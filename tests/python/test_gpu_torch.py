# SPDX-License-Identifier: Apache-2.0
"""What the manager asks of a torch that sees CUDA, held against a stand-in of torch on a simulated fleet."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import gpuwarden
from gpuwarden import _gpu_torch
from gpuwarden import gpu as g
from stand_in_torch import GIB, Model, Torch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    made = Torch()
    monkeypatch.setattr(_gpu_torch, "import_torch", lambda: (made, ""))
    return made


@pytest.fixture
def fleet() -> Iterator[Any]:
    with gpuwarden.simulate("h100x8") as running:
        yield running


class EnteringCore:
    """The core of a CUDAManager on which devices can be entered: simulated GPUs have no CUDA driver in this process."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def enter(self, gpu: int | None) -> Any:
        device = self._core.best_device() if gpu is None else self._core.device(gpu)
        return SimpleNamespace(device=device, close=lambda: None)


@contextlib.contextmanager
def managed(config: dict[str, Any] | None = None, **options: Any) -> Iterator[g.GPUManager]:
    with g.GPUManager({"enable_monitoring": False, **(config or {})}, cuda={"retry_delay": 0}, **options) as manager:
        manager.cuda_manager._core = EnteringCore(manager.cuda_manager._core)
        yield manager


def test_the_context_gives_that_device_and_makes_it_current(torch: Torch, fleet: Any) -> None:
    with managed() as manager:
        assert manager.get_status()["cuda_available"] is True
        assert manager.get_status()["torch"] == torch.__version__
        with manager.device_context(2) as device:
            assert str(device) == "cuda:2"
            assert torch.cuda.inside == ["cuda:2"]
        assert torch.cuda.inside == []
        with pytest.raises(gpuwarden.Error, match="GPU 9 is not managed"), manager.device_context(9):
            pass


def test_a_gpu_that_torch_does_not_see_is_the_cpu(monkeypatch: pytest.MonkeyPatch, fleet: Any) -> None:
    monkeypatch.setattr(_gpu_torch, "import_torch", lambda: (Torch(2), ""))
    with managed() as manager, manager.device_context(5) as device:
        assert str(device) == "cpu"


def test_the_memory_fraction_is_torchs_too_on_each_managed_gpu(torch: Torch, fleet: Any) -> None:
    with managed({"memory_fraction": 0.5, "device_ids": [1, 3]}) as manager:
        assert torch.cuda.calls == [("fraction", 0.5, 1), ("fraction", 0.5, 3)]
        manager.memory_manager.set_memory_fraction(0.25)
        assert torch.cuda.calls[-1] == ("fraction", 0.25, 1)


def kept_after_a_context(torch: Torch, idle: int, **config: Any) -> int:
    with managed(config) as manager, manager.device_context(1):
        torch.cuda.allocated[1], torch.cuda.reserved[1] = GIB, GIB + idle
    return torch.cuda.reserved[1] - torch.cuda.allocated[1]


def test_pooling_keeps_torchs_cache_for_the_next_context(torch: Torch, fleet: Any) -> None:
    assert kept_after_a_context(torch, 10 * GIB) == 10 * GIB
    assert kept_after_a_context(torch, 10 * GIB, enable_memory_pooling=False) == 0


def test_the_cache_is_held_below_its_share_of_the_limit(torch: Torch, fleet: Any) -> None:
    assert kept_after_a_context(torch, 10 * GIB, max_memory_cache_ratio=0.1) == 0
    assert kept_after_a_context(torch, 7 * GIB, max_memory_cache_ratio=0.1) == 7 * GIB
    assert kept_after_a_context(torch, 7 * GIB, max_memory_cache_ratio=0.1, memory_fraction=0.5) == 0


def test_the_cache_is_tidied_where_the_block_raises_too(torch: Torch, fleet: Any) -> None:
    with managed({"enable_memory_pooling": False}) as manager:
        with pytest.raises(KeyError), manager.device_context(1):
            torch.cuda.reserved[1] = GIB
            raise KeyError("bug")
        assert torch.cuda.reserved[1] == 0
        assert torch.cuda.inside == []


def test_an_emergency_empties_the_cache_and_then_moves_the_largest_model(torch: Torch, fleet: Any) -> None:
    with managed() as manager:
        large, small = Model(torch, "cuda:0", 8 * GIB), Model(torch, "cuda:1", 2 * GIB)
        manager.register_model("small", small)
        manager.register_model("large", large)
        torch.cuda.reserved[3] = GIB
        assert manager.emergency_release(GIB)["freed_bytes"] == GIB
        assert str(large.parameters()[0].device) == "cuda:0", "the cache was enough"
        report = manager.emergency_release(5 * GIB)
        assert report["enough"] is True
        assert str(large.parameters()[0].device) == "cpu" and str(small.parameters()[0].device) == "cuda:1"
        report = manager.emergency_release()
        assert str(small.parameters()[0].device) == "cpu"
        assert sum(torch.cuda.reserved) == 0
        assert report["freed_bytes"] == 2 * GIB


def test_work_that_is_out_of_memory_has_models_moved_before_another_gpu_is_tried(torch: Torch, fleet: Any) -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    with managed() as manager:
        model = Model(torch, "cuda:0", 8 * GIB)
        manager.register_model("model", model)
        tried: list[str] = []

        def work(device: Any) -> str:
            tried.append(str(device))
            if torch.cuda.allocated[0]:
                raise OutOfMemoryError("CUDA out of memory")
            return "done"

        assert manager.run(work) == "done"
        assert tried == ["cuda:0", "cuda:0"]
        assert str(model.parameters()[0].device) == "cpu"


def test_lost_gpus_are_left_for_others_and_at_last_for_the_cpu(torch: Torch, fleet: Any) -> None:
    tried: list[str] = []

    def work(device: Any) -> str:
        tried.append(str(device))
        if str(device) != "cpu":
            raise RuntimeError("CUDA error: device-side assert triggered")
        return str(device)

    with managed({"device_ids": [0, 1]}) as manager:
        assert manager.run(work) == "cpu"
    assert set(tried) == {"cuda:0", "cuda:1", "cpu"}
    assert tried[-1] == "cpu"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (type("OutOfMemoryError", (RuntimeError,), {})("x"), "unsatisfied"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), "unsatisfied"),
        (type("AcceleratorError", (RuntimeError,), {})("x"), "unavailable"),
        (RuntimeError("NCCL communicator was aborted"), "unavailable"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "unavailable"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "invalid_argument"),
        (TimeoutError(), "timed_out"),
        (ValueError("out of memory"), "invalid_argument"),
        (KeyboardInterrupt(), "interrupted"),
        (gpuwarden.Error("unavailable", "gone"), "unavailable"),
    ],
)
def test_what_trying_again_can_help_is_told_by_its_kind(error: BaseException, code: str) -> None:
    assert _gpu_torch.kind_of(error) == code


def test_the_process_group_is_nccls_where_torch_sees_cuda(torch: Torch, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with managed() as manager:
        setup = manager.setup_distributed(init_process_group=True)
        manager.setup_distributed(init_process_group=True)
    assert setup["backend"] == "nccl"
    assert torch.distributed.started == [("nccl", {"rank": 0, "world_size": 1})]
