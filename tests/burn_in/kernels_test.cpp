// SPDX-License-Identifier: Apache-2.0
#include "burn_in/kernels.hpp"

#include <gtest/gtest.h>

#include <set>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {
namespace {

using burn_in::kKernels;

TEST(Kernels, EachModuleNamesItsVersionAndTheLowestTarget) {
  for (const auto& kernel : kKernels) {
    const std::string text = kernel.text();
    EXPECT_TRUE(text.starts_with(".version ")) << kernel.name;
    EXPECT_NE(text.find(".target sm_" + std::to_string(kernel.least_capability) + "\n"), std::string::npos)
        << kernel.name;
    EXPECT_EQ(text.find('\0'), std::string::npos) << kernel.name;
  }
}

TEST(Kernels, TheirFunctionsAreThere) {
  EXPECT_NE(burn_in::memory_kernels().find(".entry gpuwarden_fill("), std::string::npos);
  EXPECT_NE(burn_in::memory_kernels().find(".entry gpuwarden_check("), std::string::npos);
  EXPECT_NE(burn_in::mma_bf16_kernel().find(".entry gpuwarden_mma_bf16("), std::string::npos);
}

TEST(Kernels, ScrambledAddressesAreAllDifferent) {
  std::set<unsigned long long> seen;
  for (unsigned long long address = 0; address < 80'000; address += 8) seen.insert(burn_in::scrambled(address));
  EXPECT_EQ(seen.size(), 10'000U);
}

TEST(Kernels, APatternIsConstantAddressOrScrambled) {
  EXPECT_EQ(burn_in::pattern_word(0x1000, 0, 0x55, false), 0x55U);
  EXPECT_EQ(burn_in::pattern_word(0x1000, ~0ULL, 0, false), 0x1000U);
  EXPECT_EQ(burn_in::pattern_word(0x1000, ~0ULL, ~0ULL, false), ~0x1000ULL);
  EXPECT_EQ(burn_in::pattern_word(0x1000, ~0ULL, 0, true), burn_in::scrambled(0x1000));
}

/// ptxas of a toolkit on this machine; empty where there is none.
std::string find_ptxas() {
  for (const char* candidate : {"ptxas", "/usr/local/cuda/bin/ptxas"}) {
    const auto done = run_patiently({.argv = {candidate, "--version"}});
    if (done && done->exit_code == 0) return candidate;
  }
  return "";
}

TEST(Kernels, NvidiasAssemblerTakesThemForEveryArchitecture) {
  const std::string ptxas = find_ptxas();
  if (ptxas.empty()) GTEST_SKIP() << "no CUDA toolkit on this machine";
  const TempDir dir;
  for (const auto& kernel : kKernels) {
    put(dir / "kernel.ptx", kernel.text());
    for (const int architecture : {75, 80, 86, 89, 90, 100, 120}) {
      if (architecture < kernel.least_capability) continue;
      const std::string option = "-arch=sm_" + std::to_string(architecture);
      const auto done = run_patiently({.argv = {ptxas, option, dir / "kernel.ptx", "-o", dir / "kernel.cubin"}});
      ASSERT_TRUE(done.has_value());
      // A toolkit older than the architecture has no say in it.
      if (done->standard_error.find("is not defined for option") != std::string::npos) continue;
      EXPECT_EQ(done->exit_code, 0) << kernel.name << " for sm_" << architecture << ": " << done->standard_error;
    }
  }
}

}  // namespace
}  // namespace gpuwarden::testing
