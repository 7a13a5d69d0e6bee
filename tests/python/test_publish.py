# SPDX-License-Identifier: Apache-2.0
"""What a stock PyTorch's counters become, and that other processes see it: with counters made up, and no GPU."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import gpuwarden
from gpuwarden.torch import publishing
from gpuwarden.torch.publishing import Publisher, figures_of, start_if_asked

# torch.cuda.memory_stats() of 2.x, as far as it matters.
STATS = {
    "allocated_bytes.all.current": 3 << 30,
    "allocated_bytes.all.peak": 5 << 30,
    "requested_bytes.all.current": 2 << 30,
    "reserved_bytes.all.current": 4 << 30,
    "reserved_bytes.all.peak": 6 << 30,
    "segment.all.current": 7,
    "active.all.current": 8,
    "allocation.all.allocated": 900,
    "num_ooms": 1,
    "num_alloc_retries": 2,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUWARDEN_MEMORY_DIR", str(tmp_path / "pools"))
    return tmp_path / "pools"


@pytest.fixture
def fleet(folder):
    with gpuwarden.simulate("h100x8"):
        yield gpuwarden.default_machine()


def pools_of(machine: gpuwarden.Machine, gpu: int = 0) -> list[dict]:
    status = json.loads(machine._core.memory_status([]))
    return status["gpus"][gpu]["pools"]


def test_counters_become_figures():
    figures = figures_of(STATS, limit_bytes=10)
    assert figures["live_bytes"] == 3 << 30 and figures["peak_live_bytes"] == 5 << 30
    assert figures["reserved_bytes"] == 4 << 30 and figures["peak_reserved_bytes"] == 6 << 30
    assert figures["free_bytes"] == 1 << 30 and figures["limit_bytes"] == 10
    assert figures["out_of_memory"] == 1
    old = {key: value for key, value in STATS.items() if not key.startswith("requested")}
    assert "requested_bytes" not in figures_of(old), "PyTorch before 2.0 does not count it"
    assert figures_of({}) == {} and figures_of({"num_ooms": 0}) == {}


def test_other_processes_see_it_until_the_end(fleet, folder):
    gpu = fleet.snapshot().gpus[2].uuid
    figures = figures_of(STATS)
    with Publisher(60, str(folder), lambda: [(gpu, figures)]) as publisher:
        publisher.publish_once()
        assert len(publisher.files) == 1
        (pool,) = pools_of(fleet, 2)
        assert pool["pid"] == os.getpid() and pool["strategy"] == "pytorch"
        assert (pool["live_bytes"], pool["reserved_bytes"], pool["peak_live_bytes"]) == (3 << 30, 4 << 30, 5 << 30)
        assert pool["limit_bytes"] is None and pool["largest_free_bytes"] is None
        assert pool["external_fragmentation"] is None
        assert pools_of(fleet, 0) == []
        figures["live_bytes"] = 1 << 30
        publisher.publish_once()
        assert pools_of(fleet, 2)[0]["live_bytes"] == 1 << 30
    assert pools_of(fleet, 2) == []
    assert list(folder.iterdir()) == []


def test_the_thread_tells_by_itself_and_survives_trouble(fleet, folder):
    gpu = fleet.snapshot().gpus[0].uuid
    told: list[int] = []

    def source():
        told.append(1)
        if len(told) == 1:
            raise RuntimeError("counters that throw, as those of a pluggable allocator")
        return [(gpu, figures_of(STATS))]

    with Publisher(0.01, str(folder), source):
        deadline = time.monotonic() + 30
        while not pools_of(fleet) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert pools_of(fleet)[0]["live_bytes"] == 3 << 30


def test_a_forked_child_leaves_the_parents_files_alone(fleet, folder):
    gpu = fleet.snapshot().gpus[0].uuid
    with Publisher(60, str(folder), lambda: [(gpu, figures_of(STATS))]) as publisher:
        publisher.publish_once()
        child = os.fork()
        if child == 0:
            publisher.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert len(pools_of(fleet)) == 1


def test_without_cuda_there_is_nothing_to_tell():
    assert publishing.torch_figures() == []


def test_the_counters_of_a_torch_that_has_started_cuda(monkeypatch):
    class Cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True

        @staticmethod
        def memory_stats(device: int) -> dict:
            return STATS if device == 1 else {key: 0 for key in STATS}

        @staticmethod
        def get_per_process_memory_fraction(device: int) -> float:
            return 0.5

        @staticmethod
        def get_device_properties(device: int):
            return type("Properties", (), {"total_memory": 80 << 30})

    monkeypatch.setitem(sys.modules, "torch", type("Torch", (), {"cuda": Cuda}))
    monkeypatch.setattr(publishing._core, "started_cuda_devices", lambda: ["GPU-a", "GPU-b"])
    ((gpu, figures),) = publishing.torch_figures()
    assert gpu == "GPU-b", "a device that was never used is not told of"
    assert figures["limit_bytes"] == 40 << 30 and figures["live_bytes"] == 3 << 30


@pytest.mark.parametrize(("text", "interval"), [("1", 1.0), ("on", 1.0), ("0.25", 0.25), ("", None), ("off", None)])
def test_the_environment_asks_for_it(folder, monkeypatch, text, interval):
    monkeypatch.setenv("GPUWARDEN_PUBLISH", text)
    publisher = start_if_asked()
    try:
        assert (publisher.interval_s if publisher else None) == interval
        if publisher:
            assert publisher is gpuwarden.publish(), "once in a process"
            assert publisher.folder == str(folder)
    finally:
        if publisher:
            publisher.close()


def test_a_value_that_makes_no_sense_is_told_and_ignored(monkeypatch, capsys):
    monkeypatch.setenv("GPUWARDEN_PUBLISH", "often")
    assert start_if_asked() is None
    assert "GPUWARDEN_PUBLISH: 'often' is neither" in capsys.readouterr().err
    with pytest.raises(gpuwarden.Error, match="interval_s"):
        Publisher(0)


def test_a_program_needs_no_change_beyond_importing_gpuwarden(folder):
    program = "import gpuwarden, threading; print([t.name for t in threading.enumerate()])"
    environment = {**os.environ, "GPUWARDEN_PUBLISH": "1"}
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert "gpuwarden-publish" in out.stdout


#: A PyTorch that has started CUDA, as far as a publisher looks at it; it is there before the publisher looks first.
PROGRAM = """
import sys, types
assert "gpuwarden" in sys.modules, "begun by the .pth alone"
from gpuwarden.torch import publishing
publishing._core.started_cuda_devices = lambda: ["GPU-of-the-test"]
cuda = types.SimpleNamespace(is_initialized=lambda: True, memory_stats=lambda device: {stats!r})
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_program_that_imports_nothing_of_gpuwarden_publishes(folder):
    """By gpuwarden-publish.pth: the one beside the installed package, else the tree's."""
    try:
        installed = distribution("gpuwarden").locate_file("gpuwarden-publish.pth")
    except PackageNotFoundError:
        installed = None
    tree = str(Path(gpuwarden.__file__).resolve().parents[1])
    if installed is None:
        begin = f"import site; site.addsitedir({tree!r})"
    else:
        assert Path(installed).exists(), "a wheel without it publishes for nobody"
        begin = ""
    environment = {**os.environ, "GPUWARDEN_PUBLISH": "0.05"}
    program = begin + PROGRAM.format(stats=STATS)
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 30
        while not (found := [file.read_text() for file in folder.glob("*")] if folder.is_dir() else []):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert f"live_bytes {3 << 30}" in found[0] and "GPU-of-the-test" in found[0]
        assert f"pid {child.pid}" in found[0]
    finally:
        child.stdin.close()
        assert child.wait(30) == 0
    assert list(folder.iterdir()) == [], "its file goes with it"


