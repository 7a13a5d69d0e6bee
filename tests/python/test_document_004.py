# SPDX-License-Identifier: Apache-2.0
"""Every Python example of the guide to choosing GPUs (document 004), with only the package's name changed."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import gpuwarden
from documents import machine_without_gpus, seed, untouched_environment
from gpuwarden import distributed
from gpuwarden.distributed import (
    auto_select_gpus_for_model,
    get_available_gpus,
    get_gpu_info,
    get_gpu_memory_usage,
    get_optimal_device,
    get_visible_gpus,
    print_gpu_info,
    select_gpus,
    set_visible_gpus,
    setup_gpu_environment,
)


@pytest.fixture(autouse=True)
def own_environment():
    with untouched_environment():
        yield


@pytest.fixture
def h100x8():
    with gpuwarden.simulate("h100x8"):
        yield gpuwarden.default_machine()


@pytest.fixture
def without_gpus(tmp_path):
    with machine_without_gpus(tmp_path) as machine:
        yield machine


def visible() -> list[str]:
    return os.environ["CUDA_VISIBLE_DEVICES"].split(",")


def uuids() -> list[str]:
    return [info["uuid"] for info in get_gpu_info()]


def test_quick_start(h100x8):
    device = setup_gpu_environment(num_gpus=2)
    assert str(device) == "cpu", "simulated GPUs are none for PyTorch"
    assert len(visible()) == 2
    setup_gpu_environment(gpu_ids=[0, 2])
    assert visible() == [uuids()[0], uuids()[2]], "what this module hid before does not restrict the next choice"
    assert get_visible_gpus() == [0, 2]
    setup_gpu_environment()
    assert get_visible_gpus() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_basic_selection(h100x8, capsys):
    available = get_available_gpus()
    print(f"Available GPUs: {available}")
    print_gpu_info()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Available GPUs: [0, 1, 2, 3, 4, 5, 6, 7]"
    assert lines[1] == "Available GPUs: 8"
    assert re.fullmatch(r"GPU 0: NVIDIA H100 80GB HBM3 \(\d+ MB total, \d+ MB used \(\d+\.\d%\), Compute 9\.0\)", lines[2])
    assert len(lines) == 10
    setup_gpu_environment(gpu_ids=[0, 2, 4, 6])
    assert get_visible_gpus() == [0, 2, 4, 6]
    setup_gpu_environment(num_gpus=4)
    assert len(get_visible_gpus()) == 4


def test_advanced_selection(h100x8):
    assert select_gpus(min_memory_mb=32000) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert select_gpus(min_memory_mb=320000) == []
    gpus = auto_select_gpus_for_model(model_size_gb=140)
    assert 2 <= len(gpus) <= 4, "140 GB of weights are more than one H100 holds"
    assert len(auto_select_gpus_for_model(model_size_gb=14)) == 1
    for gpu_id in [0, 1, 2, 3]:
        allocated, total, util = get_gpu_memory_usage(gpu_id)
        print(f"GPU {gpu_id}: {allocated}/{total} MB ({util:.1f}%)")
        assert 0 <= allocated < total == 81559
        assert util == pytest.approx(100 * allocated / total, abs=0.01)


def test_manual_control(h100x8):
    set_visible_gpus([0, 2, 4, 6])
    assert visible() == [uuids()[gpu] for gpu in (0, 2, 4, 6)]
    device = get_optimal_device(gpu_ids=[0, 2, 4, 6])
    assert str(device) == "cpu"
    assert get_visible_gpus() == [0, 2, 4, 6], "the first is cuda:0"


def test_scenarios(h100x8):
    setup_gpu_environment(gpu_ids=[0])
    assert get_visible_gpus() == [0]
    setup_gpu_environment(gpu_ids=[2, 3, 5, 7])
    assert get_visible_gpus() == [2, 3, 5, 7]
    assert str(setup_gpu_environment(device="cpu")) == "cpu"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_best_practices(h100x8, capsys):
    available = get_available_gpus()
    if not available:
        print("Warning: No GPUs available, using CPU")
    else:
        print(f"Found {len(available)} GPUs")
        print_gpu_info()
    assert capsys.readouterr().out.startswith("Found 8 GPUs")
    for gpu_id in available:
        alloc, total, util = get_gpu_memory_usage(gpu_id)
        assert util <= 90, f"Warning: GPU {gpu_id} at {util:.1f}% capacity"


def test_interactive_selection(h100x8, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: "1, 3")
    gpu_input = input("Enter GPU IDs (comma-separated): ")
    selected = [int(x.strip()) for x in gpu_input.split(",")]
    device = setup_gpu_environment(gpu_ids=selected)
    print(f"Using device: {device}")
    assert get_visible_gpus() == [1, 3]


def test_selection_by_load(h100x8):
    gpu_info = get_gpu_info()
    loads = []
    for info in gpu_info:
        _, _, util = get_gpu_memory_usage(info["id"])
        loads.append((info["id"], util))
    loads.sort(key=lambda x: x[1])
    best_gpu = loads[0][0]
    setup_gpu_environment(gpu_ids=[best_gpu])
    assert get_visible_gpus() == [best_gpu]


@pytest.mark.parametrize(("model_size_gb", "gpus"), [(7, 1), (40, 4), (140, 8)])
def test_conditional_selection(h100x8, model_size_gb, gpus):
    memory_needed_gb = model_size_gb * 2
    if memory_needed_gb <= 40:
        device = setup_gpu_environment(num_gpus=1)
    elif memory_needed_gb <= 160:
        device = setup_gpu_environment(num_gpus=4)
    else:
        device = setup_gpu_environment(num_gpus=8)
    print(f"on {device}")
    assert len(get_visible_gpus()) == gpus


def test_without_gpus_everything_falls_back_to_the_cpu(without_gpus, capsys):
    assert get_available_gpus() == []
    assert select_gpus(min_memory_mb=32000) == []
    assert auto_select_gpus_for_model(model_size_gb=140) == []
    assert get_gpu_info() == []
    for wanted in ({"num_gpus": 2}, {"gpu_ids": [0, 2]}, {}):
        with pytest.warns(UserWarning, match="using the CPU"):
            assert str(setup_gpu_environment(**wanted)) == "cpu"
    assert str(get_optimal_device()) == "cpu"
    print_gpu_info()
    assert capsys.readouterr().out.startswith("Available GPUs: 0\n")
    with pytest.raises(gpuwarden.Error, match="there is no GPU 0"):
        get_gpu_memory_usage(0)


def test_a_gpu_that_does_not_exist_is_named(h100x8):
    with pytest.raises(gpuwarden.Error, match="8") as error:
        select_gpus(gpu_ids=[8])
    assert error.value.code == "invalid_argument"
    with pytest.raises(gpuwarden.Error, match="there is no GPU 9"):
        set_visible_gpus([9])
    with pytest.raises(gpuwarden.Error, match="num_gpus is 4, and gpu_ids names 2"):
        setup_gpu_environment(gpu_ids=[0, 2], num_gpus=4)
    with pytest.raises(gpuwarden.Error) as error:
        auto_select_gpus_for_model(model_size_gb=14000)
    assert error.value.code == "unsatisfied"


def hold_one_gpu() -> subprocess.Popen[str]:
    """Another process that has leased GPU 0, until its input ends."""
    program = "import gpuwarden, sys\nwith gpuwarden.reserve(gpu_ids=['0']):\n  print('held', flush=True)\n  sys.stdin.read()"
    environment = {**os.environ, "GPUWARDEN_SIMULATE": "h100x8"}
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def test_a_gpu_that_another_has_leased_is_not_available(h100x8):
    with hold_one_gpu() as holder:
        assert holder.stdout.readline().strip() == "held"
        assert get_available_gpus() == [1, 2, 3, 4, 5, 6, 7]
        assert "leased" in get_gpu_info([0])[0]["reason"]
        with pytest.raises(gpuwarden.Error, match="leased by"):
            setup_gpu_environment(gpu_ids=[0, 1])
        with pytest.warns(UserWarning, match="GPU 0: leased by"):
            set_visible_gpus([0])
        holder.stdin.close()
        holder.wait()
        assert get_available_gpus() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_cuda_visible_devices_of_the_user_restricts_the_choice(h100x8, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5,7")
    assert get_available_gpus() == [2, 3, 5, 7]
    setup_gpu_environment(num_gpus=2)
    assert set(get_visible_gpus()) < {2, 3, 5, 7}
    assert get_available_gpus() == [2, 3, 5, 7]
    distributed.reset_visible_gpus()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3,5,7"


def test_each_rank_gets_its_own_device_of_one_choice(h100x8, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    chosen = set()
    for rank in range(4):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        setup_gpu_environment(num_gpus=4)
        chosen.add(os.environ["CUDA_VISIBLE_DEVICES"])
    assert len(chosen) == 1
    monkeypatch.setenv("LOCAL_RANK", "4")
    with pytest.raises(gpuwarden.Error, match="LOCAL_RANK is 4, and 4 GPUs are chosen"):
        setup_gpu_environment(num_gpus=4)


def test_after_cuda_has_started_nothing_can_be_changed(h100x8, monkeypatch):
    names = uuids()
    monkeypatch.setattr(distributed._core, "started_cuda_devices", lambda: names[:2])
    with pytest.raises(gpuwarden.Error, match="CUDA has been started in this process"):
        set_visible_gpus([2, 3])
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    set_visible_gpus([0, 1])  # as it is already
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_torch_gets_its_number_where_it_sees_cuda(h100x8, monkeypatch):
    class Cuda:
        @staticmethod
        def is_available() -> bool:
            assert os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1", "asked without starting CUDA"
            return True

        @staticmethod
        def is_initialized() -> bool:
            return False

    class Torch:
        cuda = Cuda
        Tensor = object

        @staticmethod
        def device(name: str) -> str:
            return f"torch.device({name})"

    monkeypatch.setitem(sys.modules, "torch", Torch)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert setup_gpu_environment(gpu_ids=[4, 6]) == "torch.device(cuda:1)"
    assert get_optimal_device(gpu_ids=[6]) == "torch.device(cuda:1)"
    assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in os.environ


@pytest.mark.skipif(seed("004") is None, reason="the documents are not here")
def test_every_name_that_the_document_imports_is_there():
    text = seed("004")
    imports = re.findall(r"from mrlm\.distributed import (?:\(([^)]*)\)|(.*))", text)
    names = {name.strip() for one in imports for name in "".join(one).split(",") if name.strip()}
    assert len(names) >= 9
    for name in names:
        assert callable(getattr(distributed, name))
        assert getattr(gpuwarden, name) is getattr(distributed, name)
