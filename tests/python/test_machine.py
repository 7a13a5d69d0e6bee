# SPDX-License-Identifier: Apache-2.0
"""The package's own functions, on a simulated fleet."""
from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import gpuwarden


def test_a_snapshot_has_the_fleets_gpus():
    with gpuwarden.simulate("h100x8"):
        snapshot = gpuwarden.snapshot()
    assert snapshot.simulated
    assert [gpu.index for gpu in snapshot.gpus] == list(range(8))
    assert snapshot.gpus[0].name == "NVIDIA H100 80GB HBM3"
    assert snapshot.gpus[0].memory.total_bytes == 85520809984


def test_unknown_is_none_and_not_zero():
    with gpuwarden.simulate("h100x8") as fleet:
        fleet.set(2, "temperature", None)
        assert gpuwarden.snapshot().gpus[2].temperature_celsius is None


def test_memory_is_that_of_the_processes():
    with gpuwarden.simulate("h100x8") as fleet:
        before = gpuwarden.gpu_memory()
        fleet.load([1], memory_bytes=10 * 2**30)
        after = gpuwarden.gpu_memory()
    assert after[1].used_bytes - before[1].used_bytes >= 10 * 2**30
    assert after[0].used_bytes == before[0].used_bytes
    assert after[1].total_bytes == 85520809984


def test_without_a_driver_the_snapshot_says_so(monkeypatch):
    monkeypatch.setenv("GPUWARDEN_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1")
    monkeypatch.setenv("GPUWARDEN_NVIDIA_SMI", "/nonexistent/nvidia-smi")
    with gpuwarden.Machine() as machine:
        assert machine.snapshot().problem is not None
        with pytest.raises(gpuwarden.Error) as caught:
            machine.gpu_memory()
    assert caught.value.code == "unavailable"


def test_an_unknown_fleet_is_an_error_with_code_message_and_hint():
    with pytest.raises(gpuwarden.Error) as caught:
        gpuwarden.Machine(simulate="no-such-fleet")
    assert caught.value.code == "invalid_argument"
    assert "no-such-fleet" in caught.value.message
    assert str(caught.value).startswith(caught.value.message)


def test_a_closed_machine_says_so():
    machine = gpuwarden.Machine(simulate="h100x8")
    machine.close()
    with pytest.raises(gpuwarden.Error, match="closed"):
        machine.snapshot()


def test_a_captured_machine_is_judged_as_it_was(tmp_path: Path):
    with gpuwarden.simulate("a100x4"):
        text = json.dumps(gpuwarden.snapshot().to_dict())
    file = tmp_path / "box.json"
    file.write_text(text)
    with gpuwarden.Machine(capture=file) as machine:
        assert len(machine.snapshot().gpus) == 4
        assert machine.select(count=2).satisfied
        with pytest.raises(gpuwarden.Error):
            machine.run(["true"])


def test_broken_gpus_are_not_chosen():
    with gpuwarden.simulate("h100x8", faults=["3:xid=79"]):
        decision = gpuwarden.select(count=7)
        assert decision.satisfied
        assert len(decision.cuda_visible_devices.split(",")) == 7
        assert 3 not in [gpu.index for gpu in decision.selected]
        refused = gpuwarden.select(count=8)
        assert not refused.satisfied and refused.missing


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ({"count": -1}, "count"),
        ({"count": "4:2"}, "count: '4:2' is not a range"),
        ({"min_memory": "40 parsecs"}, "min_memory"),
        ({"min_free_memory": "40"}, "min_free_memory: 40 has no unit"),
        ({"max_utilization": 50.9}, "max_utilization: '50.9' is not a whole number"),
        ({"device": "tpu"}, "device: 'tpu'"),
        ({"priority": 3}, "priority requires wait"),
        ({"count": 2, "num_gpus": 2}, "count and num_gpus mean the same"),
        ({"min_compute_capability": "new"}, "min_compute_capability"),
        ({"gpu_ids": []}, "gpu_ids"),
        ({"all": True, "count": 2}, "all and count"),
        ({"all": True, "num_gpus": 2}, "all and num_gpus"),
        ({"no_such_wish": 1}, "no_such_wish"),
        ({"micro_batch": 4}, "micro_batch"),
        ({"share": object()}, "share"),
    ],
)
def test_wrong_wishes_are_named(wanted, word):
    with gpuwarden.simulate("h100x8"):
        with pytest.raises(gpuwarden.Error) as caught:
            gpuwarden.select(**wanted)
    assert caught.value.code == "invalid_argument"
    assert word in caught.value.message


