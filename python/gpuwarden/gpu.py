# SPDX-License-Identifier: Apache-2.0
"""A program's GPUs in one object: devices and their states, memory, monitoring, models.

    from gpuwarden.gpu import GPUConfig, GPUManager

    manager = GPUManager(GPUConfig(memory_fraction=0.5))
    with manager.device_context() as device:   # a torch.device: a GPU where torch sees one, else the CPU
        model.to(device)

It works without a GPU and without torch: then everything runs on the CPU, and get_status() says why. GPUs are numbered
as nvidia-smi numbers them; a device's name ("cuda:1") has the number that CUDA gives it in this process.
"""
from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional, TypeVar, Union

from gpuwarden import _core, _gpu_torch
from gpuwarden._arguments import function, gpu_index, maybe_gpu_index, number, text, whole
from gpuwarden._error import Error, invalid
from gpuwarden._gpu_config import (
    Alert,
    AlertLevel,
    AllocationStrategy,
    DeviceFailure,
    DeviceState,
    GPUConfig,
    _Closing,
    _machine,
    _options,
)
from gpuwarden._machine import default_machine
from gpuwarden._values import Snapshot, Value
from gpuwarden.torch.levels import ModelPrecision, OptimizationLevel

__all__ = [
    "Alert",
    "AlertLevel",
    "AllocationStrategy",
    "CUDAManager",
    "CPUDevice",
    "DeviceFailure",
    "DeviceState",
    "GPUConfig",
    "GPUManager",
    "MemoryManager",
    "ModelPrecision",
    "OptimizationLevel",
    "PerformanceMonitor",
]

T = TypeVar("T")
CPUDevice = _gpu_torch.CPUDevice


