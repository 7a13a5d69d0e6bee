// SPDX-License-Identifier: Apache-2.0
// Libraries, toolkits and compilers of a machine made of files.
#include <gmock/gmock.h>

#include <algorithm>

#include "probe/loader_cache.hpp"
#include "probe/machine_tree.hpp"

namespace gpuwarden {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::loader_cache;
using testing::MachineTree;
using Texts = std::vector<std::string>;

constexpr const char* kLib = "/usr/lib/x86_64-linux-gnu";

/// "NAME VERSION ORIGIN" of each library.
Texts libraries(const facts::Environment& environment) {
  Texts texts;
  for (const auto& one : environment.libraries)
    texts.push_back(one.name + " " + one.version.value_or("?") + " " + one.origin);
  return texts;
}

/// "VERSION PATH ORIGIN" of each toolkit, with a '*' for the active one.
Texts toolkits(const facts::Environment& environment) {
  Texts texts;
  for (const auto& one : environment.toolkits)
    texts.push_back(one.version + " " + one.path + " " + one.origin + (one.active ? " *" : ""));
  return texts;
}

TEST(SurveyLibraries, FollowTheLoaderPathThenCache) {
  const MachineTree tree;
  const std::string lib = kLib;
  tree.file(lib + "/libcuda.so.550.54.15");
  tree.link(lib + "/libcuda.so.1", "libcuda.so.550.54.15");
  tree.file(lib + "/libnvidia-ml.so.550.54.15");
  tree.link(lib + "/libnvidia-ml.so.1", "libnvidia-ml.so.550.54.15");
  tree.file("/usr/local/cuda-12.4/compat/libcuda.so.560.28.03");
  tree.link("/usr/local/cuda-12.4/compat/libcuda.so.1", "libcuda.so.560.28.03");
  tree.file("/etc/ld.so.cache", loader_cache({lib + "/libcuda.so.1", lib + "/libnvidia-ml.so.1", lib + "/libc.so.6",
                                              lib + "/libcudnn.so.9"}));
  const auto environment = tree.survey({{"LD_LIBRARY_PATH", "relative:/usr/local/cuda-12.4/compat:/no/such"}});
  EXPECT_THAT(libraries(environment), ElementsAre("libcuda.so.1 560.28.03 compat", "libcuda.so.1 550.54.15 ldconfig",
                                                  "libnvidia-ml.so.1 550.54.15 ldconfig"));
  EXPECT_EQ(environment.driver.library_version, "550.54.15");
}

TEST(SurveyLibraries, WithoutACacheTheConfiguredFoldersAreSearched) {
  const MachineTree tree;
  tree.file("/etc/ld.so.conf.d/nvidia.conf", "# NVIDIA\n/opt/nvidia/lib\n");
  tree.file("/opt/nvidia/lib/libcuda.so.535.1.1");
  tree.link("/opt/nvidia/lib/libcuda.so.1", "libcuda.so.535.1.1");
  tree.file("/usr/lib/wsl/lib/libcuda.so.1");
  EXPECT_THAT(libraries(tree.survey()), ElementsAre("libcuda.so.1 535.1.1 ldconfig", "libcuda.so.1 ? wsl"));
}

TEST(SurveyLibraries, StubsAreRecognised) {
  const MachineTree tree;
  tree.file("/usr/local/cuda/lib64/stubs/libcuda.so.1");
  EXPECT_THAT(libraries(tree.survey({{"LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs"}})),
              ElementsAre("libcuda.so.1 ? stubs"));
}

TEST(SurveyLibraries, AVersionThatTheNameLacksIsLookedUpAroundTheFile) {
  const MachineTree tree;
  tree.file("/opt/cuda/lib64/libcudnn.so.9");
  tree.file("/opt/cuda/include/cudnn_version.h",
            "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n");
  tree.file("/opt/cuda/lib64/libnccl.so.2", "ELF NCCL version 2.21.5+cuda12.4");
  tree.file("/venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12");
  tree.pip("/venv/lib/python3.11/site-packages", "nvidia_cublas_cu12", "12.4.5.8");
  const auto environment =
      tree.survey({{"LD_LIBRARY_PATH", "/opt/cuda/lib64:/venv/lib/python3.11/site-packages/nvidia/cublas/lib"}});
  EXPECT_THAT(libraries(environment), ElementsAre("libcudnn 9.1.0 LD_LIBRARY_PATH", "libnccl 2.21.5 LD_LIBRARY_PATH",
                                                  "libcublas 12.4.5.8 LD_LIBRARY_PATH"));
}

TEST(SurveyLibraries, TheDistributionsPackageTellsWhatItsFileDoesNot) {
  const MachineTree tree;
  tree.file(std::string(kLib) + "/libcudnn.so.8");
  tree.file("/var/lib/dpkg/status", "Package: libcudnn8\nStatus: install ok installed\nVersion: 8.9.7.29-1+cuda12.2\n");
  EXPECT_THAT(libraries(tree.survey()), ElementsAre("libcudnn 8.9.7.29 ldconfig"));
}

void add_toolkit(const MachineTree& tree, const std::string& folder, const std::string& version) {
  tree.program(folder + "/bin/nvcc");
  if (!version.empty()) tree.file(folder + "/version.json", R"({"cuda_nvcc":{"version":")" + version + "\"}}");
}

