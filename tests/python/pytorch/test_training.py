# SPDX-License-Identifier: Apache-2.0
"""The parts of a training loop, and a training with two ranks that is killed and resumed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from gpuwarden import Error
from gpuwarden.torch.loading import available_cpus, loader_settings

ROOT = Path(__file__).resolve().parents[3]


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def machine(tmp_path):
    """A machine of 16 processors, without limits."""
    put(tmp_path / "proc/self/status", "Name:\tpython\nCpus_allowed_list:\t0-15\n")
    put(tmp_path / "proc/self/cgroup", "0::/jobs/one\n")
    put(tmp_path / "sys/devices/system/node/node1/cpulist", "8-15\n")
    return tmp_path


# Settings of loaders


@pytest.mark.parametrize(
    ("files", "environment", "expected"),
    [
        ({}, {}, 16),
        ({}, {"LOCAL_WORLD_SIZE": "4"}, 4),
        ({}, {"LOCAL_WORLD_SIZE": "64"}, 1),
        ({}, {"LOCAL_WORLD_SIZE": "many"}, 16),
        ({"proc/self/status": "Cpus_allowed_list:\t2,4-5\n"}, {}, 3),
        ({"sys/fs/cgroup/jobs/one/cpu.max": "350000 100000\n"}, {}, 4),
        ({"sys/fs/cgroup/jobs/one/cpu.max": "max 100000\n"}, {}, 16),
        ({"sys/fs/cgroup/jobs/one/cpu.max": "max 100000\n", "sys/fs/cgroup/jobs/cpu.max": "200000 100000\n"}, {}, 2),
        ({"sys/fs/cgroup/jobs/one/cpu.max": "50000 100000\n"}, {}, 1),
        ({"sys/fs/cgroup/jobs/one/cpu.max": "rubbish\n"}, {}, 16),
        ({"proc/self/cgroup": "4:cpu,cpuacct:/a\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "600000\n",
          "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}, {}, 6),
        ({"proc/self/cgroup": "4:cpu:/a\n", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n",
          "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n"}, {}, 16),
    ],
)  # fmt: skip
def test_processors_are_those_of_scheduler_cgroup_and_ranks(machine, files, environment, expected):
    for name, text in files.items():
        put(machine / name, text)
    assert available_cpus(root=str(machine), environment=environment) == expected


def test_processors_of_a_numa_node(machine):
    put(machine / "proc/self/status", "Cpus_allowed_list:\t0-11\n")
    assert available_cpus(numa_node=1, root=str(machine), environment={}) == 4
    assert available_cpus(numa_node=7, root=str(machine), environment={}) == 12


def settings(machine, **options):
    return loader_settings(root=str(machine), environment={}, **{"gpu": True, "shm_bytes": 1 << 40, **options})


def test_loaders_get_the_processors_but_one(machine):
    found = settings(machine)
    assert found.arguments() == {"num_workers": 15, "pin_memory": True, "prefetch_factor": 2, "persistent_workers": True}
    assert "may use 16 CPUs" in found.reasons[0]


def test_one_processor_loads_in_the_program_itself(machine):
    put(machine / "sys/fs/cgroup/jobs/one/cpu.max", "100000 100000\n")
    assert settings(machine, gpu=False).arguments() == {"num_workers": 0, "pin_memory": False}


def test_dockers_small_shared_memory_limits_the_workers(machine):
    found = settings(machine, batch_bytes=4 << 20, shm_bytes=64 << 20)
    assert found.num_workers == 4
    assert "/dev/shm has 64 MiB free" in found.warnings[0]
    assert settings(machine, batch_bytes=64 << 20, shm_bytes=64 << 20).num_workers == 0
    assert settings(machine, batch_bytes=1 << 10, shm_bytes=64 << 20).warnings == ()


def test_a_sample_tells_how_large_batches_are(machine, torch):
    dataset = torch.utils.data.TensorDataset(torch.zeros(4, 1 << 20))
    assert settings(machine, dataset=dataset, batch_size=4, shm_bytes=64 << 20).num_workers == 1

    class Broken:
        def __getitem__(self, index):
            raise RuntimeError("no samples")

    assert settings(machine, dataset=Broken()).num_workers == 15


def test_a_dataloader_takes_the_settings(machine, torch):
    put(machine / "sys/fs/cgroup/jobs/one/cpu.max", "200000 100000\n")
    dataset = torch.utils.data.TensorDataset(torch.arange(6.0))
    loader = torch.utils.data.DataLoader(dataset, **settings(machine, dataset=dataset, gpu=False).arguments())
    assert loader.num_workers == 1
    assert [batch[0].item() for batch in loader] == [0, 1, 2, 3, 4, 5]


# Mixed precision


@pytest.mark.parametrize(("capability", "name", "scaled"), [((9, 0), "bfloat16", False), ((7, 5), "float16", True), ((6, 1), "float32", False)])
def test_the_gpu_decides_the_type(torch, capability, name, scaled):
    from gpuwarden.torch import mixed_precision

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a scaler without a GPU turns itself off, and says so
        precision = mixed_precision("cuda", capability=capability)
    assert precision.dtype == getattr(torch, name)
    assert (precision.scaler is not None) == scaled
    assert "compute capability" in precision.reason


def test_cpus_compute_as_they_are_asked(torch):
    from gpuwarden.torch import mixed_precision

    weights = torch.nn.Linear(4, 4)
    with mixed_precision("cpu").autocast():
        assert weights(torch.ones(1, 4)).dtype == torch.float32
    with mixed_precision("cpu", "bf16").autocast():
        assert weights(torch.ones(1, 4)).dtype == torch.bfloat16
    with pytest.raises(Error, match="unknown precision"):
        mixed_precision("cpu", "fp7")


def test_a_scaler_leaves_out_steps_that_overflowed(torch):
    from gpuwarden.torch import mixed_precision

    if not hasattr(torch.amp, "GradScaler"):
        with pytest.raises(Error, match="no GradScaler"):
            mixed_precision("cpu", "fp16")
        return
    precision = mixed_precision("cpu", "fp16")
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scale = precision.scaler.get_scale()
    precision.backward((parameter * float("inf")).sum())
    precision.step(optimizer)
    assert parameter.tolist() == [1, 1]
    assert precision.state_dict()["scale"] < scale
    optimizer.zero_grad()
    precision.backward(parameter.sum())
    assert precision.clip_gradients(optimizer, [parameter], 1.0).item() == pytest.approx(2**0.5)
    precision.step(optimizer)
    assert parameter.tolist() == pytest.approx([1 - 0.1 / 2**0.5] * 2, rel=1e-4)


# Accumulation and recomputing


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_accumulated_gradients_are_those_of_the_whole_batch(torch, steps):
    from gpuwarden.torch import accumulate

    torch.manual_seed(0)
    data = torch.randn(6, 4)
    model = torch.nn.Linear(4, 1)
    groups = list(accumulate(data.split(6 // (2 * steps)) if steps != 2 else data.split(1)[:4], steps, model))
    assert [len(group) for group in groups] == [steps] * 2
    for group in groups:
        model.zero_grad()
        for micro in group:
            with micro.sync():
                micro.backward(model(micro.batch).mean())
        found = model.weight.grad.clone()
        model.zero_grad()
        model(torch.cat([micro.batch for micro in group])).mean().backward()
        assert torch.allclose(found, model.weight.grad, atol=1e-6)


def test_a_shorter_last_group_is_weighed_by_its_length(torch):
    from gpuwarden.torch import accumulate

    groups = list(accumulate(range(5), 2))
    assert [[micro.batch for micro in group] for group in groups] == [[0, 1], [2, 3], [4]]
    assert groups[-1][0].of == 1 and groups[-1][0].last
    with pytest.raises(Error, match="too few"):
        next(accumulate([], 0))


def test_only_the_last_micro_batch_exchanges_gradients(torch):
    from gpuwarden.torch import accumulate

    class Ranked(torch.nn.Linear):
        quiet = 0

        def no_sync(self):
            self.quiet += 1
            import contextlib

            return contextlib.nullcontext()

    model = Ranked(1, 1)
    for group in accumulate(range(6), 3, model):
        for micro in group:
            with micro.sync():
                pass
    assert model.quiet == 4


def test_checkpointed_layers_compute_again_and_give_the_same(torch):
    from gpuwarden.torch import checkpoint_activations, undo_checkpoint_activations

    calls = []

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x):
            calls.append(1)
            return self.drop(self.inner(x).tanh())

    model = torch.nn.Sequential(Block(), Block())
    x = torch.randn(3, 4)

    def gradients():
        calls.clear()
        model.zero_grad()
        torch.manual_seed(5)
        model(x).sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    plain = gradients()
    assert len(calls) == 2
    assert checkpoint_activations(model) == ["0", "1"]
    assert all(torch.equal(a, b) for a, b in zip(plain, gradients()))
    assert len(calls) == 4
    with pytest.raises(Error, match="checkpointed already"):
        checkpoint_activations(model)
    undo_checkpoint_activations(model)
    assert all(torch.equal(a, b) for a, b in zip(plain, gradients()))
    assert len(calls) == 2
    with pytest.raises(Error, match="no module to checkpoint"):
        checkpoint_activations(torch.nn.Linear(1, 1))


# Checkpoints


def test_a_checkpoint_is_whole_or_the_old_one(torch, tmp_path, monkeypatch):
    from gpuwarden.torch import load_checkpoint, save_checkpoint

    path = save_checkpoint(tmp_path / "new/a.pt", {"x": torch.ones(2), "n": 1})
    assert load_checkpoint(path)["n"] == 1
    monkeypatch.setattr(torch, "save", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(path, {"n": 2})
    assert load_checkpoint(path)["n"] == 1
    assert [one.name for one in path.parent.iterdir()] == ["a.pt"]


def test_what_is_no_checkpoint_is_refused(torch, tmp_path):
    from gpuwarden.torch import load_checkpoint

    with pytest.raises(Error) as missing:
        load_checkpoint(tmp_path / "none.pt")
    assert missing.value.code == "not_found"
    (tmp_path / "bad.pt").write_bytes(b"rubbish")
    with pytest.raises(Error) as bad:
        load_checkpoint(tmp_path / "bad.pt")
    assert bad.value.code == "corrupt"

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "made"),))

    torch.save({"x": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(Error):
        load_checkpoint(tmp_path / "evil.pt")
    assert not (tmp_path / "made").exists()


def needs_fractions(torch):
    if torch.__version__.startswith("1."):
        pytest.skip("PyTorch 1.13 reads no fractions without running a file's code")


def build(torch, folder, **options):
    from gpuwarden.torch import Checkpoints

    torch.manual_seed(3)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return model, optimizer, Checkpoints(folder, model, optimizer, **options)


def test_resuming_restores_weights_optimizer_random_numbers_and_extras(torch, tmp_path):
    needs_fractions(torch)
    model, optimizer, checkpoints = build(torch, tmp_path)
    assert checkpoints.resume() == 0

    def step():
        optimizer.zero_grad()
        (model(torch.randn(2, 2)) * random.random()).sum().backward()
        optimizer.step()

    step()
    checkpoints.save(0, loss=0.5)
    step()
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    torch.manual_seed(99)
    random.seed(99)
    model, optimizer, checkpoints = build(torch, tmp_path)
    assert checkpoints.resume() == 1
    assert checkpoints.extra() == {"loss": 0.5}
    step()
    assert all(torch.equal(a, b) for a, b in zip(expected, model.parameters()))


def test_old_checkpoints_go_and_broken_ones_are_passed_over(torch, tmp_path):
    needs_fractions(torch)
    _, _, checkpoints = build(torch, tmp_path, keep=2)
    (tmp_path / ".step-000000001.pt.77.part").write_bytes(b"half of one")
    for number in (3, 4, 5):
        checkpoints.save(number)
    assert [number for number, _ in checkpoints.list()] == [4, 5]
    assert sorted(path.name for path in tmp_path.glob("*step-*")) + sorted(path.name for path in tmp_path.glob(".step*")) == ["step-000000004.pt", "step-000000005.pt"]
    whole = (tmp_path / "step-000000005.pt").read_bytes()
    (tmp_path / "step-000000005.pt").write_bytes(whole[: len(whole) // 2])
    assert checkpoints.resume() == 5
    with pytest.raises(Error, match="keep"):
        build(torch, tmp_path, keep=0)


def test_a_signal_before_the_time_limit_asks_for_a_checkpoint(torch, tmp_path):
    from gpuwarden.torch import stop_requested_by

    _, _, checkpoints = build(torch, tmp_path)
    before = signal.getsignal(signal.SIGUSR1)
    with stop_requested_by([signal.SIGUSR1]) as stopping:
        assert not checkpoints.due(0, every=10, stop=stopping)
        assert checkpoints.due(9, every=10, stop=stopping) and not checkpoints.stop_heard
        os.kill(os.getpid(), signal.SIGUSR1)
        assert checkpoints.due(10, every=10, stop=stopping) and checkpoints.stop_heard
    assert signal.getsignal(signal.SIGUSR1) == before


# Ranks


def test_strategies_are_read_from_plans(torch):
    from gpuwarden.torch.parallel import strategy_of

    def plan(**settings):
        return {"recommended": {"name": "x", "settings": settings}}

    assert strategy_of("ddp") == "ddp"
    assert strategy_of(plan(sharding="none", data_parallel=8)) == "ddp"
    assert strategy_of(plan(sharding="none", data_parallel=1)) == "single"
    assert strategy_of(plan(sharding="fsdp2", data_parallel=8)) == "fsdp2"
    assert strategy_of(plan(sharding="zero1", data_parallel=4, tensor_parallel=2)) == "tensor_parallel"
    with pytest.raises(Error, match="names no strategy"):
        strategy_of({"gpus": 3})


def test_one_rank_is_not_wrapped_and_strategies_are_checked(torch):
    from gpuwarden.torch import distribute, process_group

    model = torch.nn.Linear(1, 1)
    with process_group(environment={}) as ranks:
        assert (ranks.world_size, ranks.backend, ranks.main) == (1, None, True)
        assert distribute(model, "fsdp2", device="cpu") is model
        with pytest.warns(UserWarning, match="answered with DistributedDataParallel"):
            assert distribute(model, "DataParallel", device="cpu") is model
        with pytest.raises(Error, match="unknown strategy"):
            distribute(model, "magic", device="cpu")
        with pytest.raises(Error, match="splits the model's own code"):
            distribute(model, "tensor_parallel", device="cpu")
    with pytest.raises(Error, match="RANK: 'x' is not a number"):
        with process_group(environment={"RANK": "x"}):
            pass


def test_nccl_falls_back_to_gloo_with_the_reason(torch):
    from gpuwarden.torch.parallel import _choose_backend

    assert _choose_backend(torch, None, torch.device("cpu")) == ("gloo", "fits 'cpu'")
    backend, reason = _choose_backend(torch, "nccl", torch.device("cpu"))
    assert backend == "gloo" and "PyTorch sees no GPU" in reason


def gpuwarden_program():
    beside = ROOT / "build/release/bin/gpuwarden"
    found = os.environ.get("GPUWARDEN_PROGRAM") or (str(beside) if beside.exists() else shutil.which("gpuwarden"))
    if not found:
        pytest.skip("no gpuwarden program: build it, or name it in GPUWARDEN_PROGRAM")
    return found


def run_ranks(folder, *trainings):
    """Two ranks under `gpuwarden run` that do these trainings one after the other, each "FOLDER OPTIONS..."; the
    process, and what rank 0 said in each."""
    import gpuwarden

    package = str(Path(gpuwarden.__file__).parents[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": package + os.pathsep + os.environ.get("PYTHONPATH", "")}
    command = [gpuwarden_program(), "run", "--device", "cpu", "--nproc-per-node", "2", "--no-report", "--", sys.executable,
               str(Path(__file__).with_name("two_ranks.py")), *(one if one.startswith("check ") else f"{one} --steps 12 --every 3" for one in trainings)]  # fmt: skip
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=240)
    return done, done.stdout.split("# ")[1:]


def result_of(folder):
    return [(folder / f"result-{rank}").read_text() for rank in (0, 1)]


def test_trainings_that_are_killed_or_stopped_resume_and_come_to_the_same_loss_bit_for_bit(torch, tmp_path):
    """One chain for all, for each pair of ranks costs seconds: what is killed in one pair is resumed in the next."""
    strategies = ["ddp"]
    if fsdp2_is_there():
        strategies.append("fsdp2")
    begun, said = run_ranks(tmp_path, *(f"whole-{one} --strategy {one}" for one in strategies), "check refused_save",
                            "check different_folders", "stopped --stop-at 4", "killed-ddp --die-at 7")  # fmt: skip
    assert begun.returncode == 137, begun.stdout + begun.stderr
    assert len(said) == len(strategies) + 4
    assert all("begins with step 0, 2 ranks, gloo" in one for one in said if "--steps" in one)
    assert "ends early, after step 4" in said[-2] and not (tmp_path / "stopped/result-0").exists()
    assert not (tmp_path / "killed-ddp/result-0").exists()

    # All ranks hear of what one of them cannot do, and resume with the same step.
    refused = [(tmp_path / f"refused_save-{rank}").read_text() for rank in (0, 1)]
    assert refused[0] == "NotADirectoryError"
    assert refused[1].startswith("failed: rank 0 could not write the checkpoint: NotADirectoryError")
    for rank in (0, 1):
        resumed, refusal = (tmp_path / f"different_folders-{rank}").read_text().splitlines()
        assert resumed == "resumes with 6"
        assert "rank 0 sees steps 5, 8, rank 1 none" in refusal and refusal.startswith("unsatisfied: ")

    again, said = run_ranks(tmp_path, "killed-ddp", "stopped", *(f"killed-{one} --strategy {one} --die-at 7" for one in strategies[1:]))
    assert again.returncode == (137 if strategies[1:] else 0), again.stdout + again.stderr
    assert "begins with step 6, 2 ranks, gloo" in said[0]
    assert "begins with step 5, 2 ranks" in said[1]
    assert result_of(tmp_path / "killed-ddp") == result_of(tmp_path / "stopped") == result_of(tmp_path / "whole-ddp")
    assert not (tmp_path / "killed-fsdp2/result-0").exists()

    # A signal ends a job with exit code 0.
    last, said = run_ranks(tmp_path, *(f"killed-{one} --strategy {one}" for one in strategies[1:]), "stopped-too --stop-at 4")
    assert last.returncode == 0, last.stdout + last.stderr
    assert "ends early, after step 4" in said[-1]
    for one in strategies[1:]:
        assert "begins with step 6, 2 ranks, gloo" in said[0]
        assert result_of(tmp_path / f"killed-{one}") == result_of(tmp_path / f"whole-{one}")


def fsdp2_is_there():
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except Exception:
        return False
    return True
