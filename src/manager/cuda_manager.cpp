// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/cuda_manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>

#include "gpuwarden/base/orphans.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/manager/gpu_manager.hpp"
#include "manager/device_book.hpp"

namespace gpuwarden::manager {
namespace {

using Kind = facts::DriverProblem::Kind;

/// Whether asking the driver again can help.
bool may_pass(Kind kind) {
  return kind == Kind::timed_out || kind == Kind::crashed || kind == Kind::unknown_error || kind == Kind::other ||
         kind == Kind::impossible;
}

probe::ReadRequest with_cuda_order() {
  probe::ReadRequest request;
  request.cuda_order = true;
  return request;
}

/// Makes the device current.
Result<DeviceGuard> guard_of(const Device& device, const std::filesystem::path& library) {
  if (library.empty()) return fail(ErrorCode::unavailable, "this process has no CUDA driver for these GPUs");
  if (!device.ordinal) return fail(ErrorCode::unavailable, "CUDA's order of the GPUs is not known");
  return DeviceGuard::enter(*device.ordinal, library.string());
}

}  // namespace

class CudaManager::Impl {
 public:
  Impl(CudaConfig config, CudaSources sources)
      : config_(std::move(config)),
        sources_(std::move(sources)),
        random_(std::random_device{}()),
        book_(config_, sources_.visibility, std::random_device{}()) {}

  Clock& clock() const { return *sources_.clock; }
  const CudaConfig& config() const { return config_; }
  const CudaSources& sources() const { return sources_; }

  telemetry::Reading read(const probe::ReadRequest& request) const {
    telemetry::Reading reading;
    reading.when = clock().now();
    reading.snapshot = sources_.read(request);
    return reading;
  }

  RetryHooks hooks(const std::stop_token& stop) {
    RetryHooks hooks{.clock = sources_.clock, .stop = stop, .chance = {}, .failed = {}};
    hooks.chance = [this] {
      const std::scoped_lock lock(mutex_);
      return std::uniform_real_distribution<double>(0, 1)(random_);
    };
    return hooks;
  }

  template <class Ask>
  auto ask(Ask&& what) const {
    const std::scoped_lock lock(mutex_);
    return what(book_);
  }
  /// Changes the book, then tells whose state is another now.
  template <class Change>
  auto change(Change&& what) {
    std::unique_lock lock(mutex_);
    const auto before = book_.all();
    auto result = what(book_);  // NOLINT(misc-const-correctness): some are moved from
    const auto now = book_.all();
    const auto callbacks = state_callbacks_;
    lock.unlock();
    for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
      if (before[i].health.state == now[i].health.state || before[i].device != now[i].device) continue;
      for (const auto& callback : callbacks) callback(before[i], now[i]);
    }
    return result;
  }

  void observe(const telemetry::Reading& reading) {
    const auto disabled = disabled_among(reading.snapshot);
    change([&](DeviceBook& book) {
      book.observe(reading, disabled);
      return true;
    });
  }

  std::vector<facts::Disabling> disabled_among(const facts::Snapshot& snapshot) {
    if (!sources_.disabled) return {};
    auto told = sources_.disabled();
    const std::scoped_lock lock(mutex_);
    if (told) return *(disabled_ = std::move(*told));
    if (disabled_) return *disabled_;
    std::vector<facts::Disabling> all;
    for (const facts::GpuRecord& record : snapshot.gpus) {
      all.push_back({.uuid = facts::identity_of(record),
                     .reason = "what is disabled is not known: " + told.error().message,
                     .by = {},
                     .since = clock().wall_now(),
                     .next_step = told.error().hint});
    }
    return all;
  }

  void tell(const DeviceError& error) const {
    std::vector<std::function<void(const DeviceError&)>> callbacks;
    {
      const std::scoped_lock lock(mutex_);
      callbacks = error_callbacks_;
    }
    for (const auto& callback : callbacks) callback(error);
  }

  Result<void> first_reading(const std::stop_token& stop) {
    telemetry::Reading reading;
    auto with = hooks(stop);
    with.failed = [this](const Error& error, unsigned attempt, bool again) {
      tell({Device{}, "initialize", error, attempt, again, std::nullopt});
    };
    const auto answered = with_retries(retry_policy(config_), with, [&]() -> Result<void> {
      reading = read(with_cuda_order());
      const auto& problem = reading.snapshot.problem;
      if (problem && may_pass(problem->kind)) return fail(problem->code, problem->message, problem->hint);
      return {};
    });
    if (!answered && stop.stop_requested()) return fail(ErrorCode::interrupted, "stopped while reading the GPUs");
    GPUWARDEN_CHECK(change([&](DeviceBook& book) { return book.choose(reading.snapshot); }));
    observe(reading);
    return {};
  }

