// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/setup/python_environment.hpp"

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::setup {
namespace {

using knowledge::Knowledge;
using knowledge::Version;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TempDir;

Result<EnvironmentPlan> plan(const EnvironmentRequest& request, Maker maker,
                             std::optional<Version> driver = std::nullopt) {
  return plan_environment(request, maker, driver, Knowledge::built_in());
}

std::vector<std::string> lines(const EnvironmentPlan& plan) {
  std::vector<std::string> result;
  for (const auto& command : plan.commands) result.push_back(join(command, " "));
  return result;
}

TEST(EnvironmentPlan, CondaTakesCudaFromItsChannels) {
  const auto made = plan({"lab", {12, 4}, "3.11", {}}, Maker::conda);
  ASSERT_TRUE(made);
  EXPECT_THAT(lines(*made), ElementsAre("conda create --yes --name lab --channel conda-forge cuda-toolkit "
                                        "cuda-version=12.4 python=3.11"));
  EXPECT_EQ(made->activation, "conda activate 'lab'");
  EXPECT_THAT(lines(*plan({"lab", {11, 8}, {}, {}}, Maker::mamba))[0],
              HasSubstr("mamba create --yes --name lab --channel nvidia/label/cuda-11.8.0"));
  const auto old = plan({"lab", {10, 2}, {}, {}}, Maker::micromamba);
  EXPECT_THAT(lines(*old)[0], HasSubstr("cudatoolkit=10.2"));
  EXPECT_THAT(old->notes, Contains(HasSubstr("not its compiler")));
  EXPECT_THAT(lines(*plan({"./envs/lab", {12, 4}, {}, {}}, Maker::conda))[0], HasSubstr("--prefix ./envs/lab"));
}

TEST(EnvironmentPlan, PyTorchIsTheNewestWithABuildForThatCuda) {
  const auto made = plan({"lab", {12, 4}, {}, {"torch", "torchvision", "vllm==0.8.5"}}, Maker::uv);
  ASSERT_TRUE(made) << made.error().message;
  const auto commands = lines(*made);
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[0], "uv venv --python 3.13 lab");
  EXPECT_EQ(commands[1],
            "uv pip install --python lab/bin/python torch==2.6 torchvision --index-url "
            "https://download.pytorch.org/whl/cu124");
  EXPECT_EQ(commands[2],
            "uv pip install --python lab/bin/python vllm==0.8.5 --extra-index-url "
            "https://download.pytorch.org/whl/cu124");
  EXPECT_THAT(lines(*plan({"lab", {12, 4}, {}, {"torch==2.4.1"}}, Maker::venv))[1], HasSubstr("install torch==2.4.1"))
      << "a version that the user names stays";
  EXPECT_THAT(lines(*plan({"lab", {11, 8}, "3.8", {"torch"}}, Maker::conda))[1],
              HasSubstr("conda run --name lab python -m pip install torch==2.4.1"))
      << "the newest of them that serves Python 3.8";
}

TEST(EnvironmentPlan, WithoutPyTorchPipBringsNvidiasPackages) {
  EXPECT_THAT(lines(*plan({"lab", {12, 4}, {}, {}}, Maker::venv)),
              ElementsAre("python3 -m venv lab",
                          "lab/bin/python -m pip install nvidia-cuda-nvcc-cu12==12.4.* "
                          "nvidia-cuda-runtime-cu12==12.4.* nvidia-cuda-nvrtc-cu12==12.4.*"));
  EXPECT_THAT(lines(*plan({"lab", {13, 0}, "3.12", {}}, Maker::venv)), Contains(HasSubstr("nvidia-cuda-nvcc==13.0.*")));
  EXPECT_THAT(plan({"lab", {11, 4}, {}, {}}, Maker::uv), FailsWith(ErrorCode::unsatisfied, HasSubstr("not on PyPI")));
}

TEST(EnvironmentPlan, WhatCannotBeIsRefusedWithWhatCan) {
  const auto none = plan({"lab", {12, 5}, {}, {"torch"}}, Maker::uv);
  EXPECT_THAT(none, FailsWith(ErrorCode::unsatisfied, HasSubstr("no PyTorch built with CUDA 12.5")));
  EXPECT_THAT(none.error().hint, HasSubstr("12.4, 12.6"));
  EXPECT_THAT(plan({"lab", {12, 4}, "3.6", {"torch"}}, Maker::uv),
              FailsWith(ErrorCode::unsatisfied, HasSubstr("for Python 3.6")));
  const auto unknown = plan({"lab", {12, 42}, {}, {}}, Maker::conda);
  EXPECT_TRUE(unknown || unknown.error().code == ErrorCode::invalid_argument);
  EXPECT_THAT(plan({"lab", {11, 9}, {}, {}}, Maker::conda),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("there is no CUDA 11.9")));
}

