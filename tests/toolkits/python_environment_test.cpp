// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/python_environment.hpp"

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::toolkits {
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

Result<PythonEnvironmentPlan> plan(PythonEnvironmentRequest request, Maker maker,
                                   std::optional<Version> driver = std::nullopt) {
  request.working_directory = "/home/ada";
  return plan_python_environment(request, maker, driver, Knowledge::built_in());
}

std::vector<std::string> lines(const PythonEnvironmentPlan& plan) {
  std::vector<std::string> result;
  for (const auto& command : plan.commands) result.push_back(join(command, " "));
  return result;
}

TEST(PythonEnvironmentPlan, CondaTakesCudaFromItsChannels) {
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
  EXPECT_THAT(lines(*plan({"./envs/lab", {12, 4}, {}, {}}, Maker::conda))[0], HasSubstr("--prefix /home/ada/envs/lab"));
}

TEST(PythonEnvironmentPlan, PyTorchIsTheNewestWithABuildForThatCuda) {
  const auto made = plan({"lab", {12, 4}, {}, {"torch", "torchvision", "vllm==0.8.5"}}, Maker::uv);
  ASSERT_TRUE(made) << made.error().message;
  const auto commands = lines(*made);
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[0], "uv venv --python 3.13 /home/ada/lab");
  EXPECT_EQ(commands[1],
            "uv pip install --python /home/ada/lab/bin/python torch==2.6 torchvision --index-url "
            "https://download.pytorch.org/whl/cu124");
  EXPECT_EQ(commands[2],
            "uv pip install --python /home/ada/lab/bin/python vllm==0.8.5 --extra-index-url "
            "https://download.pytorch.org/whl/cu124");
  EXPECT_THAT(lines(*plan({"lab", {12, 4}, {}, {"torch==2.4.1"}}, Maker::venv))[1], HasSubstr("install torch==2.4.1"))
      << "a version that the user names stays";
  EXPECT_THAT(lines(*plan({"lab", {11, 8}, "3.8", {"torch"}}, Maker::conda))[1],
              HasSubstr("conda run --name lab python -m pip install torch==2.4.1"))
      << "the newest of them that serves Python 3.8";
}

TEST(PythonEnvironmentPlan, WithoutPyTorchPipBringsNvidiasPackages) {
  EXPECT_THAT(lines(*plan({"lab", {12, 4}, {}, {}}, Maker::venv)),
              ElementsAre("python3 -m venv /home/ada/lab",
                          "/home/ada/lab/bin/python -m pip install nvidia-cuda-nvcc-cu12==12.4.* "
                          "nvidia-cuda-runtime-cu12==12.4.* nvidia-cuda-nvrtc-cu12==12.4.*"));
  EXPECT_THAT(lines(*plan({"lab", {13, 0}, "3.12", {}}, Maker::venv)), Contains(HasSubstr("nvidia-cuda-nvcc==13.0.*")));
  EXPECT_THAT(plan({"lab", {11, 4}, {}, {}}, Maker::uv), FailsWith(ErrorCode::unsatisfied, HasSubstr("not on PyPI")));
}

TEST(PythonEnvironmentPlan, WhatCannotBeIsRefusedWithWhatCan) {
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

TEST(PythonEnvironmentPlan, NoWordIsTakenForAnOption) {
  for (const char* name : {"-rf", "", "a b", "a;b", "--yes", ".", ".."})
    EXPECT_THAT(plan({name, {12, 4}, {}, {}}, Maker::conda), FailsWith(ErrorCode::invalid_argument, HasSubstr("name")))
        << name;
  EXPECT_THAT(plan({"-x", {12, 4}, {}, {}}, Maker::venv), FailsWith(ErrorCode::invalid_argument, HasSubstr("name")));
  for (const char* python : {"3.x", "-3", "3.11;id", ""})
    EXPECT_THAT(plan({"lab", {12, 4}, python, {}}, Maker::venv),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("--python")));
  for (const char* package : {"--index-url", "torch;id", "a b", "http://x"})
    EXPECT_THAT(plan({"lab", {12, 4}, {}, {package}}, Maker::venv),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("not a package")));
}