  void start_checks() {
    std::jthread ended;  // waited for without the lock: its callbacks may want that
    const std::scoped_lock lock(thread_mutex_);
    const bool runs = thread_.joinable() && !thread_.get_stop_token().stop_requested();
    if (!config_.enable_health_check || runs || is_checking()) return;
    ended = std::move(thread_);
    ended_ = std::make_shared<std::atomic<bool>>(false);
    thread_ = std::jthread([this, done = ended_](const std::stop_token& stop) {
      while (!stop.stop_requested() && clock().sleep_for(config_.health_check_interval, stop)) observe(read({}));
      *done = true;
    });
  }
  bool is_checking() const { return thread_.get_id() == std::this_thread::get_id(); }
  /// Whether its thread has nothing left to do.
  bool has_ended() const { return *ended_; }
  void stop_checks() {
    std::jthread ended;
    const std::scoped_lock lock(thread_mutex_);
    // A thread cannot wait for its own end: it ends with the check from whose callback this is asked.
    if (is_checking())
      thread_.request_stop();
    else
      ended = std::move(thread_);
  }

  /// All attempts on one device.
  Result<void> attempt(const std::string& operation, const Work& work, const Device& device,
                       const std::stop_token& stop, std::vector<DeviceError>& failures) {
    auto with = hooks(stop);
    with.failed = [&](const Error& error, unsigned attempt, bool again) {
      failures.push_back({device, operation, error, attempt, again, std::nullopt});
      if (!again) return;  // the last one is told with where the work goes on
      tell(failures.back());
      if (error.code == ErrorCode::unsatisfied && sources_.out_of_memory) sources_.out_of_memory(device);
    };
    use(device, 1);
    auto result = [&]() -> Result<void> {
      try {
        return with_retries(retry_policy(config_), with, [&] { return work(device); });
      } catch (...) {
        use(device, -1);
        throw;
      }
    }();
    use(device, -1);
    return result;
  }

  void use(const Device& device, int by) {
    if (device.is_cpu()) return;
    change([&](DeviceBook& book) {
      book.use(*device.gpu, by);
      return true;
    });
  }

  void mark(const Device& device, const std::string& operation, const Error& error) {
    change([&](DeviceBook& book) {
      book.mark_error(*device.gpu, fmt::format("{} failed: {}", operation, error.message), clock().now(),
                      clock().wall_now());
      return true;
    });
  }

  Device best(const std::vector<GpuIndex>& except) const {
    return ask([&](const DeviceBook& book) { return book.best(except); });
  }
  std::optional<Device> next_device(const std::string& operation, const Error& error, const Device& failed,
                                    std::vector<GpuIndex>& tried) {
    if (failed.is_cpu() || !is_transient(error)) return std::nullopt;
    if (error.code != ErrorCode::unsatisfied) mark(failed, operation, error);
    tried.push_back(*failed.gpu);
    return config_.enable_failover ? std::optional(best(tried)) : std::nullopt;
  }

  mutable std::mutex mutex_;
  std::vector<std::function<void(const DeviceError&)>> error_callbacks_;
  std::vector<std::function<void(const DeviceStatus&, const DeviceStatus&)>> state_callbacks_;
  bool initialized_ = false;

 private:
  const CudaConfig config_;
  const CudaSources sources_;
  std::minstd_rand random_;
  DeviceBook book_;
  std::optional<std::vector<facts::Disabling>> disabled_;  ///< as it was told last
  std::mutex thread_mutex_;
  std::shared_ptr<std::atomic<bool>> ended_;  ///< the thread has nothing left to do
  std::jthread thread_;                       ///< last: it ends before what it reads
};

struct DeviceContext::Hold {
  Hold(std::shared_ptr<CudaManager::Impl> manager, Device on, std::optional<DeviceGuard> current)
      : owner(std::move(manager)), device(std::move(on)), guard(std::move(current)) {}
  std::shared_ptr<CudaManager::Impl> owner;
  Device device;
  std::optional<DeviceGuard> guard;
};

DeviceContext::DeviceContext(DeviceContext&&) noexcept = default;
DeviceContext::~DeviceContext() {
  if (!hold_) return;
  hold_->guard.reset();
  hold_->owner->use(hold_->device, -1);
}

CudaManager::CudaManager(CudaConfig config, CudaSources sources)
    : impl_(std::make_shared<Impl>(std::move(config), std::move(sources))) {}
CudaManager::~CudaManager() {
  impl_->stop_checks();
  // A thread cannot wait for its own end.
  if (impl_->is_checking()) orphans<Impl>().add(std::move(impl_));
}

Result<void> CudaManager::initialize(const std::stop_token& stop) {
  orphans<Impl>().clear_ended();
  GPUWARDEN_CHECK(cuda_config_from_json(to_json(impl_->config())));
  GPUWARDEN_CHECK(impl_->first_reading(stop));
  {
    const std::scoped_lock lock(impl_->mutex_);
    impl_->initialized_ = true;
  }
  impl_->start_checks();
  return {};
}

