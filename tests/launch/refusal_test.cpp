// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/launch/report.hpp"

namespace gpuwarden::launch {
namespace {

TEST(Refusal, NamesTheGpusInTroubleAmongThoseThatCouldHaveServed) {
  using Kind = placement::Verdict::Kind;
  placement::Decision refused;
  const auto verdict = [&](Kind kind, std::uint32_t index, const std::string& reason) {
    placement::Verdict one;
    one.kind = kind;
    one.device.index = GpuIndex{index};
    one.device.uuid = Uuid("GPU-" + std::to_string(index));
    one.reason = reason;
    refused.verdicts.push_back(one);
  };
  verdict(Kind::unhealthy, 0, "Xid 79");
  verdict(Kind::leased, 1, "ann has it");
  verdict(Kind::disabled, 2, "fan is loud");
  const auto json = refusal_to_json(refused, {ErrorCode::unsatisfied, "no GPUs", "wait"}, true, 1);
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["error"]["code"], "unsatisfied");
  EXPECT_EQ(json["error"]["hint"], "wait");
  ASSERT_EQ(json["gpus_in_trouble"].size(), 2U);
  EXPECT_EQ(json["gpus_in_trouble"][0]["cause"], "Xid 79");
  EXPECT_EQ(json["gpus_in_trouble"][1]["index"], 2);
}

}  // namespace
}  // namespace gpuwarden::launch