TEST(PythonEnvironmentPlan, AFolderIsAbsoluteAndWithoutDetours) {
  for (const char* name : {"new/../lab", "./lab", "lab/", "/home/ada/x/../lab/.", "../ada//lab"}) {
    for (const Maker maker : {Maker::conda, Maker::uv, Maker::venv}) {
      const auto made = plan({name, {12, 4}, {}, {}}, maker);
      ASSERT_TRUE(made) << name << ": " << made.error().message;
      EXPECT_EQ(made->folder, "/home/ada/lab") << name;
      EXPECT_THAT(lines(*made), ::testing::Each(Not(HasSubstr("..")))) << name;
      EXPECT_THAT(made->activation, HasSubstr("'/home/ada/lab")) << name;
    }
  }
  EXPECT_EQ(plan({"..", {12, 4}, {}, {}}, Maker::venv)->folder, "/home");
  EXPECT_THAT(plan_python_environment({"lab", {12, 4}, {}, {}}, Maker::venv, std::nullopt, Knowledge::built_in()),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("the working directory is not known")));
}

TEST(PythonEnvironmentPlan, ACudaThatIsNotKnownIsRefusedOrNoted) {
  EXPECT_THAT(
      plan({"lab", {99}, {}, {}}, Maker::venv),
      FailsWith(ErrorCode::unsatisfied, HasSubstr("CUDA 99.0 is newer than this knowledge base, which ends with")));
  EXPECT_THAT(plan({"lab", {13, 90}, {}, {}}, Maker::venv)->notes,
              Contains(HasSubstr("whether there are packages of it is not known")));
  EXPECT_THAT(plan({"lab", {12, 4}, {}, {}}, Maker::venv)->notes, IsEmpty());
}

TEST(PythonEnvironmentPlan, ADriverThatIsTooOldIsNoted) {
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
  EXPECT_THAT(installed_makers({{"PATH", ""}}), IsEmpty()) << "the current folder";
  EXPECT_EQ(installed_makers({}), installed_makers({{"PATH", "/bin:/usr/bin"}})) << "as an exec without a PATH";
  for (const Maker maker : {Maker::mamba, Maker::conda, Maker::micromamba, Maker::uv, Maker::venv})
    EXPECT_EQ(maker_from(to_string(maker)), maker);
  EXPECT_EQ(maker_from("pipenv"), std::nullopt);
}

class Creation : public ::testing::Test {
 protected:
  PythonEnvironmentPlan folder_plan() const {
    PythonEnvironmentPlan plan;
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
  EXPECT_TRUE(create_python_environment(folder_plan(), runner({0, 0})));
  EXPECT_EQ(runs_, 2);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "lab"));
}

TEST_F(Creation, AFailureLeavesNothingBehind) {
  EXPECT_THAT(
      create_python_environment(folder_plan(), runner({0, 3})),
      FailsWith(ErrorCode::failed, HasSubstr("install: failed with exit code 3; what it had made was removed")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "lab"));
  runs_ = 0;
  EXPECT_THAT(create_python_environment(folder_plan(), runner({130})),
              FailsWith(ErrorCode::interrupted, HasSubstr("make: was interrupted")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "lab"));
}

TEST_F(Creation, WhatIsThereAlreadyIsNotTouched) {
  testing::put(dir_ / "lab/precious", "");
  EXPECT_THAT(create_python_environment(folder_plan(), runner({1})),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("there is already an environment")));
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "lab/precious"));
}

