// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/enable_names.hpp"

#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using ::testing::ElementsAre;
using testing::IsOkAnd;

facts::Disabling word_about(const Uuid& gpu, const std::string& by, bool for_everybody) {
  facts::Disabling word;
  word.uuid = gpu;
  word.by = by;
  word.for_everybody = for_everybody;
  return word;
}

TEST(GpusToEnable, AreThoseOfTheMachineAndThoseThatWereTakenOut) {
  const facts::Snapshot snapshot = testing::fleet(3);
  const Uuid gone("GPU-that-was-taken-out");
  const std::vector<facts::Disabling> out{word_about(gone, "ann", true)};
  EXPECT_THAT(gpus_to_enable({gone.value, "1"}, snapshot, out), IsOkAnd(ElementsAre(gone, snapshot.gpus[1].gpu.uuid)));
  EXPECT_THAT(gpus_to_enable({"0-1"}, snapshot, {}),
              IsOkAnd(ElementsAre(snapshot.gpus[0].gpu.uuid, snapshot.gpus[1].gpu.uuid)));
  EXPECT_FALSE(gpus_to_enable({gone.value}, snapshot, {})) << "nobody said anything of it";
}

TEST(AllToEnable, LeavesRootsWordToRoot) {
  const Uuid roots("GPU-a"), own("GPU-b"), seen("GPU-c");
  const std::vector<facts::Disabling> out{word_about(roots, "root", true), word_about(own, "ann", false),
                                          word_about(seen, "", true)};
  EXPECT_THAT(all_to_enable(out, false), ElementsAre(own, seen));
  EXPECT_THAT(all_to_enable(out, true), ElementsAre(roots, own, seen));
}

}  // namespace
}  // namespace gpuwarden::machine
