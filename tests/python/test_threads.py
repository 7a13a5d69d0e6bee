# SPDX-License-Identifier: Apache-2.0
"""Threads, signals, forks, and callbacks from the library's threads."""
from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

import gpuwarden

PATIENCE_S = 30


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_other_threads_go_on_while_one_waits():
    with gpuwarden.simulate("h100x8"):
        counted = []
        with gpuwarden.reserve(count=8):
            waiting = threading.Thread(target=lambda: pytest.raises(gpuwarden.Error, gpuwarden.reserve, 1, wait_s=0.5))
            waiting.start()
            while waiting.is_alive():
                counted.append(1)
                time.sleep(0.01)
        assert len(counted) > 5


@pytest.mark.parametrize(
    "waiting",
    [
        "gpuwarden.reserve(count=1, wait_s=-1)",
        "gpuwarden.run(['sleep', '600'], cpu=True)",
        "monitor.wait(timeout_s=600)",
        # All GPUs are lost on it: it waits before it tries again.
        "devices.run(lambda device: (_ for _ in ()).throw(gpuwarden.Error('unavailable', 'lost', '')))",
        "unread.wait_for_reading(600)",
    ],
)
def test_ctrl_c_ends_a_wait(waiting):
    code = f"""
import os, signal, threading, time, gpuwarden
# Python leaves SIGINT ignored where it inherits that: from a shell's background job.
signal.signal(signal.SIGINT, signal.default_int_handler)
with gpuwarden.simulate("h100x8"):
    held = gpuwarden.reserve(count=8)
    monitor = gpuwarden.Monitor(interval_s=600).start()
    while monitor.latest() is None:
        monitor.wait(0.1)
    from gpuwarden.gpu import CUDAManager, PerformanceMonitor
    devices = CUDAManager({{"retry_delay": 60, "retry_max_delay": 600}})
    devices.initialize()
    unread = PerformanceMonitor()
    # Never begins to read.
    unread.start_monitoring = lambda: None
    sent = []
    def interrupt():
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        {waiting}
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - sent[0])
"""
    done = run_python(code)
    assert done.stdout.startswith("interrupted"), done.stderr


def test_a_forked_child_is_told_and_does_not_hang():
    code = """
import os, sys, gpuwarden
with gpuwarden.simulate("h100x8") as fleet:
    held = gpuwarden.reserve(count=1)
    machine = fleet.machine
    with gpuwarden.Monitor(interval_s=0.1) as monitor:
        monitor.wait(30)
        pid = os.fork()
        if pid == 0:
            for ask in (machine.snapshot, monitor.latest, held.release):
                try:
                    ask()
                except gpuwarden.Error as error:
                    if error.code == "unavailable" and "forked" in error.message:
                        continue
                os._exit(1)
            del held, monitor
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert held.held and len(gpuwarden.leases().leases) == 1
        assert monitor.wait(30) is not None
print("fine")
"""
    done = run_python(code)
    assert done.stdout.strip() == "fine", done.stderr


def test_a_monitor_reads_remembers_and_stops():
    with gpuwarden.simulate("h100x8"):
        with gpuwarden.Monitor(interval_s=0.1) as monitor:
            first = monitor.wait(PATIENCE_S)
            assert first is not None and len(first.gpus) == 8
            while monitor.wait(PATIENCE_S) and len(monitor.history(0, "temperature").points) < 3:
                pass
            statistics = monitor.statistics(0, "temperature", last_s=60)
            assert statistics is not None and statistics.min <= statistics.mean <= statistics.max
            assert [one.state for one in monitor.health()] == ["available"] * 8
            with pytest.raises(gpuwarden.Error):
                monitor.history(0, "no_such_metric")
            with pytest.raises(gpuwarden.Error):
                monitor.history(99, "temperature")
        assert not monitor.running
        assert monitor.latest() is not None


