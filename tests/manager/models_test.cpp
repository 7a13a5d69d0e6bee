// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/models.hpp"

#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

constexpr std::string_view kConfig = R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,
  "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"max_position_embeddings":256})";

TEST(LoadModel, AFileItsFolderAndANameAreModels) {
  const TempDir dir;
  put(dir / "tiny/config.json", kConfig);
  const auto by_file = load_model((dir / "tiny/config.json").string());
  ASSERT_THAT(by_file, IsOk());
  EXPECT_EQ(by_file->hidden, 64U);
  EXPECT_EQ(by_file->name, "tiny") << "the folder's";
  EXPECT_EQ(load_model((dir / "tiny").string())->layers, 2U);
  EXPECT_EQ(load_model("llama 3.1 8b instruct")->name, "meta-llama/Llama-3.1-8B");
}

TEST(LoadModel, AFamilyIsForFiles) {
  const TempDir dir;
  put(dir / "odd.json", kConfig);
  EXPECT_EQ(load_model((dir / "odd.json").string(), "mistral")->family, "mistral");
  EXPECT_EQ(load_model((dir / "odd.json").string())->name, "odd") << "a file with a name of its own has that";
  EXPECT_THAT(load_model((dir / "odd.json").string(), "voodoo"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("voodoo")));
  EXPECT_THAT(load_model("gpt2", "llama"), FailsWith(ErrorCode::invalid_argument, HasSubstr("its own family")));
}

TEST(LoadModel, WhatIsNoModelIsSaidClearly) {
  const TempDir dir;
  put(dir / "empty/readme.txt", "");
  put(dir / "diffusion/model_index.json", "{}");
  put(dir / "lora/adapter_config.json", R"({"base_model_name_or_path":"gpt2"})");
  const auto adapters = load_model((dir / "lora").string());
  EXPECT_THAT(adapters, FailsWith(ErrorCode::invalid_argument, HasSubstr("holds adapters alone")));
  EXPECT_THAT(adapters.error().hint, HasSubstr("base_model_name_or_path"));
  put(dir / "cut/config.json", kConfig.substr(0, 40));
  EXPECT_THAT(load_model(""), FailsWith(ErrorCode::invalid_argument, HasSubstr("no model is given")));
  EXPECT_THAT(load_model((dir / "empty").string()), FailsWith(ErrorCode::not_found, HasSubstr("no config.json")));
  EXPECT_THAT(load_model((dir / "diffusion").string()),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("diffusion pipeline")));
  EXPECT_THAT(load_model((dir / "cut").string()), FailsWith(ErrorCode::corrupt, HasSubstr("ends in the middle")));
  EXPECT_THAT(load_model((dir / "none").string()), FailsWith(ErrorCode::not_found, HasSubstr("none")));
  EXPECT_THAT(load_model("./none"), FailsWith(ErrorCode::not_found, HasSubstr("./none")));
  EXPECT_THAT(load_model("none.json"), FailsWith(ErrorCode::not_found, HasSubstr("none.json")));
  const auto unknown = load_model("llama-3.1-9b");
  EXPECT_THAT(unknown, FailsWith(ErrorCode::not_found, HasSubstr("llama-3.1-9b")));
  EXPECT_THAT(unknown.error().hint, HasSubstr("meta-llama/Llama-3.1"));
}

}  // namespace
}  // namespace gpuwarden::manager
