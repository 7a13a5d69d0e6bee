// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "planning/file_mixes.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

Settings served(Quantization quantization) {
  return {.task = Task::serving, .precision = Precision::bf16, .quantization = quantization};
}

FileWeights file_of(const char* name, Quantization quantization) {
  return file_weights(*find_model(name), served(quantization));
}

TEST(GgmlFormats, HaveTheBitsAWeightThatTheirNamesStandFor) {
  const auto bits = [](GgmlType type) { return 8 * bytes_per_element(type); };
  EXPECT_EQ(bits(GgmlType::f16), 16);
  EXPECT_EQ(bits(GgmlType::q8_0), 8.5);
  EXPECT_EQ(bits(GgmlType::q4_0), 4.5);
  EXPECT_EQ(bits(GgmlType::q2_k), 2.625);
  EXPECT_EQ(bits(GgmlType::q3_k), 3.4375);
  EXPECT_EQ(bits(GgmlType::q4_k), 4.5);
  EXPECT_EQ(bits(GgmlType::q5_k), 5.5);
  EXPECT_EQ(bits(GgmlType::q6_k), 6.5625);
  EXPECT_EQ(bits(GgmlType::iq1_s), 1.5625);
  EXPECT_EQ(bits(GgmlType::iq2_xxs), 2.0625);
  EXPECT_EQ(bits(GgmlType::iq3_xxs), 3.0625);
  EXPECT_EQ(bits(GgmlType::iq4_xs), 4.25);
  EXPECT_EQ(bits(GgmlType::mxfp4), 4.25);
  for (const GgmlFormat& format : ggml_formats()) {
    EXPECT_EQ(find_ggml_format(format.word), &format);
    EXPECT_EQ(&format_of(format.type), &format);
  }
  EXPECT_EQ(find_ggml_format("Q4_K")->type, GgmlType::q4_k);
  EXPECT_EQ(find_ggml_format("q9_0"), nullptr);
}

TEST(FileMixes, AreFoundByTheirTitles) {
  std::set<std::string_view> titles;
  for (const FileMix& mix : file_mixes()) {
    EXPECT_TRUE(titles.insert(mix.title).second) << mix.title;
    EXPECT_EQ(find_mix(mix.kind), &mix);
    EXPECT_EQ(mix_named(mix.title), &mix);
    EXPECT_EQ(to_string(mix.kind), mix.title);
    ASSERT_NE(find_mix(mix.rules), nullptr) << mix.title;
    EXPECT_EQ(find_mix(mix.rules)->base, mix.base) << "a wider mix has its narrower one's formats";
  }
  EXPECT_EQ(mix_named("q4-k-m")->title, "Q4_K_M");
  EXPECT_EQ(mix_named("q5_k")->title, "Q5_K_M");
  EXPECT_EQ(mix_named("q4"), nullptr);
  EXPECT_EQ(find_mix(Quantization::int4), nullptr);
}

TEST(FileMixes, GiveSomeLayersMoreBits) {
  const ModelShape model = testing::llama3_8b();
  const auto down = [&](Quantization mix, std::uint32_t layer) {
    return type_in_mix(*find_mix(mix), model, Role::down, layer);
  };
  // Of 32 layers the first four, the last four, and every third between them.
  std::uint32_t wider = 0;
  for (std::uint32_t layer = 0; layer < 32; ++layer) wider += down(Quantization::q4_k_m, layer) == GgmlType::q6_k;
  EXPECT_EQ(wider, 16U);
  EXPECT_EQ(down(Quantization::q4_k_m, 3), GgmlType::q6_k);
  EXPECT_EQ(down(Quantization::q4_k_m, 4), GgmlType::q4_k);
  EXPECT_EQ(down(Quantization::q4_k_m, 6), GgmlType::q6_k);
  EXPECT_EQ(down(Quantization::q4_k_s, 3), GgmlType::q5_k);
  EXPECT_EQ(down(Quantization::q4_k_s, 4), GgmlType::q4_k);
  EXPECT_EQ(type_in_mix(*find_mix(Quantization::q4_k_m), model, Role::query, 0), GgmlType::q4_k);
  EXPECT_EQ(type_in_mix(*find_mix(Quantization::q4_k_l), model, Role::down, 3), GgmlType::q6_k);
}

