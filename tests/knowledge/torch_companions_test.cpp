// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/torch_companions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "gpuwarden/base/text.hpp"
#include "known.hpp"

namespace gpuwarden::knowledge {
namespace {

std::string companions(const char* torch) {
  std::vector<std::string> names;
  for (const auto* row : companions_of(Version::parse(torch).value_or(Version{})))
    names.push_back(std::string(row->package) + " " + std::string(row->version));
  return join(names, ", ");
}

TEST(TorchCompanions, EachRowIsFoundByItsOwnVersionAndGoesWithItsPyTorch) {
  EXPECT_GE(torch_companions().size(), 60U);
  for (const TorchCompanion& row : torch_companions()) {
    EXPECT_EQ(torch_companion(row.package, row.version), &row) << row.package << row.version;
    EXPECT_EQ(torch_companion(row.package, std::string(row.version) + "+cu126"), &row);
    EXPECT_TRUE(goes_with(row, Version::parse(row.torch).value_or(Version{}))) << row.package << row.version;
    EXPECT_FALSE(goes_with(row, {1, 0})) << row.package << row.version;
  }
}

TEST(TorchCompanions, AreTheNewestReleasesThatGoWithAPyTorch) {
  EXPECT_EQ(companions("2.5.1"), "torchvision 0.20, torchaudio 2.5, xformers 0.0.29.post1");
  EXPECT_EQ(companions("2.5.0"), "torchvision 0.20, torchaudio 2.5, xformers 0.0.28.post2");
  EXPECT_EQ(companions("1.13.1"), "torchvision 0.14, torchaudio 0.13");
  EXPECT_EQ(companions("2.11.0"), "torchvision 0.26, torchaudio 2.11.1, xformers 0.0.34");
  EXPECT_EQ(companions("2.14.0"), "torchvision 0.29, torchaudio 2.11.1, xformers 0.0.34");
  EXPECT_EQ(companions("9.0"), "torchaudio 2.11.1, xformers 0.0.34");
}

TEST(TorchCompanions, EachPyTorchOfTheTablesHasItsTorchvisionAndTorchaudio) {
  for (const std::string_view package : {"torchvision", "torchaudio"}) {
    Version first{99};
    for (const TorchCompanion& row : torch_companions()) {
      if (row.package == package) first = std::min(first, Version::parse(row.torch).value_or(first));
    }
    for (const TorchBuild& build : known().torch_builds()) {
      if (build.torch < first) continue;
      EXPECT_TRUE(std::ranges::any_of(
          torch_companions(),
          [&](const TorchCompanion& row) { return row.package == package && goes_with(row, build.torch); }))
          << package << " for PyTorch " << to_string(build.torch);
    }
  }
}

TEST(TorchCompanions, APostReleaseIsOneOfItsOwn) {
  EXPECT_EQ(torch_companion("torchvision", "0.20.1")->torch, "2.5");
  EXPECT_EQ(torch_companion("torchvision", "0.2"), nullptr);
  EXPECT_EQ(torch_companion("xformers", "0.0.29.post9"), nullptr);
  EXPECT_EQ(torch_companion("xformers", "0.0.29.post2")->torch, "2.6.0");
  EXPECT_EQ(torch_companion("numpy", "2.0"), nullptr);
}

TEST(TorchCompanions, AVersionTellsForWhatItWasBuilt) {
  for (const auto& [version, torch, cuda] : {std::tuple{"2.7.4.post1+cu12torch2.6cxx11abiFALSE", Version{2, 6}, "cu12"},
                                             {"0.2.1+cu124torch2.4", Version{2, 4}, "cu124"},
                                             {"2.1.2+pt26cu124", Version{2, 6}, "cu124"},
                                             {"2.1.2+pt210cu128", Version{2, 10}, "cu128"},
                                             {"0.24.1+cu126", Version{}, "cu126"},
                                             {"0.4.20+cuda12.cudnn89", Version{}, ""},
                                             {"2.5.1+rocm6.2", Version{}, ""},
                                             {"2.5.1", Version{}, ""}}) {
    const BuiltFor built = built_for(version);
    EXPECT_EQ(built.torch.value_or(Version{}), torch) << version;
    EXPECT_EQ(built.cuda, cuda) << version;
  }
  EXPECT_TRUE(is_same_cuda("cu12", "cu124"));
  EXPECT_FALSE(is_same_cuda("cu118", "cu126"));
}

}  // namespace
}  // namespace gpuwarden::knowledge
