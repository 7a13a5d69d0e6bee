// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/plan_question.hpp"

#include <initializer_list>

#include "support/matchers.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using planning::Words;
using ::testing::HasSubstr;

Words words_of(std::initializer_list<std::pair<const char*, std::vector<std::string>>> all, const char* prefix = "") {
  Words words(prefix);
  for (const auto& [name, values] : all) words.set(name, values);
  return words;
}

facts::GpuRecord gpu_of(std::uint32_t index, const char* name, std::uint64_t gib) {
  facts::GpuRecord record;
  record.gpu.index = GpuIndex(index);
  record.gpu.name = name;
  record.sample.memory_total = Bytes(gib << 30U);
  return record;
}

TEST(PlanQuestion, NamedGpusNeedNoMachine) {
  const auto question = read_plan_question(words_of(
      {{"model", {"gpt2"}}, {"gpus", {"2xl4"}}, {"cpus", {"32"}}, {"gpus-per-node", {"4"}}, {"tokens", {"2B"}}}));
  ASSERT_THAT(question, IsOk());
  EXPECT_EQ(question->request.gpus.count, 2U);
  EXPECT_EQ(question->origin.gpus_from, "gpus");
  EXPECT_EQ(question->request.cpus, 32U);
  EXPECT_EQ(question->request.gpus_per_node, 4U);
  EXPECT_EQ(question->request.train_tokens, 2e9);
}

TEST(PlanQuestion, SingleIsOneOfTheGpus) {
  const auto question =
      read_plan_question(words_of({{"params", {"1B"}}, {"gpus", {"8xh100"}}, {"strategy", {"Single"}}}));
  ASSERT_THAT(question, IsOk());
  EXPECT_EQ(question->request.gpus.count, 1U);
}

TEST(PlanQuestion, WhatIsWrongIsToldOfItsWord) {
  const auto refused = [](const Words& words, std::string_view message) {
    EXPECT_THAT(read_plan_question(words), FailsWith(ErrorCode::invalid_argument, HasSubstr(message)));
  };
  refused(words_of({{"gpus", {"l4"}}}), "no model is given");
  refused(words_of({{"model", {"gpt2", "bert"}}}), "one model at a time: 'bert' is the second");
  refused(words_of({{"model", {"gpt2"}}, {"params", {"7B"}}}, "--"), "a model and --params cannot be given together");
  refused(words_of({{"model", {"gpt2"}}, {"hidden", {"64"}}}), "hidden completes params");
  refused(words_of({{"model", {"gpt2"}}, {"cpus", {"0"}}}, "--"), "--cpus must be at least 1");
  refused(words_of({{"model", {"gpt2"}}, {"gpus-per-node", {"many"}}}), "gpus-per-node: 'many'");
  refused(words_of({{"model", {"gpt2"}}, {"gpus", {"0xl4"}}}, "--"), "--gpus: ");
  refused(words_of({{"model", {"gpt2"}}, {"voodoo", {"1"}}}), "unknown option 'voodoo'");
}

class PlanForMachine : public ::testing::Test {
 protected:
  static Result<PlanQuestion> plan_on(const facts::Snapshot& snapshot, const Words& words) {
    GPUWARDEN_TRY(auto question, read_plan_question(words));
    GPUWARDEN_TRY(const auto machine, machine::Machine::open(machine::Captured{snapshot, "a colleague's"}));
    GPUWARDEN_CHECK(plan_for(machine, question));
    return question;
  }
};

TEST_F(PlanForMachine, TheKindWithTheMostMemoryIsPlannedForAndTheOthersAreCounted) {
  facts::Snapshot snapshot;
  snapshot.gpus = {gpu_of(0, "NVIDIA L4", 24), gpu_of(1, "NVIDIA A100-SXM4-80GB", 80),
                   gpu_of(2, "NVIDIA A100-SXM4-80GB", 80)};
  const auto question = plan_on(snapshot, words_of({{"model", {"gpt2"}}}));
  ASSERT_THAT(question, IsOk());
  EXPECT_EQ(question->request.gpus.count, 2U);
  EXPECT_EQ(question->origin.other_gpus, 1U);
  EXPECT_EQ(question->origin.gpus_from, "a colleague's");
  EXPECT_EQ(question->request.cpus, 0U) << "a capture's, which are not known";
  EXPECT_EQ(plan_on(snapshot, words_of({{"model", {"gpt2"}}, {"strategy", {"single"}}}))->request.gpus.count, 1U);
}

TEST_F(PlanForMachine, ACaptureWithoutAGpuIsTheWrongArgument) {
  EXPECT_THAT(plan_on({}, words_of({{"model", {"gpt2"}}})), FailsWith(ErrorCode::invalid_argument, ::testing::_));
}

TEST(ReadWork, WordsAboutAModelNeedOne) {
  EXPECT_THAT(read_work(Words()), IsOk());
  EXPECT_FALSE(read_work(Words())->has_value());
  const auto refused = [](const Words& words, std::string_view message) {
    EXPECT_THAT(read_work(words), FailsWith(ErrorCode::invalid_argument, HasSubstr(message)));
  };
  refused(words_of({{"task", {"lora"}}}, "--"), "--task is about a model, but none is named");
  refused(words_of({{"model", {"gpt2"}}, {"model-size", {"7B"}}}), "model and model-size cannot be used together");
  refused(words_of({{"model", {"gpt2"}}, {"hidden", {"64"}}}), "hidden completes model-size");
  EXPECT_EQ((*read_work(words_of({{"model", {"gpt2"}}, {"task", {"inference"}}})))->settings.task,
            planning::Task::inference);
  EXPECT_TRUE((*read_work(words_of({{"model-size", {"7B"}}})))->settings.trains());
}

}  // namespace
}  // namespace gpuwarden::manager