TEST_F(Creation, FoldersAboveItGoTooAndNothingIsClaimedWhereNothingWasMade) {
  PythonEnvironmentPlan plan = folder_plan();
  plan.folder = dir_ / "a/b/lab";
  const auto makes = [&](const std::vector<std::string>&) -> Result<int> {
    std::filesystem::create_directories(*plan.folder / "bin");
    return 1;
  };
  EXPECT_THAT(create_python_environment(plan, makes), FailsWith(ErrorCode::failed, HasSubstr("was removed")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "a"));
  testing::put(dir_ / "a/mine", "");
  EXPECT_FALSE(create_python_environment(plan, makes));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "a/b"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "a/mine"));
  const auto idle = [](const std::vector<std::string>&) -> Result<int> { return 2; };
  const auto nothing = create_python_environment(plan, idle);
  EXPECT_THAT(nothing, FailsWith(ErrorCode::failed, HasSubstr("exit code 2")));
  EXPECT_THAT(nothing.error().message, Not(HasSubstr("removed")));
}

TEST_F(Creation, AFolderThatCannotBeLookedAtIsRefused) {
  PythonEnvironmentPlan plan = folder_plan();
  plan.folder = dir_ / std::string(300, 'x');
  EXPECT_FALSE(create_python_environment(plan, runner({0, 0})));
  EXPECT_EQ(runs_, 0);
}

/// A conda whose `env list` runs `list`; every call is logged.
class NamedCreation : public ::testing::Test {
 protected:
  PythonEnvironmentPlan plan(const std::string& list, const std::string& remove = "exit 0") const {
    const auto program = dir_ / "conda";
    testing::put(program, "#!/bin/sh\ncd '" + dir_.path().string() + "'\necho \"$*\" >> log\ncase \"$2\" in list) " +
                              list + ";; remove) " + remove + ";; esac\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    PythonEnvironmentPlan result;
    result.name = "lab";
    result.program = program.string();
    result.commands = {{"create"}};
    return result;
  }
  std::string log() const { return read_file(dir_ / "log").value_or(""); }
  Result<void> create_failing(const PythonEnvironmentPlan& plan) {
    return create_python_environment(plan, [this](const std::vector<std::string>&) -> Result<int> {
      ++runs_;
      testing::put(dir_ / "made", "");
      return 1;
    });
  }
  TempDir dir_;
  int runs_ = 0;
};

constexpr const char* kListOfMade =
    "if [ -e made ]; then echo '{\"envs\": [\"/opt/conda\", \"/opt/conda/envs/lab\"]}'; else echo '{\"envs\": "
    "[\"/opt/conda\"]}'; fi";

TEST_F(NamedCreation, IsLookedUpAndRemovedThroughConda) {
  EXPECT_THAT(create_failing(plan(kListOfMade)),
              FailsWith(ErrorCode::failed, HasSubstr("exit code 1; what it had made was removed")));
  EXPECT_THAT(log(), HasSubstr("env remove --yes --name lab"));
  EXPECT_THAT(create_failing(plan(kListOfMade)), FailsWith(ErrorCode::invalid_argument, HasSubstr("already")));
  EXPECT_EQ(runs_, 1);
}

TEST_F(NamedCreation, NothingIsRunOrRemovedWhereTheListCannotBeHad) {
  for (const char* list : {"echo broken >&2; exit 1", "echo 'no list'", "echo '{\"error\": 1}'",
                           "echo '{\"envs\": [1]}'", "echo '{\"envs\": '", "kill -9 $$", "true"}) {
    const auto refused = create_failing(plan(list));
    EXPECT_THAT(refused, FailsWith(ErrorCode::unavailable, HasSubstr("env list --json"))) << list;
  }
  EXPECT_EQ(runs_, 0);
  EXPECT_THAT(log(), Not(HasSubstr("remove")));
  EXPECT_THAT(create_failing(plan("echo broken >&2; exit 1")),
              FailsWith(ErrorCode::unavailable, HasSubstr("exit code 1: broken")));
}

TEST_F(NamedCreation, ACondaThatDoesNotAnswerInTimeIsATimeOut) {
  PythonEnvironmentPlan hanging = plan("exec sleep 600");
  hanging.list_deadline = std::chrono::milliseconds(200);
  EXPECT_THAT(create_failing(hanging),
              FailsWith(ErrorCode::timed_out, HasSubstr("env list --json: timed out after 200 ms")));
  EXPECT_EQ(runs_, 0);
}

TEST_F(NamedCreation, TextAroundTheListIsPassedOver) {
  const std::string noise = "echo 'WARNING {of a plugin}'; echo '{\"a\": 1}'; ";
  EXPECT_THAT(create_failing(plan(noise + "echo '{\"envs\": [\"/e/lab\"]}'; echo done")),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("already")));
  EXPECT_EQ(runs_, 0);
}

