# SPDX-License-Identifier: Apache-2.0
"""What works under `torchrun X` works under `gpuwarden run X`: the same program and the same options under both, on
CPUs over gloo. Their environments and their results are compared, rank by rank.

GPUWARDEN_PROGRAM is the program (build/release/bin/gpuwarden where it is not set)."""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("GPUWARDEN_PROGRAM", str(ROOT / "build/release/bin/gpuwarden"))
PATIENCE = 300  # seconds

# Notes down what each rank finds and computes: collectives, and three steps of a model whose gradients are averaged.
RANK = r"""
import json, os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

assert sys.argv[2:] == ["--lr", "0.5"], sys.argv
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)
parts = [torch.zeros(1) for _ in range(world)]
dist.all_gather(parts, torch.tensor([float(int(os.environ["LOCAL_RANK"]))]))
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[3]))
losses = []
for step in range(3):
    torch.manual_seed(100 * step + rank)
    loss = model(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 6))
dist.barrier()
found = {"environment": dict(os.environ), "sum": total.item(), "locals": [int(p.item()) for p in parts],
         "losses": losses, "weights": [round(w, 6) for w in model.module.weight.detach().flatten().tolist()]}
with open(os.path.join(sys.argv[1], "rank-%d.json" % rank), "w") as out:
    json.dump(found, out)
dist.destroy_process_group()
# PyTorch 2.13 ends 1 in 80 of these by SIGABRT under load ("terminate called without an active exception").
os._exit(0)
"""

# Told by both, but each its own: where they meet, and what is kept where.
OWN_VALUE = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE",
             # gpuwarden's ranks make the store themselves.
             "TORCHELASTIC_USE_AGENT_STORE"}


def free_port():
    """Below the ports that the kernel gives to whoever asks for any."""
    for port in random.sample(range(15000, 32000), 100):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port between 15000 and 32000")


@pytest.fixture
def base(tmp_path):
    """The environment that both launchers start from."""
    if not os.access(PROGRAM, os.X_OK):
        pytest.skip(f"no {PROGRAM}")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items()
                   if name not in names and not name.startswith(("TORCHELASTIC", "PET_", "SLURM", "GPUWARDEN"))}
    # Debian's torchrun starts nothing under its Python 3.11 without these.
    if importlib.metadata.version("torch").startswith("1."):
        environment.update(PET_REDIRECTS="1", PET_TEE="1")
    environment.update(GPUWARDEN_DEVICE="cpu", GPUWARDEN_LEASE_DIR=str(tmp_path / "leases"), PYTHON_EXEC=sys.executable)
    return environment


def end(process):
    """A launcher that is asked ends its ranks as well."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()


class PyTorchAborted(Exception):
    """One of PyTorch's own threads ended a rank (seen under load): neither launcher's doing."""


def run_nodes(launcher, nodes, folder, environment, patience):
    """Every node's command at once; each rank's notes, by RANK."""
    folder.mkdir()
    program = folder / "rank.py"
    program.write_text(RANK)
    started = []
    for number, words in enumerate(nodes):
        logs = folder / f"logs-{number}"
        command = [*launcher, *words, f"--log_dir={logs}", str(program), str(folder), "--lr", "0.5"]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, cwd=folder))
    try:
        for one in started:
            said, _ = one.communicate(timeout=patience)
            if "terminate called without an active exception" in said:
                raise PyTorchAborted(said)
            assert one.returncode == 0, said
    finally:
        for one in started:
            end(one)
    return {int(file.stem[5:]): json.loads(file.read_text()) for file in folder.glob("rank-*.json")}


def restarted(ranks):
    return any(rank["environment"]["TORCHELASTIC_RESTART_COUNT"] != "0" for rank in ranks.values())


def run_undisturbed(launcher, nodes_of, folder, environment):
    """Somebody else may take a port between the look and the start. torchrun's nodes then wait for each other for ever,
    and where restarts are allowed both launchers start the ranks again: then once more, with other ports. `nodes_of`
    makes the words of every node and may change the environment that it is given."""
    for tries_left in (2, 1, 0):
        mine = dict(environment)
        words = nodes_of(mine)
        try:
            ranks = run_nodes(launcher, words, folder.with_name(f"{folder.name}-{tries_left}"), mine, patience=120)
        except (subprocess.TimeoutExpired, PyTorchAborted):
            if tries_left == 0:
                raise
            continue
        if not restarted(ranks) or tries_left == 0:
            return ranks


def both(nodes_of, tmp_path, environment):
    """The same words under torchrun and under gpuwarden run."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    theirs = run_undisturbed(torchrun, nodes_of, tmp_path / "theirs", environment)
    ours = run_undisturbed([PROGRAM, "run", "-q"], nodes_of, tmp_path / "ours", environment)
    return theirs, ours


