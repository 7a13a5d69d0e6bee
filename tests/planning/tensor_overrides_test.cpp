// SPDX-License-Identifier: Apache-2.0
#include "planning/tensor_overrides.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::planning {
namespace {

TEST(TensorOverrides, ExpertsOnTheCpuAreSaidInLayers) {
  const std::pair<const char*, const char*> rows[] = {
      {"exps=CPU", "all"},
      {".ffn_.*_exps.=CPU", "all"},
      {"\\.ffn_(up|down|gate)_exps\\.weight=CPU", "all"},
      {"\\.ffn_(up|down|gate)_(ch|)exps=CPU", "all"},
      {"blk\\..*\\.ffn_.*_exps\\.=CPU", "all"},
      {"blk\\.\\d+\\.ffn_.*_exps\\.weight=cpu", "all"},
      {"blk\\.[0-9]+\\.ffn_.*_exps.*=CPU", "all"},
      {"blk\\.([0-9]|1[0-9])\\.ffn_.*_exps\\.=CPU", "20"},
      {"blk\\.[0-9]\\.ffn_.*_exps\\.=CPU", "10"},
      {"blk\\.(0|1|2|3)\\.ffn_.*_exps.=CPU", "4"},
      {"^blk.(2|0|1).ffn_.*_exps.weight$=CPU", "3"},
  };
  for (const auto& [value, layers] : rows) EXPECT_EQ(host_experts_of(value), layers) << value;
}

TEST(TensorOverrides, WhatIsNotTheFirstLayersExpertsIsNotGuessed) {
  for (const char* value : {"exps=CUDA0", "exps", "", "=CPU", "ffn_up_exps=CPU", "\\.ffn_.*=CPU",
                            "blk\\.(2[0-9]|3[0-9])\\.ffn_.*_exps\\.=CPU", "blk\\.1.*\\.ffn_.*_exps=CPU",
                            "token_embd=CPU", "blk\\.0\\.ffn_.*_exps=CPU,exps=CUDA1", "([0-9=CPU",
                            "blk\\.(0|x)\\.ffn_.*_exps=CPU", "blk\\.(0|1\\.ffn_.*_exps=CPU"})
    EXPECT_EQ(host_experts_of(value), std::nullopt) << value;
  EXPECT_EQ(host_experts_of(std::string(5000, 'e') + "=CPU"), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::planning