class CUDAManager(_Closing):
    """The devices of a program: their states, and work that is tried again and moved to another GPU, at last to the CPU.

    Keys of `config`: device_ids, enable_health_check, health_check_interval (s), max_retries, retry_delay (s),
    retry_backoff, retry_max_delay (s), retry_jitter (0 to 1), enable_failover, recovery_delay (s), recovery_max_delay
    (s). Raises Error (invalid_argument) for another key and a value out of its range.
    """

    def __init__(self, config: Optional[Mapping[str, Any]] = None, *, machine: Any = None, _core_object: Any = None) -> None:
        self._hold(_core_object or _core.CudaManager.make(_machine(machine), _options(config)))

    def initialize(self) -> bool:
        """Reads the devices, trying again while the driver does not answer, and begins health checks. Whether there is
        a GPU that work can be given to; without one everything runs on the CPU. Raises Error (invalid_argument) for a
        GPU of device_ids that does not exist or is hidden."""
        self._core.initialize()
        return any(gpu.state in ("available", "busy") for gpu in self.get_devices())

    def get_devices(self) -> list[Value]:
        """The managed GPUs: gpu, uuid, name, state, health, score, in_use, compute_capability, memory_total_bytes ..."""
        return [Value(one) for one in json.loads(self._core.devices())]

    def get_device_state(self, gpu: int) -> DeviceState:
        """Raises Error (invalid_argument) for a GPU that is not managed."""
        for one in self.get_devices():
            if one.gpu == gpu:
                return DeviceState(one.state)
        self._core.device(gpu_index("gpu", gpu))  # raises, and says which there are
        raise invalid(f"GPU {gpu} is not managed")

    def get_best_device(self) -> Any:
        """The device with the highest score, as device_context() gives it."""
        return _gpu_torch.device_of(json.loads(self._core.best_device()))

    def get_status(self) -> dict[str, Any]:
        """initialized, cuda_available (torch's word), driver_version, problem, simulated, gpus, current."""
        return {
            "initialized": self._core.initialized,
            "cuda_available": _gpu_torch.cuda_available(),
            "driver_version": self._core.driver_version,
            "problem": self._core.problem,
            "simulated": self._core.simulated,
            "gpus": [one.to_dict() for one in self.get_devices()],
            "current": json.loads(self._core.best_device()),
        }

    @contextlib.contextmanager
    def device_context(self, device_id: Optional[int] = None) -> Iterator[Any]:
        """A torch.device that is current within the block: that GPU, or the best one, where torch sees CUDA and the
        GPU is fit; else the CPU (torch.device("cpu"), or CPUDevice without torch). Raises Error (invalid_argument) for
        a GPU that is not managed."""
        if not _gpu_torch.cuda_available():
            if device_id is not None:
                self.get_device_state(device_id)
            yield _gpu_torch.cpu_device()
            return
        held = self._core.enter(maybe_gpu_index("device_id", device_id))
        try:
            with _gpu_torch.current(json.loads(held.device)) as device:
                yield device
        finally:
            held.close()

    def run(self, work: Callable[[Any], T], operation: str = "work", device_id: Optional[int] = None) -> T:
        """What `work(device)` returns. Where it raises what a GPU's fault or want of memory raises (torch's CUDA errors,
        OutOfMemoryError, Error with code unavailable, timed_out or unsatisfied), it is tried again with growing pauses,
        then on the next best device, and at last on the CPU. Every other exception passes through at once."""
        function("work", work)
        results: list[T] = []
        raised: list[BaseException] = []

        def once(device: str) -> Optional[tuple[str, str]]:
            try:
                results.append(work(_gpu_torch.device_of(json.loads(device))))
            except BaseException as error:  # raised again below
                raised.append(error)
                return _gpu_torch.kind_of(error), str(error)
            return None

        try:
            self._core.run(text("operation", operation), once, maybe_gpu_index("device_id", device_id))
        except Error:
            if raised:
                raise raised[-1] from None
            raise
        return results[-1]

    def report_error(self, gpu: int, error: Any, operation: str = "work") -> None:
        """Marks a GPU as in error until it recovers. Raises Error (invalid_argument) for one that is not managed."""
        self._core.report_error(gpu_index("gpu", gpu), text("operation", operation), str(error))

    def disable_device(self, gpu: int, reason: str = "") -> None:
        """Takes a GPU out of use in this program."""
        self._core.disable(gpu_index("gpu", gpu), text("reason", reason))

    def enable_device(self, gpu: int) -> None:
        """Puts it back, whether it was disabled or in error."""
        self._core.enable(gpu_index("gpu", gpu))

    def check_health(self) -> list[Value]:
        """Reads the GPUs now; get_devices() afterwards."""
        self._core.check()
        return self.get_devices()

    def add_error_callback(self, callback: Callable[[DeviceFailure], Any]) -> None:
        """Calls `callback(failure)` with each failure, from the thread in which it happens."""
        function("callback", callback)
        self._core.add_error_callback(lambda told: callback(DeviceFailure(json.loads(told))))

    def add_state_callback(self, callback: Callable[[Value, Value], Any]) -> None:
        """Calls `callback(before, now)` where a GPU's state changes, from a thread of the library's."""
        function("callback", callback)
        self._core.add_state_callback(lambda before, now: callback(Value(json.loads(before)), Value(json.loads(now))))

    def set_visible_devices(self, devices: Any) -> None:
        """As gpuwarden.distributed.set_visible_gpus(): what CUDA shows this process and those that it starts. Raises
        Error where CUDA has started here: then it is too late."""
        from gpuwarden.distributed import set_visible_gpus

        set_visible_gpus(devices)