TEST(EnvironmentPlan, NoWordIsTakenForAnOption) {
  for (const char* name : {"-rf", "", "a b", "a;b", "--yes"})
    EXPECT_THAT(plan({name, {12, 4}, {}, {}}, Maker::conda), FailsWith(ErrorCode::invalid_argument, HasSubstr("name")))
        << name;
  EXPECT_THAT(plan({"-x", {12, 4}, {}, {}}, Maker::venv), FailsWith(ErrorCode::invalid_argument, HasSubstr("name")));
  for (const char* python : {"3.x", "-3", "3.11;id", ""})
    EXPECT_THAT(plan({"lab", {12, 4}, python, {}}, Maker::venv),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("--python")));
  for (const char* package : {"--index-url", "torch;id", "a b", "http://x"})
    EXPECT_THAT(plan({"lab", {12, 4}, {}, {package}}, Maker::venv),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("no package")));
}

TEST(EnvironmentPlan, ADriverThatIsTooOldIsNoted) {
  EXPECT_THAT(plan({"lab", {13, 0}, {}, {}}, Maker::conda, Version{550, 54, 15})->notes,
              Contains(HasSubstr("need driver 580")));
  EXPECT_THAT(plan({"lab", {12, 4}, {}, {}}, Maker::conda, Version{550, 54, 15})->notes, IsEmpty());
}

TEST(Makers, AreFoundOnPathInTheirOrder) {
  const TempDir dir;
  for (const char* name : {"uv", "conda"}) {
    testing::put(dir / name, "#!/bin/sh\n");
    std::filesystem::permissions(dir / name, std::filesystem::perms::owner_all);
  }
  testing::put(dir / "mamba", "not executable");
  EXPECT_THAT(installed_makers({{"PATH", "/nonexistent:" + dir.path().string()}}),
              ElementsAre(Maker::conda, Maker::uv));
  EXPECT_THAT(installed_makers({}), IsEmpty());
  for (const Maker maker : {Maker::mamba, Maker::conda, Maker::micromamba, Maker::uv, Maker::venv})
    EXPECT_EQ(maker_from(to_string(maker)), maker);
  EXPECT_EQ(maker_from("pipenv"), std::nullopt);
}

class Creation : public ::testing::Test {
 protected:
  EnvironmentPlan folder_plan() const {
    EnvironmentPlan plan;
    plan.folder = dir_ / "lab";
    plan.commands = {{"make"}, {"install"}};
    return plan;
  }
  /// Makes the folder at first, then answers `codes`.
  Runner runner(std::vector<int> codes) {
    return [this, codes](const std::vector<std::string>&) -> Result<int> {
      std::filesystem::create_directories(dir_ / "lab/bin");
      return codes.at(static_cast<std::size_t>(runs_++));
    };
  }
  TempDir dir_;
  int runs_ = 0;
};

TEST_F(Creation, RunsAllCommands) {
  EXPECT_TRUE(create_environment(folder_plan(), runner({0, 0})));
  EXPECT_EQ(runs_, 2);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "lab"));
}

TEST_F(Creation, AFailureLeavesNothingBehind) {
  EXPECT_THAT(
      create_environment(folder_plan(), runner({0, 3})),
      FailsWith(ErrorCode::failed, HasSubstr("install: failed with exit code 3; what it had made was removed")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "lab"));
  runs_ = 0;
  EXPECT_THAT(create_environment(folder_plan(), runner({130})),
              FailsWith(ErrorCode::interrupted, HasSubstr("make: was interrupted")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "lab"));
}

TEST_F(Creation, WhatIsThereAlreadyIsNotTouched) {
  testing::put(dir_ / "lab/precious", "");
  EXPECT_THAT(create_environment(folder_plan(), runner({1})),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("there is already an environment")));
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "lab/precious"));
}

TEST_F(Creation, ANamedEnvironmentIsLookedUpAndRemovedThroughConda) {
  const std::string log = (dir_ / "log").string();
  const std::string made = (dir_ / "made").string();
  testing::put(dir_ / "conda", "#!/bin/sh\necho \"$*\" >> '" + log + "'\ncase \"$2\" in list) if [ -e '" + made +
                                   "' ]; then echo '{\"envs\": [\"/opt/conda\", \"/opt/conda/envs/lab\"]}'; else echo "
                                   "'{\"envs\": [\"/opt/conda\"]}'; fi;; esac\n");
  std::filesystem::permissions(dir_ / "conda", std::filesystem::perms::owner_all);
  EnvironmentPlan plan;
  plan.name = "lab";
  plan.program = (dir_ / "conda").string();
  plan.commands = {{"create"}};
  const auto failing = [&](const std::vector<std::string>&) -> Result<int> {
    testing::put(made, "");
    return 1;
  };
  EXPECT_THAT(create_environment(plan, failing), FailsWith(ErrorCode::failed, HasSubstr("exit code 1")));
  EXPECT_THAT(read_file(log).value_or(""), HasSubstr("env remove --yes --name lab"));
  EXPECT_THAT(create_environment(plan, failing), FailsWith(ErrorCode::invalid_argument, HasSubstr("already")));
}

}  // namespace
}  // namespace gpuwarden::setup
