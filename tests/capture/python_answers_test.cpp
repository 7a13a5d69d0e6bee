// SPDX-License-Identifier: Apache-2.0
// What Python answered when somebody asked PyTorch, TensorFlow or JAX.
#include "capture/program_report.hpp"

#include "capture/reading.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PythonAnswers, AtThePromptEachQuestionHasTheLineBelow) {
  const auto snapshot = snapshot_of(
      ">>> import torch\n>>> torch.__version__\n'2.6.0+cu124'\n>>> torch.version.cuda\n'12.4'\n"
      ">>> torch.cuda.is_available()\nTrue\n>>> torch.cuda.get_device_name(0)\n'NVIDIA GeForce RTX 5090'\n"
      ">>> torch.cuda.get_arch_list()\n['sm_80', 'sm_90', 'compute_90']\n");
  EXPECT_EQ(names_of(snapshot), "NVIDIA GeForce RTX 5090");
  const auto& python = snapshot.environment->pythons.at(0);
  EXPECT_EQ(facts::find_package(python, "torch")->version, "2.6.0+cu124");
  EXPECT_EQ(python.torch_cuda, "12.4");
  EXPECT_EQ(python.cuda_available, true);
  EXPECT_THAT(python.torch_architectures, ElementsAre("sm_80", "sm_90", "compute_90"));
  EXPECT_THAT(snapshot.environment->messages, IsEmpty());
}

TEST(PythonAnswers, OfOneCommandStandInOneLineOrInSeveral) {
  const auto one = snapshot_of(
      "$ python3 -c \"import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())\"\n"
      "2.5.1+cpu None False\n");
  EXPECT_EQ(one.environment->pythons.at(0).torch_cuda, "");
  ASSERT_EQ(one.environment->messages.size(), 1U);
  EXPECT_EQ(one.environment->messages[0].kind, "cuda_not_available");
  const auto several =
      snapshot_of("In [2]: print(torch.cuda.is_available())\nFalse\nIn [3]: torch.__version__\n'2.5.1+cu124'\n");
  EXPECT_EQ(several.environment->pythons.at(0).cuda_available, false);
  EXPECT_EQ(facts::find_package(several.environment->pythons[0], "torch")->version, "2.5.1+cu124");
}

TEST(PythonAnswers, OfTensorFlowAndJaxAreHeardToo) {
  const auto tensorflow = snapshot_of(">>> tf.__version__\n'2.16.1'\n>>> tf.config.list_physical_devices('GPU')\n[]\n");
  ASSERT_EQ(tensorflow.environment->messages.size(), 1U);
  EXPECT_EQ(tensorflow.environment->messages[0].kind, "tensorflow_sees_no_gpu");
  EXPECT_EQ(facts::find_package(tensorflow.environment->pythons.at(0), "tensorflow")->version, "2.16.1");
  const auto jax = snapshot_of("$ python -c 'import torch; print(1)'\n1\n>>> jax.devices()\n[CpuDevice(id=0)]\n");
  ASSERT_EQ(jax.environment->messages.size(), 1U);
  EXPECT_EQ(jax.environment->messages[0].kind, "jax_sees_no_gpu");
  EXPECT_THAT(snapshot_of(">>> jax.devices()\n[CudaDevice(id=0)]\n").environment->messages, IsEmpty());
  const auto capability = snapshot_of(
      ">>> torch.cuda.get_device_name()\n'NVIDIA GeForce GTX 1080 Ti'\n>>> torch.cuda.get_device_capability()\n(6, "
      "1)\n");
  EXPECT_EQ(capability.gpus.at(0).gpu.compute_capability, facts::compute_capability_from("6.1"));
  const auto told = snapshot_of("torch.cuda.is_available(): False\n");
  EXPECT_EQ(told.environment->messages.size(), 1U);
}

TEST(PythonAnswers, TheLastOneCounts) {
  const auto mended = snapshot_of(
      ">>> torch.cuda.is_available()\nFalse\nthen I installed another build:\nIn [1]: torch.cuda.is_available()\n"
      "Out[1]: True\n");
  EXPECT_EQ(mended.environment->pythons.at(0).cuda_available, true);
  EXPECT_THAT(mended.environment->messages, IsEmpty());
  const auto lost = snapshot_of(">>> torch.cuda.is_available()\nTrue\n>>> torch.cuda.is_available()\nFalse\n");
  EXPECT_EQ(lost.environment->messages.size(), 1U);
  const auto reported =
      snapshot_of(">>> torch.cuda.is_available()\nFalse\nPyTorch version: 2.6.0+cu124\nIs CUDA available: True\n");
  EXPECT_THAT(reported.environment->messages, IsEmpty());
  const auto hidden =
      snapshot_of("$ CUDA_VISIBLE_DEVICES=\"\" python -c \"import torch; print(torch.cuda.is_available())\"\nFalse\n");
  EXPECT_THAT(hidden.environment->messages, IsEmpty());
}

TEST(PythonAnswers, OfACommandForTensorFlowAreHeardAtAnyPrompt) {
  const auto told = snapshot_of(
      "C:\\Users\\lee>python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\"\n[]\n");
  ASSERT_EQ(told.environment->messages.size(), 1U);
  EXPECT_EQ(told.environment->messages[0].kind, "tensorflow_sees_no_gpu");
}