class MemoryManager(_Closing):
    """Memory on one device, pooled or plain. Sizes are bytes.

    Keys of `config`: allocation_strategy, enable_pooling, max_pool_size, memory_fraction, max_memory_cache_ratio,
    enable_cleanup, cleanup_interval (s), enable_oom_recovery. The device is opened with the first allocation; where it
    has no CUDA driver in this process, memory of the host stands in for it, and get_status() says so.
    """

    def __init__(self, config: Optional[Mapping[str, Any]] = None, *, device_id: Optional[int] = None, machine: Any = None,
                 _core_object: Any = None) -> None:
        if _core_object is None:
            machine = machine if machine is not None else default_machine()
            asked = machine._core
            with CUDAManager({"enable_health_check": False}, machine=machine) as devices:
                devices._core.initialize()
                best = json.loads(devices._core.best_device())["gpu"]
                wanted = best if device_id is None else json.loads(devices._core.device(device_id))["gpu"]
                on = next((gpu.to_dict() for gpu in devices.get_devices() if gpu.gpu == wanted), {})
            _core_object = _core.MemoryManager.make(asked, _options(config), json.dumps(on))
        self._hold(_core_object)

    def allocate(self, size: int, stream: int = 0) -> int:
        """The address of `size` bytes for work on a stream (its handle). Raises Error: unsatisfied where memory is out
        though everything was let go of, invalid_argument for size 0."""
        return int(self._core.allocate(whole("size", size), whole("stream", stream)))

    def deallocate(self, address: int, stream: int = 0) -> None:
        """Gives it back. Raises Error (invalid_argument) for what was not given out, or given back twice."""
        self._core.deallocate(whole("address", address), whole("stream", stream))

    @contextlib.contextmanager
    def memory(self, size: int, stream: int = 0) -> Iterator[int]:
        """allocate(), and deallocate() at the end of the block."""
        address = self.allocate(size, stream)
        try:
            yield address
        finally:
            self.deallocate(address, stream)

    def get_status(self) -> dict[str, Any]:
        """live_bytes, peak_bytes, reserved_bytes, idle_bytes, limit_bytes, fragmentation, pool_efficiency, backing ..."""
        status: dict[str, Any] = json.loads(self._core.status())
        return status

    get_memory_stats = get_status

    def trim(self, keep: int = 0) -> int:
        """Gives idle memory back to the device until no more than `keep` is reserved; how much went."""
        return int(self._core.trim(whole("keep", keep)))

    def defragment(self) -> dict[str, Any]:
        """Merges free blocks and gives idle pages back: idle_before_bytes, idle_after_bytes,
        returned_bytes."""
        done: dict[str, Any] = json.loads(self._core.defragment())
        return done

    def set_memory_fraction(self, fraction: float) -> None:
        """Another share of the device's memory from now on, in the pool and in torch's allocator where torch sees CUDA.
        Raises Error: invalid_argument, unsatisfied where live memory exceeds it."""
        share = number("memory_fraction", fraction)
        self._core.set_memory_fraction(share)
        _gpu_torch.set_memory_fraction(share, self.get_status()["device"])

    def emergency_release(self, needed: Optional[int] = None) -> dict[str, Any]:
        """Lets go of what is registered, until `needed` bytes are free: steps, freed_bytes, enough."""
        wanted = None if needed is None else whole("needed", needed)
        report: dict[str, Any] = json.loads(self._core.emergency_release(wanted))
        return report


