// SPDX-License-Identifier: Apache-2.0
// Each check of quoted error messages, and of purposes: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

void quote(Snapshot& machine, std::string_view kind, std::string_view value) {
  software(machine).messages.push_back({std::string(kind), "a line of a log", std::string(value), 12});
}
/// A message of which no check speaks.
void quote_another(Snapshot& machine) { quote(machine, "nccl_timeout", "600"); }

void use_t4_without_cuda(Snapshot& machine) {
  remove_cuda_software(machine);
  use_gpus(machine, "Tesla T4", {7, 5});
}

void use_v100_without_cuda(Snapshot& machine) {
  remove_cuda_software(machine);
  use_gpus(machine, "Tesla V100-SXM2-32GB", {7, 0});
  use_module(machine, facts::ModuleFlavour::proprietary);
}

constexpr auto kReported = std::to_array<Case>({
    {"reported-no-kernel", [](Snapshot& m) { quote(m, "no_kernel_image", ""); }, quote_another, "(line 12)"},
    {"reported-gpu-not-served", [](Snapshot& m) { quote(m, "arch_not_supported", "sm_120"); }, quote_another,
     "sm_120 (line 12)"},
    {"reported-driver-too-old", [](Snapshot& m) { quote(m, "driver_too_old", "11040"); }, quote_another, "CUDA 11.4"},
    {"reported-cuda-error", [](Snapshot& m) { quote(m, "cuda_error", "803"); }, quote_another, "error 803"},
    {"reported-cpu-build", [](Snapshot& m) { quote(m, "no_cuda_build", ""); }, quote_another, "without (line 12)"},
    {"reported-glibc-too-old", [](Snapshot& m) { quote(m, "glibc_missing", "2.32"); }, quote_another, "glibc 2.32"},
    {"reported-library-missing", [](Snapshot& m) { quote(m, "library_missing", "libcudart.so.12"); },
     [](Snapshot& m) { quote(m, "library_missing", "libGL.so.1"); }, "libcudart.so.12"},
    {"reported-build-failure", [](Snapshot& m) { quote(m, "header_missing", "Python.h"); },
     [](Snapshot& m) { quote(m, "header_missing", "cutlass/cutlass"); }, "Python.h"},
    {"reported-ptx-too-new", [](Snapshot& m) { quote(m, "ptx_unsupported", ""); }, quote_another, "PTX"},
    {"reported-capability-too-low", [](Snapshot& m) { quote(m, "capability_needed", "7.5"); }, quote_another, "7.5"},
    {"reported-mig-uuid", [](Snapshot& m) { quote(m, "mig_uuid_as_number", ""); }, quote_another, "MIG UUID"},
});

constexpr auto kPurpose = std::to_array<Case>({
    {"purpose-gpu-too-old", use_v100_without_cuda, [](Snapshot&) {},
     "flash-attn needs compute capability 8.0; GPUs 0-3 have 7.0", "flash-attn"},
    {"purpose-not-known", [](Snapshot&) {}, [](Snapshot&) {}, "what jax==0.2.0 needs of driver and GPU", "jax==0.2.0",
     "vllm==0.11.0"},
    {"purpose-without-gpu", remove_gpus, [](Snapshot&) {}, "there is no GPU for pytorch==2.9.1+cu130",
     "pytorch==2.9.1+cu130"},
    {"purpose-build-unknown", [](Snapshot&) {}, [](Snapshot&) {}, "PyTorch 2.9.1 has no build cu118",
     "pytorch==2.9.1+cu118", "pytorch==2.9.1+cu126"},
    {"purpose-needs-newer-driver",
     [](Snapshot& m) {
       remove_cuda_software(m);
       use_driver(m, "570.211.01");
     },
     remove_cuda_software, "570.211.01 is installed", "pytorch==2.9.1+cu130"},
    {"purpose-has-no-code-for-gpu", use_v100_without_cuda, use_t4_without_cuda, "has no code for GPUs 0-3",
     "pytorch==2.9.1+cu130"},
    {"purpose-version-chosen", [](Snapshot& m) { remove_package(m, "vllm"); },
     [](Snapshot& m) { remove_package(m, "vllm"); }, "vLLM is not installed;", "vllm", "pytorch"},
    {"purpose-architecture-not-built", [](Snapshot&) {}, [](Snapshot&) {}, "needs CUDA 9.0 to 12.9", "sm_70", "sm_89"},
    {"purpose-needs-more-memory", [](Snapshot&) {}, [](Snapshot&) {}, "train llama-3-70b needs about",
     "train llama-3-70b", "train llama-3-8b"},
});

}  // namespace

std::span<const Case> reported_cases() { return kReported; }
std::span<const Case> purpose_cases() { return kPurpose; }

namespace {

TEST(ReportedChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(reported_cases()); }
TEST(PurposeChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(purpose_cases()); }

TEST(ReportedChecks, EveryBuildComplaintIsOneFinding) {
  for (const auto& [kind, value] : {std::pair{"cuda_mismatch", "12.6"}, std::pair{"nvcc_arch_unknown", "89"},
                                    std::pair{"unsupported_host_compiler", ""}, std::pair{"host_compiler_missing", ""},
                                    std::pair{"header_missing", "stdlib.h"}}) {
    Snapshot machine = healthy_machine();
    quote(machine, kind, value);
    EXPECT_EQ(found_in(machine), "reported-build-failure") << kind;
  }
}

TEST(ReportedChecks, AnUnknownCudaErrorIsNamedByItsNumber) {
  Snapshot machine = healthy_machine();
  quote(machine, "cuda_error", "719");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].title.contains("719")) << found.findings[0].title;
}

TEST(ReportedChecks, AFabricManagerOfAnotherVersionIsTheReasonForError802) {
  Snapshot machine = healthy_machine();
  quote(machine, "cuda_error", "802");
  EXPECT_EQ(found_in(machine), "reported-cuda-error");
  quote(machine, "fabric_version_differs", "570.133.20");
  EXPECT_EQ(found_in(machine), "told-fabric-version");
}

TEST(PurposeChecks, AMachineThatMeetsItsPurposeIsOptimal) {
  const auto found = examined(healthy_machine(), "pytorch==2.9.1+cu130");
  EXPECT_EQ(found.overall, doctor::Status::optimal) << ::testing::PrintToString(found_in(healthy_machine()));
}

}  // namespace
}  // namespace gpuwarden::testing