TEST(PythonAnswers, EachMachineHasItsOwn) {
  const std::string text =
      "ada@login1:~$ python -c \"import torch; print(torch.__version__, torch.cuda.is_available())\"\n2.4.1+cpu False\n"
      "[ada@gpu7 src]$ python -c \"import torch; print(torch.__version__, torch.cuda.is_available())\"\n"
      "2.6.0+cu124 True\n";
  const auto both = read_capture(text, "test");
  ASSERT_TRUE(both);
  EXPECT_EQ(facts::find_package(both->snapshot.environment->pythons.at(0), "torch")->version, "2.4.1+cpu");
  EXPECT_EQ(both->snapshot.environment->messages.size(), 1U) << "the first machine's answer";
  EXPECT_THAT(both->warnings,
              ElementsAre(HasSubstr("line 3: Python's answers are of gpu7; only those of login1 are read")));
  // The other facts are the second's.
  const auto second = read_capture(text + "[ada@gpu7 src]$ nvidia-smi -L\nGPU 0: NVIDIA L4 (UUID: GPU-1)\n", "test");
  ASSERT_TRUE(second);
  EXPECT_EQ(facts::find_package(second->snapshot.environment->pythons.at(0), "torch")->version, "2.6.0+cu124");
  EXPECT_THAT(second->snapshot.environment->messages, IsEmpty());
  EXPECT_THAT(second->warnings, ElementsAre(HasSubstr("are of login1; only those of gpu7")));
}

TEST(PythonAnswers, AHeadingNamesAMachineAndASectionNone) {
  const auto nodes = read_capture(
      "=== node1 ===\n>>> torch.cuda.is_available()\nTrue\n=== node2 ===\n>>> torch.cuda.is_available()\nFalse\n",
      "test");
  ASSERT_TRUE(nodes);
  EXPECT_EQ(nodes->snapshot.environment->pythons.at(0).cuda_available, true);
  EXPECT_EQ(nodes->warnings.size(), 1U);
  const auto sections = read_capture(
      "=== before ===\n>>> torch.cuda.is_available()\nFalse\n=== after ===\n>>> torch.cuda.is_available()\nTrue\n",
      "test");
  ASSERT_TRUE(sections);
  EXPECT_EQ(sections->snapshot.environment->pythons.at(0).cuda_available, true);
  EXPECT_THAT(sections->warnings, IsEmpty());
}

TEST(PythonAnswers, AHeadingThatCountsSectionsNamesNoMachine) {
  for (const char* heading :
       {"### Step2", "### Python3", "=== torch-2.5.1 ===", "--- run_3 ---", "### CUDA12.4", "### v2.1"}) {
    const auto told = read_capture(std::string("### Python3\n>>> torch.__version__\n'2.1.0+cu121'\n") + heading +
                                       "\n>>> torch.version.cuda\n'12.1'\n",
                                   "test");
    ASSERT_TRUE(told) << heading;
    EXPECT_EQ(told->snapshot.environment->pythons.at(0).torch_cuda, "12.1") << heading;
    EXPECT_THAT(told->warnings, IsEmpty()) << heading;
  }
}

TEST(PythonAnswers, AMachineMayBeNamedAfterItsGpus) {
  const auto nodes = read_capture(
      "=== v100-01 ===\n>>> torch.cuda.is_available()\nTrue\n=== v100-02 ===\n>>> torch.cuda.is_available()\nFalse\n",
      "test");
  ASSERT_TRUE(nodes);
  EXPECT_EQ(nodes->warnings.size(), 1U);
}

TEST(PythonAnswers, OfManyMachinesAreSummedUpInOneWarning) {
  std::string text;
  for (int i = 0; i < 500; ++i)
    text += "a@h" + std::to_string(i) + ":~$ python\n>>> torch.cuda.is_available()\nFalse\n";
  const auto told = read_capture(text, "test");
  ASSERT_TRUE(told);
  EXPECT_THAT(told->warnings, ElementsAre(HasSubstr("are of h1, h2, h3 and 60 more; only those of h0 are read")));
}

TEST(PythonAnswers, WhatIsNoAnswerIsLeftAlone) {
  EXPECT_FALSE(read_capture("print(torch.cuda.get_device_name(0))\nprint(torch.cuda.is_available())\n", "test"));
  EXPECT_FALSE(read_capture("torch.cuda.get_device_name() gives\nsome prose about it\n", "test"));

  EXPECT_FALSE(read_capture("torch.cuda.is_available() should say True\nand it does not\n", "test"));
  EXPECT_FALSE(read_capture(">>> torch.cuda.is_available()\nTraceback (most recent call last):\n", "test"));
  EXPECT_FALSE(read_capture("device = 'cuda' if torch.cuda.is_available() else 'cpu'\nFalse\n", "test"));
}

TEST(PythonAnswers, OfOtherMachinesAreNotTakenForTheNamedOnes) {
  const auto capture = read_capture(
      "=== node1 ===\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n=== node2 ===\n>>> torch.__version__\n"
      "'2.9.1+cu130'\n=== node3 ===\n>>> torch.__version__\n'2.5.1+cu124'\n",
      "nodes.txt");
  ASSERT_TRUE(capture.has_value());
  ASSERT_EQ(capture->warnings.size(), 1U);
  EXPECT_EQ(capture->warnings[0], "line 4: Python's answers are of node2, node3; only those of node1 are read");
  EXPECT_FALSE(capture->snapshot.environment.has_value());
}

}  // namespace
}  // namespace gpuwarden::capture
