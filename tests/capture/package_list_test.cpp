// SPDX-License-Identifier: Apache-2.0
// Lists of Python's packages as their tools print them.
#include "capture/package_list.hpp"

#include "gpuwarden/capture/capture.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::SizeIs;

facts::PythonEnvironment python_of(std::string_view text) {
  const auto capture = read_capture(text, "packages.txt");
  EXPECT_THAT(capture, IsOk()) << text;
  if (!capture || !capture->snapshot.environment || capture->snapshot.environment->pythons.empty()) return {};
  return capture->snapshot.environment->pythons[0];
}

std::string version_in(const facts::PythonEnvironment& python, std::string_view name) {
  const auto* package = facts::find_package(python, name);
  return package == nullptr ? "" : package->version;
}

TEST(PackageList, PipFreezeWithWheelsOfOtherPlaces) {
  const auto python = python_of(
      "aiohttp==3.9.1\n"
      "Flash_Attn==2.6.3\n"
      "torch @ https://example.org/whl/cu121/torch-2.1.0%2Bcu121-cp310-cp310-linux_x86_64.whl#sha256=00\n"
      "-e git+https://example.org/vllm.git@abc#egg=vllm\n");
  EXPECT_EQ(version_in(python, "flash-attn"), "2.6.3");
  EXPECT_EQ(version_in(python, "torch"), "2.1.0+cu121");
  EXPECT_THAT(python.packages, SizeIs(2)) << "only what matters to GPU software, only with a version";
}

TEST(PackageList, PipListIsATable) {
  const auto python = python_of(
      "Package            Version        Editable project location\n"
      "------------------ -------------- -------------------------\n"
      "nvidia-cudnn-cu12  9.1.0.70\n"
      "requests           2.31.0\n"
      "vllm               0.6.3          /home/ada/vllm\n");
  EXPECT_EQ(version_in(python, "nvidia-cudnn-cu12"), "9.1.0.70");
  EXPECT_EQ(version_in(python, "vllm"), "0.6.3");
  EXPECT_THAT(python.packages, SizeIs(2));
}

TEST(PackageList, ARowPickedOutWithGrepIsEnoughAndASentenceIsNot) {
  EXPECT_EQ(version_in(python_of("torch                    2.3.1\n"), "torch"), "2.3.1");
  EXPECT_FALSE(read_capture("torch 2.3.1\n", "prose"));
  EXPECT_FALSE(read_capture("torch 2.3.1 works here\n", "prose"));
}

TEST(PackageList, ARequirementInALineOfItsOwnIsEnough) {
  EXPECT_EQ(version_in(python_of("GPU 0: NVIDIA L4 (UUID: GPU-1)\ntorch==2.9.1+cu130\n"), "torch"), "2.9.1+cu130");
  EXPECT_FALSE(read_capture("try torch==2.9.1+cu130 instead\n", "prose"));
}

TEST(PackageList, CondaTellsCudaInItsBuild) {
  const auto python = python_of(
      "# packages in environment at /opt/conda:\n#\n"
      "# Name                    Version                   Build  Channel\n"
      "numpy                     1.26.4          py311h24aa872_0  \n"
      "pytorch                   2.1.2           py3.11_cuda12.1_cudnn8.9.2_0    pytorch\n");
  EXPECT_EQ(version_in(python, "torch"), "2.1.2");
  EXPECT_EQ(facts::find_package(python, "torch")->manager, "conda");
  EXPECT_EQ(python.torch_cuda, "12.1");
}

TEST(PackageList, CudaOfCondaBuilds) {
  EXPECT_EQ(facts::cuda_of_build("cuda126_py312h1234567_200"), "12.6");
  EXPECT_EQ(facts::cuda_of_build("py3.7_cuda10.0.130_cudnn7.4.1_1"), "10.0");
  EXPECT_EQ(facts::cuda_of_build("cpu_generic_py312_0"), "") << "built without CUDA";
  EXPECT_EQ(facts::cuda_of_build("py311h24aa872_0"), std::nullopt);
  EXPECT_EQ(facts::cuda_of_build("cuda_0"), std::nullopt);
}

TEST(PackageList, PipShowNamesItsPackageFirst) {
  const auto python = python_of("Name: torch\nVersion: 2.5.1\nSummary: Tensors\n");
  EXPECT_EQ(version_in(python, "torch"), "2.5.1");
  EXPECT_FALSE(read_capture("Name: torch\nSummary: Tensors\nVersion: 2.5.1\n", "not together"));
}

TEST(PackageList, ACutRowHasNoVersion) {
  EXPECT_EQ(version_in(python_of("numpy==1.26.4\nvllm==0.6.3\ntorch==2.1"), "torch"), "");
}

}  // namespace
}  // namespace gpuwarden::capture
