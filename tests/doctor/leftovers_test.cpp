// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/leftovers.hpp"

#include "gpuwarden/knowledge/compatibility.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::doctor {
namespace {

TEST(Leftovers, OfARunAreOneFindingWithItsGpusAndTheCommandThatEndsThem) {
  const facts::Snapshot snapshot = testing::fleet(4);
  std::vector<facts::Lease> leases;
  for (const std::size_t gpu : {0U, 1U, 3U})
    leases.push_back({snapshot.gpus[gpu].gpu.uuid, false, {{.pid = Pid{7}, .run_id = "run-1", .orphaned = gpu != 3}}});
  Examination examination;
  add_leftovers(examination, snapshot, leases);
  ASSERT_EQ(examination.findings.size(), 1U) << "a run that is supervised has none";
  EXPECT_EQ(examination.findings[0].id, kLeftovers);
  EXPECT_EQ(examination.findings[0].title, "what is left of the run run-1 (pid 7) holds GPUs 0-1");
  EXPECT_EQ(examination.findings[0].fix, std::vector<std::string>{"gpuwarden run --end-leftovers run-1"});
  Examination skipped;
  add_leftovers(skipped, snapshot, leases, {.skip = {std::string(kLeftovers)}});
  EXPECT_TRUE(skipped.findings.empty());
}

}  // namespace
}  // namespace gpuwarden::doctor
