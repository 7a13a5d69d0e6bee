# SPDX-License-Identifier: Apache-2.0
"""gpuwarden.profile: operations of Python programs."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import threading
import time

import pytest

import gpuwarden
from gpuwarden import Error, profile
from gpuwarden.profile import export_chrome_trace, profile_operation, results


@pytest.fixture(autouse=True)
def fresh():
    profile.enable(device=False, memory=False, nvtx=False)
    profile.reset()
    yield
    profile.enable(device=False, memory=False, nvtx=False)
    profile.reset()


def test_operations_are_summed_up_by_name():
    for _ in range(3):
        with profile_operation("load"):
            pass
    load = results().operation("load")
    assert load.wall.count == 3
    assert 0 < load.wall.min_seconds <= load.wall.mean_seconds <= load.wall.max_seconds <= load.wall.total_seconds
    assert load.device is None and load.energy_joules is None
    assert "load" in str(results()) and "load" in results()._repr_html_()
    with pytest.raises(Error, match="no operation 'store'"):
        results().operation("store")


def test_functions_and_coroutines_are_decorated():
    @profile_operation("add")
    def add(a, b=1):
        """Adds."""
        return a + b if a <= 0 else add(a - 1, b=b)

    @profile_operation("wait")
    async def wait():
        await asyncio.sleep(0.01)
        return 7

    async def both():
        return await asyncio.gather(wait(), wait())

    assert add(2, b=5) == 5
    assert add.__doc__ == "Adds."
    assert asyncio.run(both()) == [7, 7]
    assert results().operation("add").wall.count == 3
    # Both wait at once, and each for its own time.
    assert results().operation("wait").wall.min_seconds >= 0.009


def test_exceptions_end_operations():
    with pytest.raises(ZeroDivisionError):
        with profile_operation("fails"):
            raise ZeroDivisionError
    assert results().operation("fails").wall.count == 1


def test_own_time_is_without_what_runs_within():
    with profile_operation("outer"):
        with profile_operation("inner"):
            threading.Event().wait(0.02)
    outer, inner = results().operation("outer"), results().operation("inner")
    assert outer.self_seconds == pytest.approx(outer.wall.total_seconds - inner.wall.total_seconds, abs=1e-6)


def test_off_means_off():
    profile.disable()
    assert not profile.enabled()
    with profile_operation("off"):
        profile.enable()
    assert results().operations == ()


def test_one_object_is_one_run_at_a_time():
    once = profile_operation("once")
    with once:
        with pytest.raises(Error, match="open already"):
            with once:
                pass
    with once:
        pass
    assert results().operation("once").wall.count == 2


def test_threads_lose_nothing():
    def work():
        for _ in range(500):
            with profile_operation("shared"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        results()
    for thread in threads:
        thread.join()
    assert results().operation("shared").wall.count == 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_begins_anew():
    with profile_operation("parent"):
        pass
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with profile_operation("child"):
                pass
            code = 0 if [one.name for one in results().operations] == ["child"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [one.name for one in results().operations] == ["parent"]


def test_readings_of_a_monitor_tell_energy():
    class Monitor:
        def add_reading_callback(self, callback):
            self.callback = callback

    from gpuwarden import simulate

    monitor = Monitor()
    profile.follow(monitor)
    with simulate("h100x8"):
        import gpuwarden

        before = gpuwarden.snapshot()
        monitor.callback(before)
        with profile_operation("step"):
            # The counters go on ten times a second.
            deadline = time.monotonic() + 30
            while gpuwarden.snapshot().gpus[0].energy_joules < before.gpus[0].energy_joules + 20:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        after = gpuwarden.snapshot()
        monitor.callback(after)
    step = results().operation("step")
    assert step.runs_told == 1
    # A part of what was taken between the readings around it: how much of that time it was, the machine's load decides.
    whole = sum(b.energy_joules - a.energy_joules for a, b in zip(before.gpus, after.gpus))
    assert 0 < step.energy_joules <= whole
    assert 0 <= step.utilization_percent <= 100
    assert step.memory_peak_bytes is not None
    assert "energy" in str(results())


def test_the_trace_is_one_that_perfetto_takes(tmp_path):
    with profile_operation('outer "quoted"'):
        with profile_operation("inner"):
            pass
    export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
    inner, outer = events["inner"], events['outer "quoted"']
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert inner["pid"] == os.getpid() and inner["tid"] == threading.get_native_id()
    export_chrome_trace(tmp_path / "trace.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())).keys() == trace.keys()
    assert sorted(path.name for path in tmp_path.glob("trace*")) == ["trace.json", "trace.json.gz"]


def test_a_trace_of_torch_is_joined_or_refused(tmp_path):
    with profile_operation("step"):
        pass
    (tmp_path / "torch.json").write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 5, "dur": 1, "pid": 1, "tid": 1}]}))
    export_chrome_trace(tmp_path / "both.json", torch_trace=tmp_path / "torch.json")
    names = {event["name"] for event in json.loads((tmp_path / "both.json").read_text())["traceEvents"]}
    assert {"step", "aten::mm"} <= names
    for text in ("{", "", "[1"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(Error) as refused:
            export_chrome_trace(tmp_path / "none.json", torch_trace=tmp_path / "bad.json")
        assert refused.value.code == "corrupt"
    assert not (tmp_path / "none.json").exists()


def test_libraries_that_are_missing_are_said():
    for options in ({"device": "/nowhere/libcuda.so.1"}, {"nvtx": "/nowhere/libnvToolsExt.so.1"}):
        with pytest.raises(Error) as missing:
            profile.enable(**options)
        assert missing.value.code == "not_found"


@pytest.mark.parametrize("follow", [False, True])
def test_operations_of_a_managers_monitor_have_energy_and_utilization(follow: bool) -> None:
    from gpuwarden.gpu import GPUManager

    profile.reset()
    with gpuwarden.simulate("h100x8") as fleet:
        fleet.load([0], 8 << 30, 70)
        with GPUManager({"enable_profiling": not follow, "device_ids": [0]}, monitor={"interval": 0.1}) as manager:
            monitor = manager.performance_monitor
            if follow:
                profile.follow(monitor)
                profile.follow(monitor)  # once is enough
            read = threading.Semaphore(0)
            monitor.add_reading_callback(lambda snapshot: len(snapshot.gpus) == 8 and read.release())
            # One that the profiler has: what began before its first reading is never told.
            assert read.acquire(timeout=30)
            with profile.profile_operation("work") if follow else manager.profile_operation("work"):
                for _ in range(3):
                    assert read.acquire(timeout=30)
            deadline = time.monotonic() + 30
            # The readings behind its end tell of it.
            while not (found := profile.results().operation("work")).runs_told and time.monotonic() < deadline:
                read.acquire(timeout=1)
    assert found.energy_joules is not None and found.energy_joules > 0
    assert found.utilization_percent is not None and found.memory_peak_bytes >= 8 << 30
    profile.reset()
