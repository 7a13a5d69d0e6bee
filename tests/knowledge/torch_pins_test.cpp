// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/torch_pins.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuwarden::knowledge {
namespace {

Version version(std::string_view text) { return Version::parse(text).value_or(Version{}); }

TEST(TorchPins, ATritonGoesWithThePyTorchWhoseReleaseItIs) {
  ASSERT_NE(triton_for(version("2.6.0")), nullptr);
  EXPECT_EQ(triton_for(version("2.6.0"))->triton, "3.2.0");
  EXPECT_TRUE(goes_with(*triton_for(version("2.7.0")), version("3.3.1"))) << "a later fix of the same release";
  EXPECT_FALSE(goes_with(*triton_for(version("2.7.1")), version("3.2.0")));
  EXPECT_EQ(triton_for(version("2.11.0"))->triton, triton_for(version("2.10.0"))->triton);
  EXPECT_EQ(triton_for(version("1.13.1")), nullptr);
  EXPECT_EQ(triton_for(version("2.99.0")), nullptr);
}

TEST(TorchPins, BitsandbytesHasLibrariesForSomeCudas) {
  const auto has = [](std::string_view release, std::string_view cuda) {
    const auto* const build = bitsandbytes_build(version(release));
    return build != nullptr && has_code_for(*build, version(cuda));
  };
  EXPECT_TRUE(has("0.45.3", "12.8"));
  EXPECT_FALSE(has("0.45.2", "12.8"));
  EXPECT_FALSE(has("0.47.0", "13.0"));
  EXPECT_TRUE(has("0.48.0", "13.0"));
  EXPECT_FALSE(has("0.49.2", "13.2"));
  EXPECT_TRUE(has("0.50.2", "12.9")) << "another of the same major release";
  EXPECT_EQ(bitsandbytes_build(version("0.42.0")), nullptr) << "its libraries are not known here";
  const auto first_for = [](std::string_view torch, std::string_view cuda) {
    const auto* const build = bitsandbytes_for(version(torch), version(cuda));
    return build == nullptr ? Version{} : build->first;
  };
  EXPECT_EQ(first_for("2.9.1", "13.0"), version("0.50.0"));
  EXPECT_EQ(first_for("2.3.1", "12.1"), version("0.48.0")) << "0.50 asks for PyTorch 2.4";
  EXPECT_EQ(first_for("2.0.1", "11.7"), version("0.45.3"));
  EXPECT_EQ(first_for("2.9.1", "14.0"), Version{});
}

}  // namespace
}  // namespace gpuwarden::knowledge
