// SPDX-License-Identifier: Apache-2.0
// Parts of a training loop for programs on LibTorch (2.4 or newer) that LibTorch has not: mixed precision, gradients
// over several batches, checkpoints that a crash leaves whole, batches fetched ahead. Headers alone; errors are
// c10::Error, as LibTorch's own.
//
//   libtorch::GradScaler scaler;
//   libtorch::Accumulation accumulation(4);
//   while (auto batch = batches.next()) {
//     torch::Tensor loss;
//     {
//       const libtorch::Autocast autocast(device);
//       loss = loss_of(model->forward(batch->data), batch->target);
//     }
//     if (!accumulation.backward(scaler.scale(loss))) continue;
//     scaler.step(optimizer);
//     scaler.update();
//     optimizer.zero_grad();
//   }
#pragma once

#include <ATen/autocast_mode.h>
#include <fcntl.h>
#include <sched.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace gpuwarden::libtorch {

/// Operations that gain by it compute in 16 bits for as long as this lives, as torch.autocast does in Python. Scopes
/// nest; each thread has its own.
class Autocast {
 public:
  /// bfloat16 on the CPU, float16 on a GPU; from Ampere on a GPU computes in bfloat16, too: pass it, and no GradScaler
  /// is needed.
  explicit Autocast(torch::Device device, std::optional<at::ScalarType> type = std::nullopt)
      : device_(device.type()),
        was_enabled_(at::autocast::is_autocast_enabled(device_)),
        previous_(at::autocast::get_autocast_dtype(device_)) {
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, type.value_or(device.is_cuda() ? at::kHalf : at::kBFloat16));
    at::autocast::increment_nesting();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    // Weights that were cast are kept until the outermost scope ends: the optimizer changes the originals.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_dtype(device_, previous_);
    at::autocast::set_autocast_enabled(device_, was_enabled_);
  }

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  at::ScalarType previous_;
};

/// Keeps small gradients from vanishing in float16: the loss is scaled up, the gradients are scaled down again, and a
/// step whose gradients overflowed is left out. The algorithm and its defaults are those of torch.amp.GradScaler
/// (Micikevicius et al., "Mixed Precision Training", arXiv 1710.03740, section 3.2). bfloat16 needs none.
class GradScaler {
 public:
  struct Options {
    double scale = 65536;  ///< to begin with
    double growth = 2;     ///< after `interval` steps without an overflow
    double backoff = 0.5;  ///< after one
    std::int64_t interval = 2000;
    bool enabled = true;  ///< else everything passes as it is
  };
  GradScaler() : GradScaler(Options{}) {}
  explicit GradScaler(Options options) : options_(options), scale_(options.scale) {
    TORCH_CHECK_VALUE(
        options.scale > 0 && options.growth > 1 && options.backoff > 0 && options.backoff < 1 && options.interval > 0,
        "GradScaler: scale > 0, growth > 1, 0 < backoff < 1 and interval > 0 are required");
  }

  torch::Tensor scale(const torch::Tensor& loss) const { return options_.enabled ? loss * scale_ : loss; }

  /// Scales the gradients down, once a step: call it before they are clipped; step() does it otherwise.
  void unscale(torch::optim::Optimizer& optimizer) {
    if (!options_.enabled || !unscaled_.insert(&optimizer).second) return;
    const torch::NoGradGuard no_grad;
    for (auto& group : optimizer.param_groups()) {
      for (auto& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        torch::Tensor gradient = parameter.mutable_grad();
        gradient.mul_(1 / scale_);
        if (!torch::isfinite(gradient).all().item<bool>()) overflowed_.insert(&optimizer);
      }
    }
  }

  /// The optimizer's step, unless its gradients overflowed. Whether it was made.
  bool step(torch::optim::Optimizer& optimizer) {
    unscale(optimizer);
    if (overflowed_.contains(&optimizer)) return false;
    optimizer.step();
    return true;
  }

  /// Once for all optimizers, after their steps.
  void update() {
    if (!options_.enabled) return;
    if (!overflowed_.empty()) {
      scale_ *= options_.backoff;
      good_steps_ = 0;
    } else if (++good_steps_ >= options_.interval) {
      scale_ *= options_.growth;
      good_steps_ = 0;
    }
    unscaled_.clear();
    overflowed_.clear();
  }

  double current_scale() const { return scale_; }
  std::int64_t good_steps() const { return good_steps_; }
  void restore(double scale, std::int64_t good_steps) {
    scale_ = scale;
    good_steps_ = good_steps;
  }

 private:
  Options options_;
  double scale_;
  std::int64_t good_steps_ = 0;
  std::set<const torch::optim::Optimizer*> unscaled_;
  std::set<const torch::optim::Optimizer*> overflowed_;
};

/// Adds the gradients of several batches up before a step, so that small batches train as a large one.
class Accumulation {
 public:
  explicit Accumulation(std::int64_t batches) : batches_(batches) {
    TORCH_CHECK_VALUE(batches > 0, "Accumulation: at least one batch a step, not ", batches);
  }
  /// Adds the gradients of the mean over the batches. Whether the step is due.
  bool backward(const torch::Tensor& loss) {
    (loss / static_cast<double>(batches_)).backward();
    done_ = (done_ + 1) % batches_;
    return done_ == 0;
  }
  /// Whether batches are left over for which no step was made yet, as at the end of an epoch. Begins anew.
  bool finish() { return std::exchange(done_, 0) != 0; }

 private:
  std::int64_t batches_;
  std::int64_t done_ = 0;
};