class PerformanceMonitor(_Closing):
    """Metrics, alerts and operations.

    Keys of `config`: enable_alerting, enable_profiling, interval (s), history (s), thresholds: for a metric a number,
    or {"above": number, "level": AlertLevel} ({"temperature": {"above": 85, "level": "critical"}}); they come beside
    the built-in rules (docs/alerts.md). Readings begin with start_monitoring(), or with the first callback.
    """

    def __init__(self, config: Optional[Mapping[str, Any]] = None, *, machine: Any = None, _core_object: Any = None) -> None:
        self._hold(_core_object or _core.PerformanceMonitor.make(_machine(machine), _options(config)))
        self._profiling = bool(json.loads(self._core.config())["enable_profiling"])
        self._followed = False
        if self._profiling:
            self.feed_profile()

    @property
    def running(self) -> bool:
        return bool(self._core.running)

    def start_monitoring(self) -> None:
        """Starting what runs is no error."""
        if not self._core.running:
            self._core.start()

    def stop_monitoring(self) -> None:
        """What was read stays to be asked for."""
        self._core.stop()

    def wait_for_reading(self, timeout: float = 10.0) -> bool:
        """Whether there is a reading, after at most `timeout` seconds (math.inf: without end)."""
        self.start_monitoring()
        return bool(self._core.wait(number("timeout", timeout)))

    def get_current_metrics(self) -> Optional[Value]:
        """The last reading: gpus, each with index, name and metrics (docs/metrics.md). None before the first."""
        current = json.loads(self._core.current())
        return None if current is None else Value(current)

    def get_metrics_summary(self, seconds: float = 600.0) -> Value:
        """min, mean, max and p95 of each GPU's utilization, memory, temperature and power over the last `seconds`."""
        return Value(json.loads(self._core.summary(number("seconds", seconds))))

    def get_alerts(self) -> list[Alert]:
        """Those that last, the worst first."""
        return [Alert(one) for one in json.loads(self._core.alerts())]

    def add_reading_callback(self, callback: Callable[[Snapshot], Any]) -> None:
        """Calls `callback(snapshot)` with each reading, from a thread of the library's; what it raises goes to
        sys.unraisablehook. Begins to read."""
        function("callback", callback)
        self._core.add_reading_callback(lambda told: callback(Snapshot(json.loads(told))))
        self.start_monitoring()

    def feed_profile(self) -> None:
        """Each reading goes to gpuwarden.profile as well, whose operations get their energy, utilization and memory from
        it. With enable_profiling it does from the start. A second call does nothing."""
        if not self._followed:
            self._core.follow_profile()
            self._followed = True

    def add_alert_callback(self, callback: Callable[[Alert], Any]) -> None:
        """Calls `callback(alert)` when an alert begins and when it is repeated, from a thread of the library's; what it
        raises goes to sys.unraisablehook. Begins to read."""
        function("callback", callback)

        def tell(kind: str, told: str) -> None:
            if kind != "ended":
                callback(Alert({**json.loads(told), "kind": kind}))

        self._core.add_alert_callback(tell)
        self.start_monitoring()

    def profile_operation(self, name: str) -> Any:
        """`with monitor.profile_operation("inference"):` measures as gpuwarden.profile does, with energy, utilization
        and memory of the GPUs where this monitor reads meanwhile; without enable_profiling it does nothing."""
        if not self._profiling:
            return contextlib.nullcontext()
        from gpuwarden.profile import profile_operation

        return profile_operation(name)

    def get_profile(self) -> Any:
        """The operations that were measured in this process (gpuwarden.profile.results())."""
        from gpuwarden.profile import results

        return results()

    def benchmark(self, model: Any, example_inputs: Any, *args: Any, **options: Any) -> Any:
        """As gpuwarden.torch.benchmark(). Raises Error (unavailable) without torch."""
        from gpuwarden.torch import benchmark

        return benchmark(model, example_inputs, *args, **options)


