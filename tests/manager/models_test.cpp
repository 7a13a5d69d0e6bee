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
  EXPECT_THAT(lacking.error().message, HasSubstr("big-00002-of-00002.gguf: part 2 is not there"));
  put(dir / "big-00002-of-00002.gguf", second.whole());
  for (const char* part : {"big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "."}) {
    const auto model = load_model((dir / part).string());
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ(model->stated_parameters, 2U * 256 * 100) << part;
  }
  put(dir / "renamed.gguf", tiny(2).whole());
  EXPECT_THAT(load_model((dir / "renamed.gguf").string()).error().message, HasSubstr("is one of 2 parts"));
  put(dir / "best-of-breed.gguf", tiny(1).whole());
  EXPECT_THAT(load_model((dir / "best-of-breed.gguf").string()), IsOk());
  put(dir / "lone-00002-of-00002.gguf", second.whole());
  EXPECT_THAT(load_model((dir / "lone-00002-of-00002.gguf").string()).error().message,
              HasSubstr("part 1 is not there"));
}

constexpr std::string_view kManifest = R"({"layers": [
  {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00"},
  {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:abc"}]})";

TEST(LoadModel, WhatOllamaHasIsOpened) {
  const TempDir dir;
  put(dir / "blobs/sha256-abc", tiny(1).whole());
  put(dir / "manifests/registry.ollama.ai/library/odd/1b", kManifest);
  put(dir / "manifests/registry.ollama.ai/somebody/odd/latest", kManifest);
  put(dir / "manifests/hf.co/owner/odd-GGUF/Q4_K_M", kManifest);
  put(dir / "manifests/registry.ollama.ai/library/gone/1b", R"({"layers": [{"digest": 7}]})");
  const ModelDownloads downloads{.stores = {dir / "none", dir / "."}};
  for (const char* name : {"odd:1b", "somebody/odd:latest", "hf.co/owner/odd-GGUF:Q4_K_M"}) {
    const auto model = load_model(name, {}, downloads);
    ASSERT_THAT(model, IsOk());
    EXPECT_TRUE(model->tag);
    EXPECT_EQ(model->name, name);
    EXPECT_EQ(model->file->embedding, 51'200);
  }
  EXPECT_EQ(load_model("odd:1b", {}, downloads)->num_ctx, 0U);
  put(dir / "manifests/registry.ollama.ai/library/odd/long",
      R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:abc"},
                     {"mediaType": "application/vnd.ollama.image.params", "digest": "sha256:def"}]})");
  put(dir / "blobs/sha256-def", R"({"num_ctx": 16384, "stop": ["x"]})");
  EXPECT_EQ(load_model("odd:long", {}, downloads)->num_ctx, 16'384U);
  put(dir / "blobs/sha256-def", R"({"num_ctx": -4})");
  EXPECT_EQ(load_model("odd:long", {}, downloads)->num_ctx, 0U);
  EXPECT_FALSE(load_model("gone:1b", {}, downloads));
  EXPECT_FALSE(load_model("../../library/odd:1b", {}, downloads));
  EXPECT_EQ(load_model("llama3.1:8b", {}, downloads)->name, "meta-llama/Llama-3.1-8B") << "not installed";
}

TEST(LoadModel, WhatHuggingFacesCacheHasIsReadWhereTheCatalogueHasNone) {
  const TempDir dir;
  put(dir / "hub/models--lab--new-9b/refs/main", "cafe");
  put(dir / "hub/models--lab--new-9b/snapshots/beef/config.json", "{}");
  put(dir / "hub/models--lab--new-9b/snapshots/cafe/config.json", kConfig);
  put(dir / "hub/models--lab--new-GGUF/snapshots/f00d/new-Q4_K_M.gguf", tiny(1).whole());
  put(dir / "hub/models--lab--new-GGUF/snapshots/f00d/new-Q4_K_S.gguf", "not whole");
  put(dir / "hub/models--meta-llama--Llama-3.1-8B/snapshots/1/config.json", kConfig);
  const ModelDownloads downloads = model_downloads({{"HF_HOME", dir.path().string()}});
  const auto model = load_model("lab/new-9b", {}, downloads);
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->hidden, 64U) << "the revision that main is";
  EXPECT_EQ(model->name, "lab/new-9b");
  EXPECT_THAT(model->notes, ::testing::Contains(HasSubstr("read from")));
  EXPECT_EQ(load_model("lab/new-GGUF:q4_k_m", {}, downloads)->file->embedding, 51'200);
  EXPECT_EQ(load_model("lab/new-GGUF", {}, downloads)->file->embedding, 51'200) << "of several the Q4_K_M";
  put(dir / "hub/models--bartowski--Llama-3.2-3B-Instruct-GGUF/snapshots/1/mmproj-f16.gguf", "not whole");
  put(dir / "hub/models--bartowski--Llama-3.2-3B-Instruct-GGUF/snapshots/1/sub/x-BF16.gguf", "not whole");
  put(dir / "hub/models--bartowski--Llama-3.2-3B-Instruct-GGUF/snapshots/1/sub/x-Q8_0.gguf", "not whole");
  for (const char* name : {"bartowski/Llama-3.2-3B-Instruct-GGUF", "bartowski/Llama-3.2-3B-Instruct-GGUF:F16"})
    EXPECT_EQ(load_model(name, {}, downloads)->file, nullptr) << "by its name: " << name;
  EXPECT_EQ(load_model("meta-llama/Llama-3.1-8B", {}, downloads)->hidden, 4096U) << "the catalogue's";
  GgufFile second("llama");
  second.tensor("output.weight", {256, 100}, 1, 51'200);
  put(dir / "hub/models--lab--big-GGUF/snapshots/1/big-Q8_0-00001-of-00002.gguf", tiny(2).whole());
  put(dir / "hub/models--lab--big-GGUF/snapshots/1/big-Q8_0-00002-of-00002.gguf", second.whole());
  EXPECT_EQ(load_model("lab/big-GGUF", {}, downloads)->stated_parameters, 2U * 256 * 100) << "parts of one model";
  EXPECT_EQ(load_model("lab/none", {}, downloads).error().code, ErrorCode::not_found);
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
