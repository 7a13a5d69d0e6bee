// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/activation.hpp"

#include <algorithm>

namespace gpuwarden::toolkits {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;

facts::Toolkit toolkit(const std::string& version) {
  facts::Toolkit result;
  result.version = version;
  result.path = "/usr/local/cuda-" + version;
  result.nvcc = result.path + "/bin/nvcc";
  result.libraries = result.path + "/lib64";
  return result;
}

const std::vector<facts::Toolkit> kInstalled{toolkit("11.8"), toolkit("12.4")};
const facts::Toolkit& k118 = kInstalled[0];
const facts::Toolkit& k124 = kInstalled[1];

Environment used(const facts::Toolkit& chosen, const Environment& variables) {
  return with_changes(variables, activate(chosen, kInstalled, variables));
}
Environment unused(const Environment& variables) { return with_changes(variables, deactivate(variables)); }

TEST(Activation, PutsTheToolkitsFoldersFirst) {
  const Environment after = used(k124, {{"PATH", "/usr/bin:/bin"}});
  EXPECT_EQ(after.at("CUDA_HOME"), "/usr/local/cuda-12.4");
  EXPECT_EQ(after.at("CUDA_PATH"), "/usr/local/cuda-12.4");
  EXPECT_EQ(after.at("PATH"), "/usr/local/cuda-12.4/bin:/usr/bin:/bin");
  EXPECT_EQ(after.at("LD_LIBRARY_PATH"), "/usr/local/cuda-12.4/lib64")
      << "no empty entry: that means the current folder";
  EXPECT_EQ(activated(after), "/usr/local/cuda-12.4");
}

TEST(Activation, NoFolderStandsTwice) {
  const Environment after = used(k124, {{"PATH", "/usr/bin:/usr/local/cuda-12.4/bin/:/usr/bin:/bin"},
                                        {"LD_LIBRARY_PATH", "/a:/usr/local/cuda-12.4/lib64:/a/"}});
  EXPECT_EQ(after.at("PATH"), "/usr/local/cuda-12.4/bin:/usr/bin:/bin");
  EXPECT_EQ(after.at("LD_LIBRARY_PATH"), "/usr/local/cuda-12.4/lib64:/a");
}

TEST(Activation, TakenBackItLeavesTheEnvironmentAsItWas) {
  for (const Environment& before :
       {Environment{}, Environment{{"PATH", ""}}, Environment{{"PATH", "/usr/bin"}, {"LD_LIBRARY_PATH", ""}},
        Environment{{"PATH", "/usr/local/cuda-11.8/bin:/bin:/bin"}, {"CUDA_HOME", "/old"}, {"LD_LIBRARY_PATH", ":/x:"}},
        Environment{{"PATH", "/bin:/usr/local/cuda-12.4/bin"}, {"HOME", "/root"}}}) {
    EXPECT_EQ(unused(used(k124, before)), before);
    EXPECT_EQ(unused(used(k124, used(k118, before))), before) << "a second use keeps what was before the first";
    EXPECT_EQ(used(k124, used(k118, before)), used(k124, before)) << "nothing of the first stays";
  }
}

TEST(Activation, UsingTheSameTwiceChangesNothing) {
  const Environment once = used(k124, {{"PATH", "/bin"}});
  EXPECT_EQ(used(k124, once), once);
  EXPECT_THAT(activate(k124, kInstalled, once), Contains(Field(&Change::name, "CUDA_HOME")))
      << "the commands are whole, so that they can be kept";
}

TEST(Activation, WhatTheUserChangedMeanwhileStays) {
  Environment changed = used(k124, {{"PATH", "/usr/bin:/bin"}, {"CUDA_HOME", "/old"}});
  changed["PATH"] = "/home/ada/venv/bin:" + changed["PATH"];
  changed["CUDA_HOME"] = "/mine";
  changed["LD_LIBRARY_PATH"] += ":/opt/lib";
  const Environment after = unused(changed);
  EXPECT_EQ(after.at("PATH"), "/home/ada/venv/bin:/usr/bin:/bin");
  EXPECT_EQ(after.at("CUDA_HOME"), "/mine");
  EXPECT_EQ(after.at("LD_LIBRARY_PATH"), "/opt/lib");
  EXPECT_FALSE(after.contains("CUDA_PATH"));
  EXPECT_EQ(activated(after), "");
}

TEST(Activation, NothingToTakeBackIsNoChange) {
  EXPECT_THAT(deactivate({{"PATH", "/bin"}, {"CUDA_HOME", "/x"}}), IsEmpty());
}

TEST(Activation, AToolkitOfTheDistributionPutsNoSystemFolderFirst) {
  facts::Toolkit packaged;
  packaged.version = "11.8.89";
  packaged.path = "/usr/lib/nvidia-cuda-toolkit";
  packaged.nvcc = "/usr/bin/nvcc";
  const Environment before{{"PATH", "/usr/local/cuda-12.4/bin:/home/ada/bin:/usr/bin"},
                           {"LD_LIBRARY_PATH", "/usr/local/cuda-12.4/lib64"}};
  const Environment after = with_changes(before, activate(packaged, kInstalled, before));
  EXPECT_EQ(after.at("PATH"), "/home/ada/bin:/usr/bin") << "the other toolkit's nvcc would be found first";
  EXPECT_EQ(after.at("LD_LIBRARY_PATH"), "");
  EXPECT_EQ(after.at("CUDA_HOME"), "/usr/lib/nvidia-cuda-toolkit");
  EXPECT_EQ(unused(after), before);
}

}  // namespace
}  // namespace gpuwarden::toolkits