class GPUManager(_Closing):
    """Coordinates devices, memory, monitoring and models by a GPUConfig; each part is an object of its own
    (cuda_manager, memory_manager, performance_monitor).

    `cuda`, `memory` and `monitor` are dicts with further keys of the parts; `machine` another gpuwarden.Machine than the
    default one. Raises Error (invalid_argument) for a value out of its range and for GPUs that do not exist.
    """

    def __init__(self, config: Union[GPUConfig, Mapping[str, Any], None] = None, *, cuda: Optional[Mapping[str, Any]] = None,
                 memory: Optional[Mapping[str, Any]] = None, monitor: Optional[Mapping[str, Any]] = None,
                 machine: Any = None) -> None:
        self.config = config if isinstance(config, GPUConfig) else GPUConfig(**dict(config or {}))
        given = {"cuda": cuda, "memory": memory, "monitor": monitor}
        parts = {name: json.loads(_options(keys)) for name, keys in given.items()}
        self._hold(_core.GpuManager.make(_machine(machine), json.dumps(self.config.to_dict()), json.dumps(parts)))
        self._core.initialize()
        self.cuda_manager = CUDAManager(_core_object=self._core.cuda())
        self.memory_manager = MemoryManager(_core_object=self._core.memory(None))
        self.performance_monitor = PerformanceMonitor(_core_object=self._core.monitor())
        self._models: dict[str, Any] = {}
        _gpu_torch.register_cache(self._core)
        if self.config.memory_fraction is not None:
            for gpu in self.cuda_manager.get_devices():
                _gpu_torch.set_memory_fraction(self.config.memory_fraction, gpu.to_dict())
        if self.config.enable_distributed:
            self.setup_distributed()

    def close(self) -> None:
        """Ends monitoring and gives memory back."""
        for part in (self.performance_monitor, self.memory_manager, self.cuda_manager):
            part.close()
        super().close()

    shutdown = close

    def get_status(self) -> dict[str, Any]:
        """cuda_available is torch's word; `driver` is what the driver says, `gpus` the managed GPUs (simulated ones
        too), and `problem` why there is none. Further: initialized, current, memory, monitoring, alerts, operations,
        optimization, distributed, releasable, config, torch (its version) and torch_problem (why it cannot be used)."""
        status: dict[str, Any] = json.loads(self._core.status())
        status["driver"] = {"available": bool(status["gpus"]), "version": status.pop("driver_version"),
                            "cuda_library": status["cuda_available"]}
        status.update(_gpu_torch.status())
        if self.config.enable_profiling:
            status["operations"] = self.performance_monitor.get_profile().to_dict()["operations"]
        return status

    @contextlib.contextmanager
    def device_context(self, device_id: Optional[int] = None) -> Iterator[Any]:
        """As CUDAManager.device_context(). At its end torch's cache is emptied where more of the limit lies idle in it
        than max_memory_cache_ratio, and in any case without enable_memory_pooling: then nothing is kept for reuse."""
        with self.cuda_manager.device_context(device_id) as device:
            try:
                yield device
            finally:
                ratio = self.config.max_memory_cache_ratio if self.config.enable_memory_pooling else 0.0
                _gpu_torch.keep_cache_small(device, ratio, self.config.memory_fraction)

    def run(self, work: Callable[[Any], T], operation: str = "work", device_id: Optional[int] = None) -> T:
        """As CUDAManager.run(); where memory is out, emergency_release() comes before another device."""
        return self.cuda_manager.run(work, operation, device_id)

    def profile_operation(self, name: str) -> Any:
        """As PerformanceMonitor.profile_operation()."""
        return self.performance_monitor.profile_operation(name)

    def add_alert_callback(self, callback: Callable[[Alert], Any]) -> None:
        """As PerformanceMonitor.add_alert_callback()."""
        self.performance_monitor.add_alert_callback(callback)

    def add_error_callback(self, callback: Callable[[DeviceFailure], Any]) -> None:
        """As CUDAManager.add_error_callback()."""
        self.cuda_manager.add_error_callback(callback)

    def optimize_model(self, model: Any, name: Optional[str] = None, example_inputs: Any = None,
                       level: Any = None, precision: Any = None, **options: Any) -> Any:
        """The model as gpuwarden.torch.optimize_model() makes it faster, by the configuration's level and precision as
        far as the device has them. gpuwarden.torch.report_of(result) says what was done and why. Raises Error
        (unavailable) without torch. The model can be moved away by emergency_release() from then on."""
        from gpuwarden.torch import optimize_model

        plan = json.loads(self._core.optimization(None))
        without = set(options.pop("without", ()))
        if not self.config.enable_compile:
            without.add("compile")
        if not self.config.enable_channels_last:
            without.add("channels_last")
        result = optimize_model(model, name, example_inputs, level or plan["level"], precision or plan["precision"],
                                without=tuple(sorted(without)), **options)
        self.register_model(name or type(model).__name__, result)
        return result

    def register_model(self, name: str, model: Any) -> None:
        """emergency_release() may move it to the CPU; it is not kept alive by this."""
        text("name", name)
        self._models[name] = _gpu_torch.register_model(self._core, name, model)

    def register_releasable(self, name: str, size: Callable[[], Optional[int]], release: Callable[[], int]) -> None:
        """Something else that can be let go of: how many bytes that would free (None: not known), and what does it and
        returns how many it did."""
        self._core.add_releasable(text("name", name), "cache", function("size", size), function("release", release))

    def emergency_release(self, needed: Optional[int] = None) -> dict[str, Any]:
        """Empties caches (torch's, after a garbage collection), trims pools, moves registered models to the CPU, each
        time what frees most first, until `needed` bytes are free: steps, freed_bytes, enough."""
        wanted = None if needed is None else whole("needed", needed)
        report: dict[str, Any] = json.loads(self._core.emergency_release(wanted))
        return report

    emergency_cleanup = emergency_release

    def setup_distributed(self, init_process_group: bool = False) -> dict[str, Any]:
        """Sets what this process needs to find its fellows (RANK, WORLD_SIZE, MASTER_ADDR ...) where no launcher has,
        and says it: backend, rank, local_rank, world_size, device, notes. nccl becomes gloo without a GPU that torch
        sees. init_process_group: calls torch.distributed.init_process_group() as well. Raises Error."""
        setup: dict[str, Any] = json.loads(self._core.set_up_distributed())
        return _gpu_torch.set_up_distributed(setup, init_process_group)