def test_a_reservation_is_held_until_it_is_left():
    with gpuwarden.simulate("h100x8"):
        with gpuwarden.reserve(count=8) as held:
            assert len(held.uuids) == 8
            assert len(gpuwarden.leases().leases) == 8
            with pytest.raises(gpuwarden.Error) as caught:
                gpuwarden.reserve(count=1)
            assert caught.value.code == "unsatisfied"
            with pytest.raises(gpuwarden.Error) as caught:
                gpuwarden.reserve(count=1, wait_s=0.1)
            assert caught.value.code == "timed_out"
        assert not held.held
        assert not gpuwarden.leases().leases
        held.release()


def test_a_reservation_that_nobody_has_any_more_is_free():
    with gpuwarden.simulate("h100x8"):
        held = gpuwarden.reserve(count=8)
        del held
        assert gpuwarden.reserve(count=8).held


def test_run_gives_the_exit_code_and_the_gpus():
    with gpuwarden.simulate("h100x8"):
        report = gpuwarden.run(["sh", "-c", 'test -n "$CUDA_VISIBLE_DEVICES" && exit 3'], count=2)
        assert report.exit_code == 3
        assert len(report.gpus) == 2
        with pytest.raises(gpuwarden.Error) as caught:
            gpuwarden.run(["/nonexistent/program"])
        assert caught.value.code == "not_found"
        assert not gpuwarden.leases().leases


def test_run_starts_a_rank_for_each_gpu(tmp_path: Path):
    with gpuwarden.simulate("h100x8"):
        report = gpuwarden.run(["sh", "-c", f"touch {tmp_path}/rank$RANK-of-$WORLD_SIZE"], count=2, ranks="gpu")
    assert report.exit_code == 0
    assert sorted(file.name for file in tmp_path.glob("rank*")) == ["rank0-of-2", "rank1-of-2"]


def test_run_reaps_nothing_of_the_program():
    mine = subprocess.Popen(["sh", "-c", "exit 7"])
    with gpuwarden.simulate("h100x8"):
        gpuwarden.run(["sleep", "0.2"])
        gpuwarden.snapshot()
    assert mine.wait() == 7


def test_the_judges_answer():
    with gpuwarden.simulate("h100x8", faults=["3:xid=79"]):
        found = gpuwarden.doctor(software=False)
        assert found.overall == "incompatible"
        assert any("GPU 3" in finding.title for finding in found.findings)
        assert gpuwarden.compat().simulated
        assert gpuwarden.compat("xid 79").kind == "xid"
    plan = gpuwarden.plan("llama-3.1-8b", gpus="8xh100", task="lora")
    assert "fits" in plan.reason and plan.to_dict()["recommended"]
    with pytest.raises(gpuwarden.Error) as caught:
        gpuwarden.plan("no-such-model", gpus="8xh100")
    assert caught.value.code == "not_found"
    assert any(model.name for model in gpuwarden.models())


def test_a_plan_is_made_of_a_line_that_was_pasted():
    line = "CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B --max-model-len 8192 -tp 2 --port 8000"
    pasted = gpuwarden.plan(command=line, gpus="2xa100")
    assert pasted == gpuwarden.plan("qwen3-8b", gpus="2xa100", task="serve", sequence=8192, tensor_parallel=2)
    shorter = gpuwarden.plan(command=line, gpus="2xa100", sequence=4096)
    assert shorter == gpuwarden.plan("qwen3-8b", gpus="2xa100", task="serve", sequence=4096, tensor_parallel=2)
    assert gpuwarden.plan(command="train.py --lora --model gpt2", gpus="l4") == gpuwarden.plan("gpt2", task="lora", gpus="l4")
    with pytest.raises(gpuwarden.Error, match="unknown option '--cpu-offload'") as caught:
        gpuwarden.plan(command="train.py --cpu-offload --model gpt2", gpus="l4")
    assert caught.value.hint == "write --offload optimizer, or --offload all"


def test_a_plan_counts_the_gpus_of_other_kinds():
    with gpuwarden.simulate("mixed"):
        assert gpuwarden.plan("gpt2").to_dict()["gpus"]["other_gpus"] > 0
        assert gpuwarden.plan("gpt2", strategy="single").to_dict()["gpus"]["count"] == 1


