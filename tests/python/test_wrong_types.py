# SPDX-License-Identifier: Apache-2.0
"""A value of the wrong type is an Error that names the argument, not a wall of the extension's signatures."""
from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuwarden
from gpuwarden import _core
from gpuwarden import gpu as g
from gpuwarden.profile import profile_operation


@pytest.fixture(scope="module")
def fleet() -> Iterator[Any]:
    with gpuwarden.simulate("h100x8") as running:
        yield running


@pytest.fixture(scope="module")
def monitor(fleet: Any) -> Iterator[gpuwarden.Monitor]:
    with gpuwarden.Monitor(interval_s=600) as made:
        assert made.wait(30) is not None
        yield made


@pytest.fixture(scope="module")
def manager(fleet: Any) -> Iterator[g.GPUManager]:
    with g.GPUManager({"enable_monitoring": False}, machine=fleet.machine) as made:
        yield made


def enter(context: Any) -> None:
    with context:
        pass


W: Any = gpuwarden
#: What the message has to name, and the slip.
SLIPS: list[tuple[str, Callable[[], Any]]] = [
    ("text", lambda: W.parse_size(5)),
    ("text", lambda: W.parse_duration(None)),
    ("model", lambda: W.plan(5)),
    ("model", lambda: W.plan(5, gpus="8xh100")),
    ("gpus", lambda: W.plan("llama-3-8b", gpus=8)),
    ("cpus", lambda: W.plan("llama-3-8b", cpus="many")),
    ("gpus_per_node", lambda: W.plan("llama-3-8b", gpus_per_node=-1)),
    ("question", lambda: W.compat(12.4)),
    ("cuda", lambda: W.compat(cuda=12.4)),
    ("driver", lambda: W.compat(driver=550)),
    ("matrix", lambda: W.compat(matrix="yes")),
    ("purpose", lambda: W.doctor(5)),
    ("only", lambda: W.doctor(only="driver")),
    ("skip", lambda: W.doctor(skip=[3])),
    ("software", lambda: W.doctor(software="yes")),
    ("min_confidence", lambda: W.diagnose("log", min_confidence="high")),
    ("path", lambda: W.diagnose(5)),
    ("path", lambda: W.replay(5)),
    ("count", lambda: W.select("two")),
    ("count", lambda: W.select(1.5)),
    ("wait_s", lambda: W.reserve(1, wait_s="5")),
    ("wait_s", lambda: W.reserve(1, wait_s=math.nan)),
    ("model", lambda: W.select(model=5)),
    ("argv", lambda: W.run("sleep 1")),
    ("path", lambda: W.run([1, 2])),
    ("nodes", lambda: W.run(["true"], nodes="two")),
    ("master_port", lambda: W.run(["true"], master_port=70000)),
    ("grace_s", lambda: W.run(["true"], grace_s="1s")),
    ("environment", lambda: W.run(["true"], environment={"A": 1})),
    ("environment", lambda: W.run(["true"], environment=["A=1"])),
    ("one_gpu_per_rank", lambda: W.run(["true"], one_gpu_per_rank="yes")),
    ("max_restarts", lambda: W.run(["true"], max_restarts="often")),
    ("time_limit", lambda: W.run(["true"], time_limit=[1])),
    ("restart_arg", lambda: W.run(["true"], max_restarts=1, restart_arg=[{}])),
    ("device_memory", lambda: W.replay("trace", device_memory="80")),
    ("simulated_load", lambda: W.run(["true"], simulated_load=5)),
    ("processes", lambda: W.snapshot(processes="yes")),
    ("detail", lambda: W.snapshot(5)),
    ("gpus", lambda: W.memory(1.5)),
    ("reason", lambda: W.disable(0, None)),
    ("simulate", lambda: W.Machine(simulate=5)),
    ("timeout_s", lambda: W.Machine(timeout_s="5s")),
    ("probe", lambda: W.Machine(probe=5)),
    ("path", lambda: W.Machine(knowledge=[5])),
    ("fleet", lambda: W.simulate(8)),
    ("interval_s", lambda: W.Monitor(interval_s="fast")),
    ("remember_s", lambda: W.Monitor(remember_s=math.nan)),
    ("rules", lambda: W.Monitor(rules=5)),
    ("an operation's name", lambda: enter(profile_operation(5))),  # type: ignore[arg-type]
    ("an operation's name", lambda: enter(profile_operation(["unhashable"]))),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("name", "slip"), SLIPS, ids=[f"{index}-{row[0]}" for index, row in enumerate(SLIPS)])
def test_the_argument_is_named(fleet: Any, name: str, slip: Callable[[], Any]) -> None:
    with pytest.raises(gpuwarden.Error) as raised:
        slip()
    assert raised.value.code == "invalid_argument"
    assert name in raised.value.message


