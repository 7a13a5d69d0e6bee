// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/selection.hpp"

#include <algorithm>
#include <map>

#include "support/matchers.hpp"

namespace gpuwarden::placement {
namespace {

using Said = std::map<std::string, std::vector<std::string>>;
Result<void> apply(const Said& said, Request& request) {
  NamedValues values("--");
  for (const auto& [name, words] : said) values.set(name, words);
  return apply_selection(values, request);
}

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;

TEST(ApplySelection, SetsWhatIsSaidAndLeavesTheRest) {
  Request request;
  request.count = 7;
  request.allow_busy = true;
  ASSERT_THAT(apply({{"gpu-ids", {"0-1, 4"}},
                     {"min-memory", {"40GiB"}},
                     {"min-compute-capability", {"8"}},
                     {"max-utilization", {"20%"}},
                     {"name", {"H100"}},
                     {"mig-profile", {"1g.10gb"}},
                     {"share", {}},
                     {"mig", {"false"}},
                     {"model", {"llama-3-8b"}}},
                    request),
              IsOk());
  EXPECT_THAT(request.gpu_ids, ElementsAre(GpuName{"0"}, GpuName{"1"}, GpuName{"4"}));
  EXPECT_EQ(request.min_memory, 40_GiB);
  EXPECT_EQ(request.min_compute_capability, (facts::ComputeCapability{8, 0}));
  EXPECT_EQ(request.max_utilization, Percent(20));
  EXPECT_EQ(request.name_contains, "H100");
  EXPECT_EQ(request.mig_profile, "1g.10gb");
  EXPECT_TRUE(request.shared);
  EXPECT_FALSE(request.mig);
  EXPECT_EQ(request.count, 7U);
  EXPECT_TRUE(request.allow_busy);
}

TEST(ApplySelection, ADeviceIsAGpuWhereNothingElseSaysWhich) {
  Request request;
  ASSERT_THAT(apply({{"device", {"cuda:3"}}}, request), IsOk());
  EXPECT_THAT(request.gpu_ids, ElementsAre(GpuName{"3"}));
  Request named;
  ASSERT_THAT(apply({{"device", {"cuda:3"}}, {"gpu-ids", {"1"}}}, named), IsOk());
  EXPECT_THAT(named.gpu_ids, ElementsAre(GpuName{"1"}));
  Request cpu;
  ASSERT_THAT(apply({{"device", {"cpu"}}}, cpu), IsOk());
  EXPECT_TRUE(cpu.force_cpu);
  ASSERT_THAT(apply({{"device", {"cuda"}}}, cpu), IsOk());
  EXPECT_FALSE(cpu.force_cpu);
}

TEST(ApplySelection, MistakesHaveTheOptionsName) {
  const auto refused = [](const Said& options, const char* message) {
    Request request;
    EXPECT_THAT(apply(options, request), FailsWith(ErrorCode::invalid_argument, HasSubstr(message)));
  };
  refused({{"gpu-ids", {"0,,2"}}}, "--gpu-ids: an empty entry");
  refused({{"exclude", {}}}, "--exclude: no GPU is given");
  refused({{"num-gpus", {"many"}}}, "--num-gpus: 'many' is not a whole number from 0 to 4096");
  refused({{"num-gpus", {"4:2"}}}, "--num-gpus: '4:2' is not a range");
  refused({{"max-utilization", {"50.5"}}}, "--max-utilization: '50.5' is not a whole number");
  refused({{"min-free-memory", {"40"}}}, "--min-free-memory: 40 has no unit");
  refused({{"min-compute-capability", {"new"}}}, "--min-compute-capability: 'new' is not a compute capability");
  refused({{"max-utilization", {"101"}}}, "--max-utilization: '101' is not a whole number from 0 to 100");
  refused({{"device", {"tpu"}}}, "--device: 'tpu' is not cpu, cuda or cuda:N");
}

TEST(ApplySelection, OfARangeTheMostIsSet) {
  Request request;
  ASSERT_THAT(apply({{"num-gpus", {"2:4"}}}, request), IsOk());
  EXPECT_EQ(request.count, 4U);
}

TEST(SelectionNames, SayWhatIsASizeAndWhatAFlag) {
  const auto kind_of = [](std::string_view name) {
    const auto found = std::ranges::find(selection_names(), name, &ValueName::name);
    return found == selection_names().end() ? std::nullopt : std::optional(found->kind);
  };
  EXPECT_EQ(kind_of("min-free-memory"), ValueKind::size);
  EXPECT_EQ(kind_of("share"), ValueKind::flag);
  EXPECT_EQ(kind_of("prefer"), ValueKind::list);
  EXPECT_EQ(kind_of("task"), std::nullopt);
}

/// The least and the most, "2:4"; "-": no range; the message where it fails.
std::string counted(const std::vector<std::pair<std::string, std::string>>& given, Request request = {}) {
  NamedValues values("--");
  for (const auto& [name, value] : given) values.set(name, {value});
  const auto least = apply_count(values, request);
  if (!least) return least.error().message;
  return fmt::format("{}:{}", *least ? std::to_string(**least) : "-",
                     request.count ? std::to_string(*request.count) : "-");
}

TEST(ApplyCount, ARangeOfRanksHasAGpuForEach) {
  EXPECT_EQ(counted({}), "-:-");
  EXPECT_EQ(counted({{"num-gpus", "4"}}), "-:4");
  EXPECT_EQ(counted({{"num-gpus", "2:4"}}), "2:4");
  EXPECT_EQ(counted({{"nproc-per-node", "2:4"}}), "2:4");
  EXPECT_EQ(counted({{"nproc-per-node", "8"}}), "-:-") << "ranks may share GPUs";
  EXPECT_EQ(counted({{"num-gpus", "1:4"}, {"nproc-per-node", "2:4"}}),
            "--num-gpus and --nproc-per-node name different ranges");
  EXPECT_EQ(counted({{"num-gpus", "2:4"}, {"model", "gpt2"}}), "a range of GPUs and a model cannot be used together");
  EXPECT_EQ(counted({{"num-gpus", "2:4"}}, {.gpu_ids = {GpuName{"0"}}}),
            "GPUs that are named and a range of them cannot be used together");
}

}  // namespace
}  // namespace gpuwarden::placement
