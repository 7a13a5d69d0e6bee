// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/variables.hpp"

#include <algorithm>

namespace gpuwarden::knowledge {
namespace {

TEST(KnownVariables, AreManyAndEachIsExplainedWithItsSource) {
  EXPECT_GE(known_variables().size(), 60U);
  for (const auto& one : known_variables()) {
    EXPECT_EQ(one.name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"), std::string_view::npos) << one.name;
    for (const auto text : {one.meaning, one.when}) {
      EXPECT_TRUE(text.ends_with('.')) << one.name << ": " << text;
      EXPECT_TRUE(std::ranges::all_of(text, [](unsigned char c) { return c >= ' ' && c < 127; })) << one.name;
    }
    EXPECT_FALSE(one.values.empty() || one.default_value.empty() || one.source.empty()) << one.name;
  }
}

TEST(KnownVariables, AreFoundInAnyLetterCase) {
  const auto* found = find_known_variable("nccl_socket_ifname");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(found->software, "nccl");
  EXPECT_EQ(find_known_variable("NCCL_SOCKET"), nullptr);
  EXPECT_EQ(find_known_variable(""), nullptr);
}

TEST(KnownVariables, AreFoundByNameAndBySoftware) {
  EXPECT_EQ(find_known_variables({})->size(), known_variables().size());
  const auto some = find_known_variables({"nccl_debug", "VLLM"});
  ASSERT_TRUE(some.has_value());
  EXPECT_EQ((*some)[0]->name, "NCCL_DEBUG");
  ASSERT_GT(some->size(), 1U);
  EXPECT_TRUE(std::all_of(some->begin() + 1, some->end(), [](const auto* one) { return one->software == "vllm"; }));
}

TEST(KnownVariables, AreNamedOnceHoweverOftenTheyAreAskedFor) {
  const auto all = find_known_variables({"nccl"});
  const auto again = find_known_variables({"nccl", "NCCL_DEBUG", "nccl_debug", "NCCL"});
  ASSERT_TRUE(all.has_value() && again.has_value());
  EXPECT_EQ(*again, *all);
  EXPECT_EQ(find_known_variables({"NCCL_DEBUG", "nccl"})->size(), all->size());
}

TEST(KnownVariables, AnUnknownWordNamesTheNearest) {
  const auto none = find_known_variables({"NCCL_DEBUG", "nccl_socket_ifnam"});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(none.error().message, "nothing is known about 'nccl_socket_ifnam'");
  EXPECT_EQ(none.error().hint, "did you mean 'NCCL_SOCKET_IFNAME'?");
}

TEST(KnownVariables, ThoseThatUsersMeetOutsideOfNcclAreExplainedToo) {
  for (const std::string name : {"LD_LIBRARY_PATH",
                                 "LD_PRELOAD",
                                 "PATH",
                                 "PYTORCH_ALLOC_CONF",
                                 "MASTER_ADDR",
                                 "MASTER_PORT",
                                 "WORLD_SIZE",
                                 "LOCAL_RANK",
                                 "HF_HOME",
                                 "HF_TOKEN",
                                 "TOKENIZERS_PARALLELISM",
                                 "TORCH_DISTRIBUTED_DEBUG",
                                 "TRITON_PTXAS_PATH",
                                 "CUDA_MPS_PIPE_DIRECTORY",
                                 "XLA_PYTHON_CLIENT_MEM_FRACTION",
                                 "TF_FORCE_GPU_ALLOW_GROWTH",
                                 "OLLAMA_KEEP_ALIVE",
                                 "SLURM_JOB_GPUS",
                                 "HIP_VISIBLE_DEVICES",
                                 "PET_NPROC_PER_NODE",
                                 "PET_NNODES",
                                 "GPUWARDEN_SIMULATE",
                                 "GPUWARDEN_NUM_GPUS",
                                 "GPUWARDEN_PUBLISH",
                                 "TRANSFORMERS_CACHE",
                                 "UCX_TLS",
                                 "GLOO_SOCKET_IFNAME"})
    EXPECT_NE(find_known_variable(name), nullptr) << name;
  // The newer name and its alias each say which is which.
  EXPECT_TRUE(find_known_variable("PYTORCH_ALLOC_CONF")->meaning.contains("PYTORCH_CUDA_ALLOC_CONF"));
  EXPECT_TRUE(find_known_variable("PYTORCH_CUDA_ALLOC_CONF")->meaning.contains("alias of PYTORCH_ALLOC_CONF"));
}

TEST(KnownVariables, ANameIsReadAsAShellHasIt) {
  for (const std::string typed : {"$LD_LIBRARY_PATH", "${LD_LIBRARY_PATH}", "LD_LIBRARY_PATH=/usr/local/cuda/lib64",
                                  "export LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH"}) {
    const auto found = find_known_variables({typed});
    ASSERT_TRUE(found.has_value()) << typed;
    EXPECT_EQ(found->front()->name, "LD_LIBRARY_PATH") << typed;
  }
}

TEST(KnownVariables, AnUnknownWordThatIsNearNoneNamesThoseOfTheSameWordsElseTheSoftware) {
  const auto hint = [](const std::string& word) { return find_known_variables({word}).error().hint; };
  EXPECT_EQ(hint("VLLM_SOMETHING_ALTOGETHER_DIFFERENT"),
            "the nearest that are known: VLLM_HOST_IP, VLLM_PORT, VLLM_CACHE_ROOT");
  EXPECT_TRUE(hint("QWERTYUIOPASDFGHJKL").contains("nccl, cuda, container, pytorch")) << hint("QWERTYUIOPASDFGHJKL");
}

}  // namespace
}  // namespace gpuwarden::knowledge
