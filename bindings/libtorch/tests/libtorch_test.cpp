// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <stdexcept>

#include "gpuwarden/libtorch/optimize.hpp"
#include "gpuwarden/libtorch/training.hpp"

namespace gpuwarden::libtorch {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "gpuwarden-libtorch-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

TEST(Autocast, ComputesIn16BitsInItsScopeAloneAndNests) {
  const torch::Tensor a = torch::rand({4, 4});
  {
    const Autocast outer(torch::kCPU);
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
    {
      const Autocast inner(torch::kCPU, torch::kHalf);
      EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kHalf);
    }
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat);
}

TEST(Autocast, ForgetsCastWeightsWhenItEnds) {
  torch::Tensor weight = torch::ones({2, 2}).set_requires_grad(true);
  const torch::Tensor input = torch::ones({2, 2});
  for (const float expected : {2.0F, 4.0F}) {
    const Autocast autocast(torch::kCPU);
    EXPECT_EQ(torch::mm(input, weight)[0][0].item<float>(), expected);
    const torch::NoGradGuard no_grad;
    weight.mul_(2);
  }
}

struct Training {
  torch::nn::Linear model{3, 1};
  torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
  void give_gradients(float value) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad() = torch::full_like(parameter, value);
  }
};

TEST(GradScaler, UnscalesOnceAndStepsAsWithoutIt) {
  torch::manual_seed(1);
  Training plain;
  Training scaled;
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < 2; ++i) scaled.model->parameters()[i].copy_(plain.model->parameters()[i]);
  plain.give_gradients(0.5F);
  plain.optimizer.step();
  GradScaler scaler;
  scaled.give_gradients(0.5F * 65536);
  scaler.unscale(scaled.optimizer);
  scaler.unscale(scaled.optimizer);
  EXPECT_TRUE(scaler.step(scaled.optimizer));
  scaler.update();
  EXPECT_TRUE(torch::equal(plain.model->weight, scaled.model->weight));
  EXPECT_EQ(scaler.current_scale(), 65536);
}

TEST(GradScaler, LeavesAStepOutThatOverflowedAndGrowsAgain) {
  Training training;
  GradScaler scaler({.scale = 8, .interval = 2});
  const torch::Tensor before = training.model->weight.detach().clone();
  training.give_gradients(std::numeric_limits<float>::infinity());
  EXPECT_FALSE(scaler.step(training.optimizer));
  scaler.update();
  EXPECT_TRUE(torch::equal(before, training.model->weight));
  EXPECT_EQ(scaler.current_scale(), 4);
  for (int i = 0; i < 2; ++i) {
    training.give_gradients(1);
    EXPECT_TRUE(scaler.step(training.optimizer));
    scaler.update();
  }
  EXPECT_EQ(scaler.current_scale(), 8);
  EXPECT_EQ(scaler.scale(torch::ones({})).item<float>(), 8);
  EXPECT_EQ(GradScaler({.enabled = false}).scale(torch::ones({})).item<float>(), 1);
  EXPECT_THROW(GradScaler({.backoff = 1}), c10::Error);
}

TEST(Accumulation, GradientsOfSeveralBatchesAreThoseOfOneLargeOne) {
  torch::manual_seed(2);
  torch::nn::Linear model(3, 1);
  const torch::Tensor data = torch::rand({8, 3});
  model->forward(data).mean().backward();
  const torch::Tensor whole = model->weight.grad().clone();
  model->zero_grad();
  Accumulation accumulation(4);
  int steps = 0;
  for (const torch::Tensor& part : data.chunk(4)) steps += accumulation.backward(model->forward(part).mean()) ? 1 : 0;
  EXPECT_EQ(steps, 1);
  EXPECT_TRUE(torch::allclose(model->weight.grad(), whole, 1e-5, 1e-7));
  EXPECT_FALSE(accumulation.finish());
  EXPECT_FALSE(accumulation.backward(model->forward(data).mean()));
  EXPECT_TRUE(accumulation.finish()) << "one is left over";
  EXPECT_THROW(Accumulation(0), c10::Error);
}

void train(Training& training, GradScaler& scaler, int steps) {
  for (int i = 0; i < steps; ++i) {
    training.optimizer.zero_grad();
    // The data are random: what is resumed has to go on with the same numbers.
    scaler.scale(training.model->forward(torch::rand({4, 3})).pow(2).mean()).backward();
    scaler.step(training.optimizer);
    scaler.update();
  }
}

TEST(Checkpoint, TrainingGoesOnBitForBit) {
  const Folder folder;
  const fs::path file = folder / "model.pt";
  torch::manual_seed(3);
  Training one;
  GradScaler scaler({.interval = 3});
  EXPECT_EQ(load_checkpoint(file, *one.model, one.optimizer), std::nullopt) << "there is none yet";
  train(one, scaler, 4);
  save_checkpoint(file, *one.model, one.optimizer, 4, &scaler);
  train(one, scaler, 5);

  torch::manual_seed(99);
  Training other;
  GradScaler other_scaler({.interval = 3});
  EXPECT_EQ(load_checkpoint(file, *other.model, other.optimizer, &other_scaler), 4);
  train(other, other_scaler, 5);
  EXPECT_TRUE(torch::equal(one.model->weight, other.model->weight));
  EXPECT_TRUE(torch::equal(one.model->bias, other.model->bias));
  EXPECT_EQ(scaler.current_scale(), other_scaler.current_scale());
  EXPECT_EQ(folder.files(), 1U) << "nothing else is left";
}