namespace detail {

inline void sync(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  TORCH_CHECK(fd >= 0, path.string(), ": ", std::strerror(errno));
  const int failed = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  TORCH_CHECK(failed == 0, path.string(), ": ", std::strerror(failed));
}

inline at::Generator cpu_generator() { return at::detail::getDefaultCPUGenerator(); }

}  // namespace detail

/// Writes model, optimizer, scaler, the CPU's random numbers and the step. The file is replaced at once: who dies while
/// he writes leaves the one before.
inline void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& model,
                            const torch::optim::Optimizer& optimizer, std::int64_t step,
                            const GradScaler* scaler = nullptr) {
  torch::serialize::OutputArchive whole;
  torch::serialize::OutputArchive model_part;
  model.save(model_part);
  whole.write("model", model_part);
  torch::serialize::OutputArchive optimizer_part;
  optimizer.save(optimizer_part);
  whole.write("optimizer", optimizer_part);
  whole.write("step", torch::tensor(step, torch::kInt64));
  auto generator = detail::cpu_generator();
  {
    const std::scoped_lock lock(generator.mutex());
    whole.write("random", generator.get_state());
  }
  if (scaler != nullptr) {
    whole.write("scale", torch::tensor(scaler->current_scale(), torch::kFloat64));
    whole.write("good_steps", torch::tensor(scaler->good_steps(), torch::kInt64));
  }
  const std::filesystem::path made = file.string() + "." + std::to_string(::getpid()) + ".tmp";
  try {
    whole.save_to(made.string());
    detail::sync(made);
    std::filesystem::rename(made, file);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(made, ignored);
    throw;
  }
  detail::sync(file.has_parent_path() ? file.parent_path() : std::filesystem::path("."));
}

/// The step of the checkpoint, from which training goes on as if it had not stopped; nothing where there is no file.
/// Fails with c10::Error where the file is damaged or of another model.
inline std::optional<std::int64_t> load_checkpoint(const std::filesystem::path& file, torch::nn::Module& model,
                                                   torch::optim::Optimizer& optimizer, GradScaler* scaler = nullptr) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  torch::serialize::InputArchive whole;
  whole.load_from(file.string(), torch::kCPU);
  torch::serialize::InputArchive model_part;
  whole.read("model", model_part);
  torch::serialize::InputArchive optimizer_part;
  whole.read("optimizer", optimizer_part);
  torch::Tensor step;
  whole.read("step", step);
  torch::Tensor random;
  whole.read("random", random);
  const torch::Device device =
      model.parameters().empty() ? torch::Device(torch::kCPU) : model.parameters().front().device();
  model.load(model_part);
  model.to(device);
  optimizer.load(optimizer_part);
  if (scaler != nullptr) {
    torch::Tensor scale;
    torch::Tensor good_steps;
    whole.read("scale", scale);
    whole.read("good_steps", good_steps);
    scaler->restore(scale.item<double>(), good_steps.item<std::int64_t>());
  }
  auto generator = detail::cpu_generator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(random);
  return step.item<std::int64_t>();
}

/// The processors that this process may use: its affinity, and in a container the share that its cgroup has.
inline std::size_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::size_t count = std::max(1U, std::thread::hardware_concurrency());
  if (::sched_getaffinity(0, sizeof set, &set) == 0) count = static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (file >> quota >> period && period > 0)
    count = std::min(count, static_cast<std::size_t>(std::max(1.0, quota / period)));
  return count;
}

/// For torch::data: a worker for each processor but one, eight at most, and two batches ahead for each.
inline torch::data::DataLoaderOptions loader_options(std::size_t batch_size) {
  const std::size_t workers = std::clamp<std::size_t>(usable_processors() - 1, 1, 8);
  return torch::data::DataLoaderOptions(batch_size).workers(workers).max_jobs(2 * workers);
}

/// To the GPU without waiting for it, through pinned memory; on the CPU what torch::Tensor::to does.
inline torch::Tensor to_device(const torch::Tensor& tensor, torch::Device device) {
  if (!device.is_cuda() || tensor.is_cuda()) return tensor.to(device);
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

/// Fetches batches ahead in a thread of its own: whoever computes does not wait for who reads. What the source throws
/// comes out of next(), after the batches before it.
template <class Batch>
class Prefetcher {
 public:
  using Source = std::function<std::optional<Batch>()>;

  explicit Prefetcher(Source source, std::size_t depth = 2)
      : source_(std::move(source)), depth_(depth), thread_([this](const std::stop_token& stop) { fetch(stop); }) {
    TORCH_CHECK_VALUE(depth > 0, "Prefetcher: at least one batch ahead");
  }

  /// The next batch; nothing at the end.
  std::optional<Batch> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || ended_; });
    if (ready_.empty()) {
      if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
      return std::nullopt;
    }
    std::optional<Batch> batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }

 private:
  void fetch(const std::stop_token& stop) {
    for (bool ended = false; !ended;) {
      std::exception_ptr failed;
      try {
        if (std::optional<Batch> batch = source_()) {
          const std::scoped_lock lock(mutex_);
          ready_.push_back(std::move(*batch));
        } else {
          ended = true;
        }
      } catch (...) {
        failed = std::current_exception();
        ended = true;
      }
      std::unique_lock lock(mutex_);
      failed_ = failed;
      ended_ = ended;
      changed_.notify_all();
      if (!changed_.wait(lock, stop, [&] { return ended || ready_.size() < depth_; })) return;
    }
  }

  Source source_;
  std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failed_;
  bool ended_ = false;
  std::jthread thread_;  // the last: it ends before what it uses
};

}  // namespace gpuwarden::libtorch