def test_compat_reads_questions_as_the_command_line_does():
    assert gpuwarden.compat(gpus=["RTX 4090"]).kind == "gpu"
    assert gpuwarden.compat("driver 550.54").to_dict()["place"]["driver"] == "550.54"
    with pytest.raises(gpuwarden.Error, match="is not a driver version"):
        gpuwarden.compat(driver="12.4")
    with pytest.raises(gpuwarden.Error, match="separate questions"):
        gpuwarden.compat("xid 79", cuda="12.8")


def test_a_packed_trace_is_replayed(tmp_path: Path):
    trace = tmp_path / "trace.csv.gz"
    trace.write_bytes(gzip.compress(b"op,id,size\na,1,1048576\nf,1,0\n"))
    assert gpuwarden.replay(trace).strategy == "balanced"
    with pytest.raises(gpuwarden.Error, match="are fixed"):
        gpuwarden.replay(trace, tokens=512)


def test_metrics_are_listed():
    assert {"utilization", "power"} <= {metric.id for metric in gpuwarden.metrics()}


def test_diagnose_names_the_cause(tmp_path: Path):
    log = tmp_path / "run.log"
    log.write_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. "
        "GPU 0 has a total capacity of 79.11 GiB of which 9.19 MiB is free.\n"
    )
    found = gpuwarden.diagnose(log)
    assert found.causes
    assert "memory" in found.causes[0].title.lower()
    with pytest.raises(gpuwarden.Error):
        gpuwarden.diagnose(tmp_path / "missing.log")


def test_replay_runs_a_trace(tmp_path: Path):
    trace = tmp_path / "trace.csv"
    trace.write_text("op,id,size\na,1,1048576\na,2,2097152\nf,1,1048576\nf,2,2097152\n")
    assert len(gpuwarden.replay(trace, strategy="all").strategies) >= 2
    with pytest.raises(gpuwarden.Error, match="strategy"):
        gpuwarden.replay(trace, strategy="lucky")


def test_disabled_gpus_are_not_chosen():
    with gpuwarden.simulate("h100x8"):
        assert [one.reason for one in gpuwarden.disable([0, 1], "fan is loud")] == ["fan is loud"] * 2
        assert {gpu.index for gpu in gpuwarden.select(count=6).selected} == set(range(2, 8))
        assert gpuwarden.enable("0-1") == ()
        with pytest.raises(gpuwarden.Error):
            gpuwarden.disable([99], "is not there")


def test_values_are_frozen_and_plain_when_asked():
    with gpuwarden.simulate("h100x8"):
        snapshot = gpuwarden.snapshot()
    with pytest.raises(AttributeError):
        snapshot.gpus = ()
    with pytest.raises(AttributeError, match="no field"):
        _ = snapshot.gpuz
    assert json.loads(json.dumps(snapshot.to_dict()))["gpus"][7]["index"] == 7
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert hash(snapshot) == hash(pickle.loads(pickle.dumps(snapshot)))
    assert "SIMULATED" in snapshot._repr_html_() and "H100" in snapshot._repr_html_()
    assert "<script>" not in gpuwarden.Value({"name": "<script>"})._repr_html_()
    assert "index=0" in repr(gpuwarden.Value({"index": 0}))


def test_the_environment_names_the_default_machine(monkeypatch):
    monkeypatch.setenv("GPUWARDEN_SIMULATE", "a100x4")
    assert "A100" in gpuwarden.snapshot().gpus[0].name
    with gpuwarden.simulate("h100x8"):
        assert "H100" in gpuwarden.snapshot().gpus[0].name
    assert "A100" in gpuwarden.snapshot().gpus[0].name


def test_importing_brings_neither_torch_nor_numpy():
    code = "import sys, gpuwarden; print([m for m in ('torch', 'numpy', 'subprocess') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_command_line_comes_along():
    out = subprocess.run([sys.executable, "-m", "gpuwarden", "list", "--simulate", "h100x8", "--json"],
                         capture_output=True, text=True, check=True, env=os.environ)
    assert len(json.loads(out.stdout)["gpus"]) == 8


def test_an_empty_list_leaves_no_gpu_out_and_names_none_to_choose_among():
    with gpuwarden.simulate("h100x8") as fleet:
        assert len(fleet.machine.select(count=8, exclude=[], prefer=()).selected) == 8
        with pytest.raises(gpuwarden.Error, match="no GPU is given"):
            fleet.machine.select(count=1, gpu_ids=[])