TEST(FileMixes, KnowMixtralsExpertsAndModelsOfSeventyBillion) {
  const auto value = [](const char* name, Quantization mix) {
    return type_in_mix(*find_mix(mix), *find_model(name), Role::value, 5);
  };
  EXPECT_EQ(value("mixtral-8x7b-v0.1", Quantization::q4_k_m), GgmlType::q8_0);
  EXPECT_EQ(value("llama-3.1-70b", Quantization::q4_k_s), GgmlType::q5_k);
  EXPECT_EQ(value("llama-3.1-8b", Quantization::q4_k_s), GgmlType::q4_k);
  // Eight heads of queries share those of one key.
  EXPECT_EQ(value("llama-3.1-8b", Quantization::q2_k), GgmlType::q4_k);
  EXPECT_EQ(value("llama-2-7b", Quantization::q2_k), GgmlType::q3_k);
}

TEST(FileMixes, TakeAnotherFormatWhereRowsAreNoWholeBlocks) {
  EXPECT_EQ(whole_blocks(GgmlType::q4_k, 4096), GgmlType::q4_k);
  EXPECT_EQ(whole_blocks(GgmlType::q4_k, 896), GgmlType::q5_0);
  EXPECT_EQ(whole_blocks(GgmlType::q6_k, 2880), GgmlType::q8_0);
  EXPECT_EQ(whole_blocks(GgmlType::iq4_xs, 896), GgmlType::iq4_nl);
  EXPECT_EQ(whole_blocks(GgmlType::q4_k, 100), GgmlType::f16);
}

TEST(FileWeights, TheOutputOfATiedModelIsItsEmbeddingOnceMore) {
  const FileWeights tied = file_of("gemma-2-2b", Quantization::q4_k_m);
  EXPECT_GT(tied.copied, 0);
  EXPECT_GT(tied.output, tied.embedding);
  // "CPU buffer size = 1640.62 MiB" of Command-R, whose embedding is also its output (ggml-org/llama.cpp#6122).
  EXPECT_NEAR(file_of("c4ai-command-r-v01", Quantization::q4_k_s).embedding / (1U << 20U), 1640.62, 0.01);
  const FileWeights apart = file_of("llama-3.1-8b", Quantization::q4_k_m);
  EXPECT_EQ(apart.copied, 0);
  // "CPU buffer size = 281.81 MiB".
  EXPECT_NEAR(apart.embedding / (1U << 20U), 281.81, 0.01);
}

TEST(FileWeights, OfMxfp4sExpertsStayWhatTheyAre) {
  const double narrow = file_of("gpt-oss-20b", Quantization::q2_k).file();
  const double wide = file_of("gpt-oss-20b", Quantization::q8_0).file();
  EXPECT_LT(wide / narrow, 1.1) << "all but the experts differs";
}

TEST(FileWeights, OtherQuantizationsAreSpreadOverLayersAsTheyAre) {
  const ModelShape model = testing::llama3_8b();
  const FileWeights whole = file_weights(model, served(Quantization::none));
  EXPECT_NEAR(whole.file(), 2.0 * static_cast<double>(count_parameters(model).total), 1e6);
  const FileWeights packed = file_weights(model, served(Quantization::int4));
  EXPECT_LT(packed.layers[0], whole.layers[0] / 3);
  EXPECT_EQ(packed.embedding, whole.embedding);
}

TEST(FileWeights, AreNotTrained) {
  Settings settings = served(Quantization::q4_k_m);
  EXPECT_TRUE(estimate(testing::llama3_8b(), settings));
  settings.task = Task::adapters;
  const auto refused = estimate(testing::llama3_8b(), settings);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("nothing is trained beside a GGUF file's weights"));
}

TEST(FileWeights, AnotherProgramDividesTheFileEvenly) {
  Settings settings = served(Quantization::q4_k_m);
  const ModelShape model = testing::llama3_8b();
  const double one = estimate(model, settings)->peak_moment().at(Use::weights);
  EXPECT_NEAR(one, file_weights(model, settings).file(), 1);
  settings.parallel.tensor = 2;
  EXPECT_NEAR(estimate(model, settings)->peak_moment().at(Use::weights), one / 2, 1e6);
}

}  // namespace
}  // namespace gpuwarden::planning