TEST(SurveyToolkits, AreFoundInTheUsualPlacesOnce) {
  const MachineTree tree;
  add_toolkit(tree, "/usr/local/cuda-12.4", "12.4.131");
  add_toolkit(tree, "/usr/local/cuda-11.8", "");
  tree.link("/usr/local/cuda", "cuda-12.4");
  tree.file("/opt/cuda-10.2/version.txt", "CUDA Version 10.2.89\n");
  tree.file("/usr/local/cudaless/readme");
  add_toolkit(tree, "/opt/nvidia/hpc_sdk/Linux_x86_64/24.3/cuda/12.3", "");
  EXPECT_THAT(
      toolkits(tree.survey({{"PATH", "/usr/bin:/usr/local/cuda/bin"}})),
      ElementsAre("12.4.131 /usr/local/cuda-12.4 /usr/local *", "11.8 /usr/local/cuda-11.8 /usr/local",
                  "10.2.89 /opt/cuda-10.2 /opt", "12.3 /opt/nvidia/hpc_sdk/Linux_x86_64/24.3/cuda/12.3 HPC SDK"));
}

TEST(SurveyToolkits, TheFolderThatCudaHomeNamesSaysSo) {
  const MachineTree tree;
  add_toolkit(tree, "/opt/cuda-12.4", "12.4.99");
  tree.link("/opt/cuda", "cuda-12.4");
  EXPECT_THAT(toolkits(tree.survey({{"CUDA_HOME", "/opt/cuda"}})), ElementsAre("12.4.99 /opt/cuda-12.4 CUDA_HOME"));
  EXPECT_THAT(toolkits(tree.survey({{"CUDA_HOME", "/none"}, {"CUDA_PATH", "relative"}})),
              ElementsAre("12.4.99 /opt/cuda-12.4 /opt"));
}

TEST(SurveyToolkits, AFolderThatOnlySoundsLikeAVersionIsNone) {
  const MachineTree tree;
  tree.program("/root/env310/bin/nvcc");
  tree.program("/usr/local/cuda-custom/bin/nvcc");
  EXPECT_THAT(toolkits(tree.survey({{"PATH", "/root/env310/bin"}})), IsEmpty());
  tree.file("/usr/local/cuda-custom/include/cuda.h", "#define CUDA_VERSION 12060\n");
  EXPECT_THAT(toolkits(tree.survey()), ElementsAre("12.6 /usr/local/cuda-custom /usr/local"));
}

TEST(SurveyToolkits, OfCondaAndPipAreFoundInTheirEnvironments) {
  const MachineTree tree;
  tree.file("/root/miniconda3/envs/build/conda-meta/cuda-nvcc-12.1.105-0.json");
  tree.program("/root/miniconda3/envs/build/bin/nvcc");
  const std::string site = "/root/venv/lib/python3.12/site-packages";
  tree.file("/root/venv/pyvenv.cfg", "version = 3.12.1\n");
  tree.pip(site, "nvidia_cuda_nvcc", "13.0.88");
  tree.program(site + "/nvidia/cu13/bin/nvcc");
  tree.file(site + "/nvidia/cu13/include/cuda.h", "#define CUDA_VERSION 13000\n");
  EXPECT_THAT(toolkits(tree.survey()),
              ElementsAre("13.0.88 " + site + "/nvidia/cu13 pip", "12.1.105 /root/miniconda3/envs/build conda"));
}

TEST(SurveyToolkits, OfTheDistributionAndOfModules) {
  const MachineTree tree;
  tree.program("/usr/lib/nvidia-cuda-toolkit/bin/nvcc");
  tree.link("/usr/bin/nvcc", "../lib/nvidia-cuda-toolkit/bin/nvcc");
  tree.file("/usr/include/cuda.h", "#define CUDA_VERSION 11080\n");
  add_toolkit(tree, "/cm/shared/apps/cuda12.4/toolkit/12.4.1", "12.4.131");
  EXPECT_THAT(toolkits(tree.survey({{"PATH", "/usr/bin"}})),
              ElementsAre("11.8 /usr package *", "12.4.131 /cm/shared/apps/cuda12.4/toolkit/12.4.1 module"));
}

TEST(SurveyCompilers, ElsewhereTellTheirMajorVersionByTheFilesName) {
  const MachineTree tree;
  tree.program("/usr/bin/x86_64-linux-gnu-gcc-12");
  tree.link("/usr/bin/gcc", "x86_64-linux-gnu-gcc-12");
  tree.program("/usr/bin/clang");
  const auto compilers = tree.survey({{"PATH", "/bin:/usr/bin"}}).compilers;
  ASSERT_EQ(compilers.size(), 1U);
  EXPECT_EQ(compilers[0], (facts::Compiler{"gcc", "12", "/usr/bin/x86_64-linux-gnu-gcc-12"}));
}

}  // namespace
}  // namespace gpuwarden