def test_alerts_and_health_are_heard():
    with gpuwarden.simulate("h100x8") as fleet:
        alerts, changes = [], []
        heard = threading.Event()
        rules = "rules:\n  - {id: warm, when: temperature > 60, level: warning, message: too warm}\n"
        with gpuwarden.Monitor(interval_s=0.1, rules=rules) as monitor:
            monitor.add_alert_callback(lambda change: (alerts.append(change), heard.set()))
            monitor.add_health_callback(changes.append)
            fleet.set(2, "temperature", 75)
            assert heard.wait(PATIENCE_S)
            fleet.fault(3, "off_the_bus")
            deadline = time.monotonic() + PATIENCE_S
            while not any(change.now.state == "error" for change in changes) and time.monotonic() < deadline:
                monitor.wait(1)
            assert {alert.rule for alert in monitor.alerts()} >= {"warm"}
        assert alerts[0].kind == "began" and alerts[0].alert.rule == "warm"
        assert [change.now.index for change in changes if change.now.state == "error"] == [3]


def test_what_a_callback_raises_is_reported_and_ends_nothing(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda news: told.append(news.exc_type))
    with gpuwarden.simulate("h100x8"):
        with gpuwarden.Monitor(interval_s=0.1) as monitor:
            monitor.add_reading_callback(lambda reading: 1 / 0)
            deadline = time.monotonic() + PATIENCE_S
            while len(told) < 2 and time.monotonic() < deadline:
                monitor.wait(1)
    assert told[:2] == [ZeroDivisionError, ZeroDivisionError]


def test_a_program_may_end_while_a_monitor_runs():
    done = run_python("""
import gpuwarden
m = gpuwarden.Monitor(gpuwarden.Machine(simulate="h100x8"), interval_s=0.1).start()
m.add_reading_callback(lambda reading: None)
m.wait(30)
print("fine")
""")
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr


def test_a_monitor_that_its_callback_holds_is_collected():
    class Holder:
        pass

    with gpuwarden.simulate("h100x8"):
        holder = Holder()
        holder.monitor = gpuwarden.Monitor(interval_s=0.1)
        holder.monitor.add_reading_callback(lambda reading, kept=holder: None)
        holder.monitor.add_alert_callback(lambda change, kept=holder: None)
        holder.monitor.start()
        assert holder.monitor.wait(PATIENCE_S) is not None
        known = weakref.ref(holder)
        del holder
        deadline = time.monotonic() + PATIENCE_S
        while known() is not None and time.monotonic() < deadline:
            gc.collect()  # a callback may just be running
        assert known() is None


def test_what_is_let_go_of_may_ask_its_manager_and_end_it():
    done = run_python("""
import gpuwarden
from gpuwarden.gpu import GPUManager
with gpuwarden.simulate("h100x8"):
    manager = GPUManager({"enable_monitoring": False})
    def release():
        print(len(manager.get_status()["gpus"]), manager.emergency_release(1)["enough"], flush=True)
        return 5
    asked = []
    manager.register_releasable("asks", lambda: 0 if asked else (asked.append(1) or 7), release)
    print(manager.emergency_release(5)["enough"])
    manager.register_releasable("ends", lambda: 7, lambda: manager.close() or 5)
    manager.emergency_release()
    manager = GPUManager(cuda={"health_check_interval": 0.01}, config={"enable_monitoring": False})
    ended = []
    manager.cuda_manager.add_state_callback(lambda before, now: (manager.close(), ended.append(now.state)))
    manager.cuda_manager.report_error(3, "lost")
    print(ended)
""")
    assert done.stdout.splitlines() == ["8 False", "True", "['error']"], done.stdout + done.stderr


def test_a_manager_may_be_closed_by_its_own_health_check():
    done = run_python("""
import threading, gpuwarden
from gpuwarden.gpu import CUDAManager
with gpuwarden.simulate("h100x8") as fleet:
    manager = CUDAManager({"health_check_interval": 0.01})
    manager.initialize()
    ended = threading.Event()
    manager.add_state_callback(lambda before, now: (manager.close(), ended.set()))
    fleet.fault(3, "off_the_bus")
    print(ended.wait(30))
""")
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


def test_wrong_rules_name_the_place():
    with gpuwarden.simulate("h100x8"):
        with pytest.raises(gpuwarden.Error, match="rules:"):
            gpuwarden.Monitor(rules="rules:\n  - {id: x, when: no_such_name > 1}\n")


def test_a_terminated_program_leaves_no_lease():
    code = """
import gpuwarden, os, signal
with gpuwarden.simulate("h100x8", shared=True):
    held = gpuwarden.reserve(count=8)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_python(code).returncode == -signal.SIGKILL
    with gpuwarden.simulate("h100x8", shared=True):
        assert gpuwarden.reserve(count=8).held