def compare(theirs, ours, world, environment):
    assert sorted(theirs) == sorted(ours) == list(range(world))
    for rank in range(world):
        their, our = theirs[rank], ours[rank]
        for result in ("sum", "locals", "losses", "weights"):
            assert our[result] == their[result], (rank, result)
        assert our["sum"] == sum(range(1, world + 1))
        added = {name for name in their["environment"] if name not in environment}
        assert {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "OMP_NUM_THREADS"} <= added
        missing = added - set(our["environment"])
        assert not missing, (rank, missing)
        unlike = {name: (their["environment"][name], our["environment"][name]) for name in added - OWN_VALUE
                  if their["environment"][name] != our["environment"][name]}
        assert not unlike, (rank, unlike)
        # What is set beyond this torchrun's is ours by its name, CUDA's, or what another release of torchrun sets.
        more = {name for name in our["environment"] if name not in environment and name not in added}
        strange = {name for name in more
                   if not name.startswith(("GPUWARDEN_", "CUDA_", "TORCHELASTIC_")) and not name.endswith("NCCL_ASYNC_ERROR_HANDLING")}
        assert not strange, (rank, strange)
        # What the user had set stays as it was.
        changed = {name for name in environment if our["environment"].get(name) != environment[name]}
        assert changed <= {"PWD", "SHLVL", "_"}, (rank, changed)


@pytest.mark.parametrize("ranks", [2, 4])
def test_one_node(torch, base, tmp_path, ranks):
    def words(environment):
        return [["--standalone", "--nnodes=1", f"--nproc_per_node={ranks}", "--max_restarts=2", "--role=trainer"]]

    theirs, ours = both(words, tmp_path, base)
    compare(theirs, ours, ranks, base)


def test_two_nodes_that_meet_by_rendezvous(torch, base, tmp_path):
    def words(environment):
        port = free_port()
        return [["--nnodes=2", "--nproc_per_node=2", f"--node_rank={node}", "--rdzv_backend=c10d", "--rdzv_id=job7",
                 "--rdzv_conf=join_timeout=120,read_timeout=60", "--monitor_interval=1",
                 f"--rdzv_endpoint=127.0.0.1:{port}"] for node in (0, 1)]

    theirs, ours = both(words, tmp_path, base)
    # torchrun's nodes are numbered as they come: which of them is first differs from run to run.
    compare(theirs, ours, 4, base)
    assert {rank["environment"]["TORCHELASTIC_RUN_ID"] for rank in ours.values()} == {"job7"}


def test_two_nodes_with_fixed_ranks(torch, base, tmp_path):
    def words(environment):
        port = free_port()
        return [["--nnodes=2", "--nproc_per_node=2", f"--node_rank={node}", "--master_addr=127.0.0.1",
                 f"--master_port={port}"] for node in (0, 1)]

    theirs, ours = both(words, tmp_path, base)
    compare(theirs, ours, 4, base)


def test_torchruns_variables_are_defaults_of_both(torch, base, tmp_path):
    def words(environment):
        environment["PET_MASTER_PORT"] = str(free_port())
        return [["--max_restarts=1"]]

    environment = dict(base, PET_NPROC_PER_NODE="2", PET_NNODES="1", PET_ROLE="eval", PET_MAX_RESTARTS="3",
                       PET_MONITOR_INTERVAL="1")
    theirs, ours = both(words, tmp_path, environment)
    # Each was given a port of its own.
    environment["PET_MASTER_PORT"] = ours[0]["environment"]["PET_MASTER_PORT"]
    compare(theirs, ours, 2, environment)
    assert ours[0]["environment"]["ROLE_NAME"] == "eval"
    assert ours[0]["environment"]["TORCHELASTIC_MAX_RESTARTS"] == "1"


def test_every_option_of_torchrun_is_known(torch, base):
    from torch.distributed.run import get_args_parser

    words = [word for action in get_args_parser()._actions for word in action.option_strings if word.startswith("--")]
    assert "--nproc-per-node" in words or "--nproc_per_node" in words
    for word in words:
        for spelling in {word, word.replace("_", "-"), "--" + word[2:].replace("-", "_")} - {"--help"}:
            done = subprocess.run([PROGRAM, "run", spelling], env=base, capture_output=True, text=True,
                                  timeout=PATIENCE)
            said = done.stderr
            # Taken (and then something else is missing), or refused with what to write in its place.
            assert "unknown option" not in said or "hint: write " in said, (spelling, said)