TEST(Checkpoint, WhatCannotBeWrittenLeavesTheOneBeforeAndADamagedOneIsRefused) {
  const Folder folder;
  Training training;
  save_checkpoint(folder / "model.pt", *training.model, training.optimizer, 1);
  EXPECT_THROW(save_checkpoint(folder / "none/model.pt", *training.model, training.optimizer, 2), std::exception);
  EXPECT_EQ(folder.files(), 1U);
  EXPECT_EQ(load_checkpoint(folder / "model.pt", *training.model, training.optimizer), 1);
  fs::resize_file(folder / "model.pt", fs::file_size(folder / "model.pt") / 2);
  const torch::Tensor before = training.model->weight.detach().clone();
  EXPECT_THROW(load_checkpoint(folder / "model.pt", *training.model, training.optimizer), c10::Error);
  EXPECT_TRUE(torch::equal(before, training.model->weight));
}

TEST(Prefetcher, FetchesInOrderAheadAndNoFurtherThanAsked) {
  std::atomic<int> fetched = 0;
  Prefetcher<int> batches(
      [&]() -> std::optional<int> { return fetched < 20 ? std::optional(fetched++) : std::nullopt; }, 3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(batches.next(), i);
    EXPECT_LE(fetched.load(), i + 1 + 3 + 1);
  }
  EXPECT_EQ(batches.next(), std::nullopt);
  EXPECT_EQ(batches.next(), std::nullopt);
}

TEST(Prefetcher, WhatTheSourceThrowsComesAfterTheBatchesBeforeIt) {
  int count = 0;
  Prefetcher<int> batches([&]() -> std::optional<int> {
    if (count == 2) throw std::runtime_error("disk is gone");
    return count++;
  });
  EXPECT_EQ(batches.next(), 0);
  EXPECT_EQ(batches.next(), 1);
  EXPECT_THROW(batches.next(), std::runtime_error);
  EXPECT_EQ(batches.next(), std::nullopt);
}

TEST(Prefetcher, EndsAtOnceThoughNobodyTookWhatIsReady) {
  std::atomic<int> fetched = 0;
  {
    const Prefetcher<int> batches([&]() -> std::optional<int> { return fetched++; });
  }
  EXPECT_LE(fetched.load(), 3);
}

TEST(Loader, HasWorkersForTheProcessorsThatItMayUse) {
  EXPECT_GE(usable_processors(), 1U);
  EXPECT_LE(usable_processors(), std::thread::hardware_concurrency());
  EXPECT_EQ(loader_options(16).batch_size(), 16U);
  EXPECT_GE(loader_options(16).workers(), 1U);
  EXPECT_TRUE(torch::equal(to_device(torch::ones({2}), torch::kCPU), torch::ones({2})));
}

torch::jit::Module scripted() {
  torch::jit::Module module("model");
  module.register_parameter("weight", torch::rand({8, 3, 3, 3}), false);
  module.define("def forward(self, x):\n    return torch.relu(torch.conv2d(x, self.weight))\n");
  return module;
}

TEST(Optimize, EveryStepIsMeasuredAndTheOutputStaysTheSame) {
  torch::manual_seed(4);
  torch::jit::Module module = scripted();
  const torch::Tensor input = torch::rand({2, 3, 32, 32});
  const torch::Tensor expected = module.forward({input}).toTensor();
  const torch::Tensor weight = module.attr("weight").toTensor();
  const auto strides = weight.strides().vec();
  auto optimized = optimize(module, {input}, {.rounds = 5});
  EXPECT_TRUE(torch::allclose(optimized({input}), expected, 1e-3, 1e-4));
  ASSERT_EQ(optimized.steps().size(), 4U);
  for (const OptimizeStep& step : optimized.steps()) {
    EXPECT_EQ(step.kept, step.reason.empty()) << step.name;
    if (step.kept) {
      EXPECT_LT(step.after_microseconds, step.before_microseconds) << step.name;
    }
  }
  EXPECT_THAT(optimized.steps()[1].reason, HasSubstr("no faster in 16 bits"));
  EXPECT_EQ(module.attr("weight").toTensor().strides().vec(), strides) << "the original is as it was";
}

TEST(Optimize, NothingIsKeptThatGainsTooLittle) {
  auto optimized = optimize(scripted(), {torch::rand({1, 3, 8, 8})}, {.rounds = 3, .least_gain = 0.9999});
  for (const OptimizeStep& step : optimized.steps()) EXPECT_FALSE(step.kept) << step.name;
  EXPECT_THROW(optimize(scripted(), {torch::rand({1, 5, 8, 8})}), std::exception) << "the module does not take it";
}

}  // namespace
}  // namespace gpuwarden::libtorch
