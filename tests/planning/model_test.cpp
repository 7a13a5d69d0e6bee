// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/model.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::planning {
namespace {

TEST(ModelShape, KvCacheOfGroupedQueriesCountsKeysAndValuesOfTheKvHeadsOnly) {
  const ModelShape llama{.heads = 32, .kv_heads = 8, .head_dim = 128};
  EXPECT_EQ(query_width(llama), 4096U);
  EXPECT_EQ(key_width(llama), 1024U);
  EXPECT_EQ(kv_elements_per_layer(llama), 2048U);
}

TEST(ModelShape, KvCacheOfLatentAttentionIsTheCompressedVector) {
  // DeepSeek V3: 61 layers x 576 x 2 bytes = 70,272 bytes a token.
  const ModelShape deepseek{
      .layers = 61,
      .heads = 128,
      .latent = {.query_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128}};
  EXPECT_EQ(query_width(deepseek), 128U * 192U);
  EXPECT_EQ(kv_elements_per_layer(deepseek) * 61 * 2, 70272U);
}

TEST(ModelShape, ExpertLayersAreThoseBehindTheDenseOnes) {
  ModelShape model{.layers = 27};
  EXPECT_EQ(expert_layers(model), 0U);
  model.experts = {.experts = 64, .dense_layers = 1};
  EXPECT_EQ(expert_layers(model), 26U);
  model.experts.dense_layers = 40;
  EXPECT_EQ(expert_layers(model), 0U);
}

TEST(DataType, HalfAByteForFourBits) {
  EXPECT_EQ(bytes_per_element(DataType::int4), 0.5);
  EXPECT_EQ(bytes_per_element(DataType::bfloat16), 2);
  EXPECT_EQ(to_string(DataType::float8), "float8");
}

}  // namespace
}  // namespace gpuwarden::planning