MONITOR_SLIPS: list[tuple[str, Callable[[Any], Any]]] = [
    ("timeout_s", lambda m: m.wait("soon")),
    ("timeout_s", lambda m: m.wait(math.nan)),
    ("metric", lambda m: m.history(0, 5)),
    ("last_s", lambda m: m.history(0, "temperature", "1h")),
    ("last_s", lambda m: m.statistics(0, "temperature", None)),
    ("last_s", lambda m: m.energy(0, "1h")),
    ("most", lambda m: m.alert_log(-1)),
    ("alert", lambda m: m.acknowledge("first", by="me")),
    ("by", lambda m: m.acknowledge(1, by=5)),
    ("for_s", lambda m: m.silence(for_s="1h")),
    ("callback", lambda m: m.add_reading_callback(5)),
    ("callback", lambda m: m.add_alert_callback("tell")),
    ("callback", lambda m: m.add_health_callback(None)),
]
MANAGER_SLIPS: list[tuple[str, Callable[[Any], Any]]] = [
    ("device_id", lambda m: m.run(lambda device: None, device_id="cuda:0")),
    ("work", lambda m: m.run("train")),
    ("gpu", lambda m: m.cuda_manager.get_device_state("cuda:0")),
    ("gpu", lambda m: enter(m.device_context(-1))),
    ("gpu", lambda m: m.cuda_manager.report_error("0", "lost")),
    ("gpu", lambda m: m.cuda_manager.disable_device(1.5)),
    ("reason", lambda m: m.cuda_manager.disable_device(1, 5)),
    ("gpu", lambda m: m.cuda_manager.enable_device(None)),
    ("callback", lambda m: m.add_error_callback(5)),
    ("callback", lambda m: m.cuda_manager.add_state_callback(5)),
    ("callback", lambda m: m.add_alert_callback(5)),
    ("size", lambda m: m.memory_manager.allocate("1GiB")),
    ("size", lambda m: m.memory_manager.allocate(-1)),
    ("size", lambda m: m.memory_manager.allocate(1.5)),
    ("address", lambda m: m.memory_manager.deallocate(None)),
    ("keep", lambda m: m.memory_manager.trim("all")),
    ("memory_fraction", lambda m: m.memory_manager.set_memory_fraction("half")),
    ("needed", lambda m: m.emergency_release("1GiB")),
    ("needed", lambda m: m.memory_manager.emergency_release(-1)),
    ("timeout", lambda m: m.performance_monitor.wait_for_reading("soon")),
    ("seconds", lambda m: m.performance_monitor.get_metrics_summary("all")),
    ("size", lambda m: m.register_releasable("x", 5, lambda: 5)),
    ("name", lambda m: m.register_model(5, object())),
]


def check(name: str, slip: Callable[[], Any]) -> None:
    with pytest.raises(gpuwarden.Error) as raised:
        slip()
    assert raised.value.code == "invalid_argument"
    assert name in raised.value.message
    assert "incompatible function arguments" not in str(raised.value)


@pytest.mark.parametrize(("name", "slip"), MONITOR_SLIPS)
def test_a_monitor_names_the_argument(monitor: Any, name: str, slip: Callable[[Any], Any]) -> None:
    check(name, lambda: slip(monitor))


@pytest.mark.parametrize(("name", "slip"), MANAGER_SLIPS)
def test_a_manager_names_the_argument(manager: Any, name: str, slip: Callable[[Any], Any]) -> None:
    check(name, lambda: slip(manager))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = ["count", "gpu_ids", "min_memory", "max_utilization_percent", "name", "prefer", "share", "model", "model_size", "task", "mig"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(KEYS), JSON)
def test_whatever_a_wish_is_there_is_an_answer_or_an_error(fleet: Any, key: str, value: Any) -> None:
    try:
        gpuwarden.select(**{key: value})
    except gpuwarden.Error as error:
        assert error.message


def test_what_the_extension_is_told_wrong_is_an_error_as_well(fleet: Any) -> None:
    for call in (
        lambda: _core.doctor(fleet.machine._core, '{"only": 5}'),
        lambda: _core.choose_for_process(fleet.machine._core, '{"pids": ["me"]}'),
        lambda: _core.GpuManager.make(fleet.machine._core, "{}", '{"cuda": 5}'),
    ):
        with pytest.raises(gpuwarden.Error) as raised:
            call()
        assert raised.value.code == "invalid_argument"


def test_numbers_of_other_libraries_are_numbers(fleet: Any) -> None:
    class Int64:
        def __index__(self) -> int:
            return 2

    assert len(gpuwarden.select(Int64()).selected) == 2  # type: ignore[arg-type]
    assert [one.index for one in gpuwarden.select(gpu_ids=[Int64()]).selected] == [2]


def test_waiting_without_end_ends_with_the_next_reading(fleet: Any) -> None:
    with gpuwarden.Monitor(interval_s=0.1) as monitor:
        assert monitor.wait(math.inf) is not None
        assert monitor.history(0, "temperature", math.inf).points
        assert monitor.statistics(0, "temperature", math.inf) is not None
    with g.PerformanceMonitor({"interval": 0.1}) as performance:
        assert performance.wait_for_reading(math.inf)
        assert performance.get_metrics_summary(math.inf).gpus


def test_a_reservation_may_wait_without_end(fleet: Any) -> None:
    held = gpuwarden.reserve(count=8)
    threading.Timer(0.2, held.release).start()
    gpuwarden.reserve(count=1, wait_s=math.inf).release()
