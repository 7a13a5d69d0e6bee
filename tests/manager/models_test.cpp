// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/models.hpp"

#include "gpuwarden/planning/gguf.hpp"
#include "support/gguf.hpp"
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

GgufFile tiny(std::uint32_t parts) {
  GgufFile file("llama");
  file.own("embedding_length", 256).own("block_count", 1).own("attention.head_count", 4).number("split.count", parts);
  file.tensor("token_embd.weight", {256, 100}, 1, 51'200);
  return file;
}

TEST(LoadModel, AFileOfLlamaCppIsOpened) {
  const TempDir dir;
  put(dir / "blobs/sha256-abc", tiny(1).whole());
  EXPECT_EQ(load_model((dir / "blobs/sha256-abc").string())->hidden, 256U) << "as ollama keeps them";
  put(dir / "one/tiny.gguf", tiny(1).whole());
  const auto model = load_model((dir / "one/tiny.gguf").string());
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->name, "tiny");
  EXPECT_EQ(model->file->embedding, 51'200);
  EXPECT_EQ(load_model((dir / "one").string())->name, "tiny") << "its folder";
  put(dir / "one/another.gguf", tiny(1).whole());
  EXPECT_THAT(load_model((dir / "one").string()).error().message, HasSubstr("holds 2 models' files"));
  EXPECT_THAT(load_model("/nowhere/Llama-3.1-8B-Instruct-Q4_K_M.gguf")->quantization, "Q4_K_M") << "by its name";
}

TEST(LoadModel, PartsOfAFileAreOne) {
  const TempDir dir;
  GgufFile second("llama");
  second.tensor("output.weight", {256, 100}, 1, 51'200);
  put(dir / "big-00001-of-00002.gguf", tiny(2).whole());
  const auto lacking = load_model((dir / "big-00001-of-00002.gguf").string());
  EXPECT_THAT(lacking.error().message, HasSubstr("big-00002-of-00002.gguf: part 2 of 2 is not there"));
  put(dir / "big-00002-of-00002.gguf", second.whole());
  for (const char* part : {"big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "."}) {
    const auto model = load_model((dir / part).string());
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ(model->stated_parameters, 2U * 256 * 100) << part;
  }
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