bool CudaManager::initialized() const {
  const std::scoped_lock lock(impl_->mutex_);
  return impl_->initialized_;
}

void CudaManager::shutdown() { impl_->stop_checks(); }

std::vector<DeviceStatus> CudaManager::devices() const {
  return impl_->ask([](const DeviceBook& book) { return book.all(); });
}
bool CudaManager::has_gpu() const { return !best_device().is_cpu(); }
std::string CudaManager::problem() const {
  return impl_->ask([](const DeviceBook& book) { return book.problem(); });
}
bool CudaManager::simulated() const {
  return impl_->ask([](const DeviceBook& book) { return book.snapshot().simulated; });
}
std::optional<std::string> CudaManager::driver_version() const {
  return impl_->ask([](const DeviceBook& book) { return book.snapshot().driver_version; });
}

Device CudaManager::best_device(const std::vector<GpuIndex>& except) const { return impl_->best(except); }
Result<Device> CudaManager::device(GpuIndex gpu) const {
  return impl_->ask([&](const DeviceBook& book) { return book.fit_device(gpu); });
}

Result<DeviceContext> CudaManager::enter(std::optional<GpuIndex> gpu) {
  std::string fallback;
  GPUWARDEN_TRY(Device wanted, wanted_device(gpu, fallback));
  std::optional<DeviceGuard> guard;
  if (!wanted.is_cpu()) {
    auto entered = guard_of(wanted, impl_->sources().cuda_library);
    if (entered) {
      guard.emplace(std::move(*entered));
    } else {
      fallback = entered.error().message;
      wanted = Device{};
    }
  }
  DeviceContext context(wanted);
  context.fallback_ = std::move(fallback);
  if (wanted.is_cpu()) return context;
  impl_->use(wanted, 1);
  context.hold_ = std::make_shared<DeviceContext::Hold>(impl_, wanted, std::move(guard));
  return context;
}

Result<Device> CudaManager::wanted_device(std::optional<GpuIndex> gpu, std::string& fallback) const {
  if (!gpu) {
    Device best = best_device();
    if (best.is_cpu()) fallback = problem();
    return best;
  }
  auto found = device(*gpu);
  if (found || found.error().code == ErrorCode::invalid_argument) return found;
  fallback = found.error().message;
  return Device{};
}

Result<WorkDone> CudaManager::run(const std::string& operation, const Work& work, std::optional<GpuIndex> first,
                                  const std::stop_token& stop) {
  Device device = best_device();
  if (first) {
    GPUWARDEN_TRY(device, this->device(*first));
  }
  const auto kept = impl_;
  WorkDone done;
  std::vector<GpuIndex> tried;
  for (;;) {
    const auto result = kept->attempt(operation, work, device, stop, done.failures);
    done.device = device;
    if (result) return done;
    const auto next = kept->next_device(operation, result.error(), device, tried);
    const bool go_on = next && !stop.stop_requested();
    // with_retries() has told of each failure but the last.
    if (go_on) done.failures.back().failover = *next;
    kept->tell(done.failures.back());
    if (!go_on) return std::unexpected(result.error());
    device = *next;
  }
}

Result<void> CudaManager::report_error(GpuIndex gpu, const std::string& operation, const Error& error) {
  GPUWARDEN_CHECK(impl_->ask([&](const DeviceBook& book) { return book.check_managed(gpu); }));
  const auto kept = impl_;
  const Device device = *kept->ask([&](const DeviceBook& book) { return book.find(gpu); });
  kept->mark(device, operation, error);
  kept->tell({device, operation, error, 1, false, kept->best({gpu})});
  return {};
}

Result<void> CudaManager::disable(GpuIndex gpu, const std::string& reason) {
  const auto kept = impl_;
  return kept->change([&](DeviceBook& book) -> Result<void> {
    GPUWARDEN_CHECK(book.check_managed(gpu));
    book.disable(gpu, reason, kept->clock().wall_now());
    return {};
  });
}

Result<void> CudaManager::enable(GpuIndex gpu) {
  const auto kept = impl_;
  return kept->change([&](DeviceBook& book) -> Result<void> {
    GPUWARDEN_CHECK(book.check_managed(gpu));
    book.enable(gpu);
    return {};
  });
}

void CudaManager::check() {
  const auto kept = impl_;
  kept->observe(kept->read({}));
}
void CudaManager::observe(const telemetry::Reading& reading) {
  const auto kept = impl_;
  kept->observe(reading);
}

void CudaManager::add_error_callback(std::function<void(const DeviceError&)> callback) {
  const std::scoped_lock lock(impl_->mutex_);
  impl_->error_callbacks_.push_back(std::move(callback));
}
void CudaManager::add_state_callback(std::function<void(const DeviceStatus&, const DeviceStatus&)> callback) {
  const std::scoped_lock lock(impl_->mutex_);
  impl_->state_callbacks_.push_back(std::move(callback));
}

}  // namespace gpuwarden::manager
