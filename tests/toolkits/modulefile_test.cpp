// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/modulefile.hpp"

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::toolkits {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

facts::Toolkit toolkit_in(const std::string& path) {
  facts::Toolkit result;
  result.version = "12.4.131";
  result.path = path;
  result.nvcc = path + "/bin/nvcc";
  result.libraries = path + "/lib64";
  return result;
}

TEST(Modulefile, TclSetsAndPrepends) {
  const std::string text = modulefile(toolkit_in("/usr/local/cuda-12.4"), ModuleSyntax::tcl);
  EXPECT_TRUE(text.starts_with("#%Module1.0\n"));
  EXPECT_THAT(text, HasSubstr("conflict \"cuda\"\n"));
  EXPECT_THAT(text, HasSubstr("setenv \"CUDA_HOME\" \"/usr/local/cuda-12.4\"\n"));
  EXPECT_THAT(text, HasSubstr("prepend-path \"PATH\" \"/usr/local/cuda-12.4/bin\"\n"));
  EXPECT_THAT(text, HasSubstr("prepend-path \"LD_LIBRARY_PATH\" \"/usr/local/cuda-12.4/lib64\"\n"));
}

TEST(Modulefile, LuaSetsAndPrepends) {
  const std::string text = modulefile(toolkit_in("/usr/local/cuda-12.4"), ModuleSyntax::lua);
  EXPECT_TRUE(text.starts_with("-- CUDA toolkit 12.4.131")) << text;
  EXPECT_THAT(text, HasSubstr("family(\"cuda\")\n"));
  EXPECT_THAT(text, HasSubstr("setenv(\"CUDA_HOME\", \"/usr/local/cuda-12.4\")\n"));
  EXPECT_THAT(text, HasSubstr("prepend_path(\"PATH\", \"/usr/local/cuda-12.4/bin\")\n"));
}

TEST(Modulefile, NothingInAPathIsHeededByTheLanguage) {
  const std::string odd = "/opt/$x [exec id] {\"q\"} \\";
  EXPECT_THAT(modulefile(toolkit_in(odd), ModuleSyntax::tcl), HasSubstr(R"("/opt/\$x \[exec id\] \{\"q\"\} \\")"));
  EXPECT_THAT(modulefile(toolkit_in(odd), ModuleSyntax::lua), HasSubstr(R"("/opt/$x [exec id] {\"q\"} \\")"));
}

TEST(Modulefile, EnvironmentModulesLoadsAndUnloadsIt) {
  const auto there = testing::run_patiently({.argv = {"modulecmd", "bash", "--version"}});
  if (!there) GTEST_SKIP() << "environment-modules is not installed";
  const testing::TempDir dir;
  const std::string root = "/opt/a $b [c] 'd'";
  testing::put(dir / "cuda/12.4", modulefile(toolkit_in(root), ModuleSyntax::tcl));
  const std::string script =
      "eval \"$(modulecmd bash load cuda/12.4)\"; echo \"$CUDA_HOME|$PATH|$LD_LIBRARY_PATH\"; "
      "eval \"$(modulecmd bash unload cuda/12.4)\"; echo \"${CUDA_HOME-unset}|$PATH\"";
  const auto done =
      testing::run_patiently({.argv = {"/bin/bash", "-c", script},
                              .environment = Environment{{"PATH", "/usr/bin:/bin"}, {"MODULEPATH", dir.path()}}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->standard_output, root + "|" + root + "/bin:/usr/bin:/bin|" + root + "/lib64\nunset|/usr/bin:/bin\n")
      << done->standard_error;
}

}  // namespace
}  // namespace gpuwarden::toolkits