TEST_F(NamedCreation, WhatMayBeLeftIsSaid) {
  const std::string once = "if [ -e made ]; then exit 1; else echo '{\"envs\": []}'; fi";
  EXPECT_THAT(create_failing(plan(once)), FailsWith(ErrorCode::failed, HasSubstr("'lab' may be there in part: ")));
  EXPECT_THAT(log(), Not(HasSubstr("remove")));
  std::filesystem::remove(dir_ / "made");
  EXPECT_THAT(create_failing(plan(kListOfMade, "exit 3")),
              FailsWith(ErrorCode::failed, HasSubstr("env remove --yes --name lab")));
}

TEST_F(NamedCreation, CondasOwnEnvironmentIsNeverMadeAnew) {
  PythonEnvironmentPlan base = plan(kListOfMade);
  base.name = "base";
  EXPECT_THAT(create_failing(base), FailsWith(ErrorCode::invalid_argument, HasSubstr("already")));
  EXPECT_EQ(runs_, 0);
}

TEST(PythonEnvironmentRequests, AreReadFromWords) {
  NamedValues values;
  EXPECT_THAT(read_python_environment("lab", values), FailsWith(ErrorCode::invalid_argument, HasSubstr("needs cuda")));
  values.set("cuda", {"12.4beta"});
  EXPECT_THAT(read_python_environment("lab", values),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("cuda: '12.4beta' is not a version")));
  values.set("cuda", {"12.4"});
  values.set("tool", {"pipenv"});
  EXPECT_THAT(read_python_environment("lab", values),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("tool: unknown value 'pipenv'")));
  values.set("tool", {"uv"});
  values.set("with", {"torch,vllm"});
  const auto request = read_python_environment("lab", values);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->cuda, (Version{12, 4}));
  EXPECT_EQ(request->maker, Maker::uv);
  EXPECT_THAT(request->packages, ElementsAre("torch", "vllm"));
}

TEST(PythonEnvironmentPlan, IsForTheMakerThatIsInstalledUnlessOneIsNamed) {
  const TempDir dir;
  testing::put(dir / "uv", "#!/bin/sh\n");
  std::filesystem::permissions(dir / "uv", std::filesystem::perms::owner_all);
  const Environment here{{"PATH", dir.path().string()}};
  const auto& known = Knowledge::built_in();
  PythonEnvironmentRequest request{"lab", {12, 4}, {}, {}, "/home/ada"};
  const auto by_uv = plan_python_environment(request, here, std::nullopt, known);
  ASSERT_TRUE(by_uv) << by_uv.error().message;
  EXPECT_EQ(by_uv->program, "uv");
  EXPECT_TRUE(by_uv->installed);
  EXPECT_EQ(plan_python_environment(request, {{"PATH", "/nowhere"}}, std::nullopt, known)->program, "conda");
  request.maker = Maker::mamba;
  const auto by_mamba = plan_python_environment(request, here, std::nullopt, known);
  ASSERT_TRUE(by_mamba);
  EXPECT_FALSE(by_mamba->installed);
  const auto made = create_python_environment(*by_mamba, [](const auto&) -> Result<int> { return 0; });
  EXPECT_THAT(made, FailsWith(ErrorCode::unavailable, HasSubstr("mamba is not installed")));
  EXPECT_EQ(made.error().hint, "--tool uv: uv is installed");
}

}  // namespace
}  // namespace gpuwarden::toolkits
