// SPDX-License-Identifier: Apache-2.0
// Makes a TorchScript module faster for inference: channels_last, 16 bits, freezing, fused and packed weights. Each
// step is kept only where it was measured to help and the output stays close to the original's. Headers alone.
#pragma once

#include <torch/script.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuwarden::libtorch {

struct OptimizeOptions {
  int rounds = 20;           ///< of which the median counts; both are run in turns
  double least_gain = 0.03;  ///< of the time; what gains less is left out
  double tolerance = 1e-2;   ///< largest error, as a share of the original output's largest value
  bool half = true;          ///< try 16 bits on a GPU
};

/// What became of a step.
struct OptimizeStep {
  std::string name;
  bool kept = false;
  double before_microseconds = 0;  ///< median of a run
  double after_microseconds = 0;
  double error = 0;    ///< as OptimizeOptions::tolerance has it
  std::string reason;  ///< why it was left out; empty where it was kept
};

/// A module and how its inputs have to be prepared. The module that was handed in is never changed.
class OptimizedModule {
 public:
  torch::Tensor operator()(const std::vector<torch::Tensor>& inputs) {
    const c10::InferenceMode guard;
    std::vector<torch::jit::IValue> values;
    for (const torch::Tensor& input : inputs) values.emplace_back(prepare_ ? prepare_(input) : input);
    const torch::Tensor output = module_.forward(std::move(values)).toTensor();
    return widen_ && output.scalar_type() != *widen_ ? output.to(*widen_) : output;
  }
  const std::vector<OptimizeStep>& steps() const { return steps_; }

 private:
  friend OptimizedModule optimize(const torch::jit::Module&, const std::vector<torch::Tensor>&, const OptimizeOptions&);
  torch::jit::Module module_;
  std::function<torch::Tensor(const torch::Tensor&)> prepare_;
  std::optional<at::ScalarType> widen_;  ///< what the original's output was
  std::vector<OptimizeStep> steps_;
};

namespace detail {

inline void wait_for(const torch::Tensor& tensor) {
  // A value that the host reads is there.
  if (tensor.is_cuda() && tensor.numel() > 0) tensor.flatten()[0].item();
}

inline double once(OptimizedModule& module, const std::vector<torch::Tensor>& inputs) {
  const auto begin = std::chrono::steady_clock::now();
  wait_for(module(inputs));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

inline double error_of(const torch::Tensor& expected, const torch::Tensor& found) {
  const torch::Tensor a = expected.to(torch::kCPU, torch::kFloat64);
  const torch::Tensor b = found.to(torch::kCPU, torch::kFloat64);
  TORCH_CHECK(a.sizes() == b.sizes(), "the output has another shape");
  if (a.numel() == 0) return 0;
  const double largest = std::max(a.abs().max().item<double>(), 1e-12);
  const double error = (a - b).abs().max().item<double>() / largest;
  TORCH_CHECK(error == error, "the output is not a number");
  return error;
}

}  // namespace detail

/// Throws what the module throws where it does not run on the inputs, and c10::Error where it does not give one tensor.
inline OptimizedModule optimize(const torch::jit::Module& module, const std::vector<torch::Tensor>& inputs,
                                const OptimizeOptions& options = {}) {
  OptimizedModule best;
  best.module_ = module.clone();
  best.module_.eval();
  const torch::Tensor expected = best(inputs).clone();
  best.widen_ = expected.scalar_type();
  const bool on_gpu = expected.is_cuda();
  const bool has_images =
      std::any_of(inputs.begin(), inputs.end(), [](const torch::Tensor& input) { return input.dim() == 4; });

  const auto attempt = [&](const char* name, const std::string& out_of_question,
                           const std::function<void(OptimizedModule&)>& change) {
    OptimizeStep step{.name = name, .reason = out_of_question};
    if (step.reason.empty()) {
      try {
        OptimizedModule candidate = best;
        candidate.module_ = best.module_.clone();
        change(candidate);
        for (int warm = 0; warm < 3; ++warm) candidate(inputs);  // the profiling executor compiles in these
        step.error = detail::error_of(expected, candidate(inputs));
        std::vector<double> before;
        std::vector<double> after;
        for (int round = 0; round < std::max(options.rounds, 3); ++round) {
          before.push_back(detail::once(best, inputs));
          after.push_back(detail::once(candidate, inputs));
        }
        step.before_microseconds = detail::median(std::move(before));
        step.after_microseconds = detail::median(std::move(after));
        if (step.error > options.tolerance)
          step.reason = "the output differs too much";
        else if (step.after_microseconds > step.before_microseconds * (1 - options.least_gain))
          step.reason = "it does not help";
        step.kept = step.reason.empty();
        if (step.kept) {
          candidate.steps_ = best.steps_;
          best = std::move(candidate);
        }
      } catch (const std::exception& failure) {
        const std::string words = failure.what();
        step.reason = "it failed: " + words.substr(0, words.find('\n'));
      }
    }
    best.steps_.push_back(std::move(step));
  };

  const auto parameters_of = [](torch::jit::Module& changed, const auto& change) {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor parameter : changed.parameters()) parameter.set_data(change(parameter));
  };
  attempt("channels_last", has_images ? "" : "no input has four dimensions", [&](OptimizedModule& candidate) {
    // The clone shares its tensors with the original.
    parameters_of(candidate.module_, [](const torch::Tensor& one) {
      return one.dim() == 4 ? one.detach().clone(torch::MemoryFormat::ChannelsLast) : one.detach();
    });
    candidate.prepare_ = [before = candidate.prepare_](const torch::Tensor& input) {
      const torch::Tensor prepared = before ? before(input) : input;
      return prepared.dim() == 4 ? prepared.contiguous(torch::MemoryFormat::ChannelsLast) : prepared;
    };
  });
  attempt("half",
          !options.half ? "it was not asked for"
          : on_gpu      ? ""
                        : "a CPU is no faster in 16 bits",
          [&](OptimizedModule& candidate) {
            candidate.module_ = candidate.module_.deepcopy();
            candidate.module_.to(torch::kHalf);
            candidate.prepare_ = [before = candidate.prepare_](const torch::Tensor& input) {
              const torch::Tensor prepared = before ? before(input) : input;
              return prepared.is_floating_point() ? prepared.to(torch::kHalf) : prepared;
            };
          });
  attempt("freeze", "", [&](OptimizedModule& candidate) { candidate.module_ = torch::jit::freeze(candidate.module_); });
  const bool frozen = best.steps_.back().kept;
  attempt("optimize_for_inference", "", [&](OptimizedModule& candidate) {
    if (!frozen) candidate.module_ = torch::jit::freeze(candidate.module_);
    candidate.module_ = torch::jit::optimize_for_inference(candidate.module_);
  });
  return best;
}

}  // namespace gpuwarden::libtorch