def test_top_and_memory_show_what_is_published(fleet, folder):
    """In a terminal that is wide enough; what it writes there is looked through for the columns and the figures."""
    program = os.path.join(gpuwarden._core.native_folder(), "bin", "gpuwarden")
    gpu = fleet.snapshot().gpus[0].uuid
    fleet._core.simulator_call(json.dumps({"op": "declare", "pid": os.getpid(), "gpus": [gpu], "memory_bytes": 9 << 30, "utilization_percent": 50}))
    environment = {**os.environ, **fleet.simulated_environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Publisher(60, str(folder), lambda: [(gpu, figures_of(STATS))]) as publisher:
        publisher.publish_once()
        listed = subprocess.run([program, "memory"], env=environment, capture_output=True, text=True, timeout=60).stdout
        assert "pool: live 3 GiB" in listed and "of 4 GiB, peak 6 GiB" in listed, listed
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        shown = b""
        top = subprocess.Popen([program, "top", "--interval", "250ms", "--no-color"], env=environment, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        try:
            deadline = time.monotonic() + 60
            while not all(word in shown for word in (b"ALLOC", b"RESERVED", b"PEAK", b"3.00G", b"4.00G", b"6.00G")):
                assert time.monotonic() < deadline, shown.decode("utf-8", "replace")
                if select.select([master], [], [], 0.5)[0]:
                    shown += os.read(master, 65536)
        finally:
            top.terminate()
            # What it writes last must not keep it waiting.
            while top.poll() is None:
                if select.select([master], [], [], 0.1)[0]:
                    with contextlib.suppress(OSError):
                        os.read(master, 65536)
            os.close(master)
