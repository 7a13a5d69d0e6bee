// SPDX-License-Identifier: Apache-2.0
// gpuwarden env on a machine with ten toolkits, in the shells that are installed.
#include <algorithm>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kVersions = std::to_array<std::string_view>({"10.2.89", "11.1.105", "11.4.152", "11.8.89", "12.1.105",
                                                            "12.2.140", "12.4.131", "12.6.85", "12.8.93", "13.0.88"});

class Env : public testing::Program {
 protected:
  Env() {
    for (const char* name : {"CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CONDA_PREFIX", "VIRTUAL_ENV"})
      environment_.erase(name);
    std::erase_if(environment_, [](const auto& one) { return one.first.starts_with("GPUWARDEN_ENV_"); });
    environment_["SHELL"] = "/bin/bash";
    environment_["PATH"] = "/usr/local/bin:/usr/bin:/bin";
    environment_["HOME"] = (dir_ / "home").string();
    for (const std::string_view version : kVersions) {
      const std::string folder = "root/usr/local/cuda-" + std::string(version.substr(0, version.rfind('.')));
      file(folder + "/version.json",
           R"({"cuda_nvcc": {"name": "CUDA NVCC", "version": ")" + std::string(version) + "\"}}");
      file(folder + "/bin/nvcc", "");
      file(folder + "/lib64/libcudart.so.1", "");
    }
    std::filesystem::create_directories(dir_ / "root/etc/alternatives");
    std::filesystem::create_symlink("/etc/alternatives/cuda", dir_ / "root/usr/local/cuda");
    std::filesystem::create_symlink("/usr/local/cuda-12.4", dir_ / "root/etc/alternatives/cuda");
    set_driver("550.54.15");
  }
  void set_driver(const std::string& version) const { file("root/sys/module/nvidia/version", version + "\n"); }
  std::vector<std::string> here(std::vector<std::string> words) const {
    words.insert(words.begin(), "env");
    words.insert(words.end(), {"--root", (dir_ / "root").string(), "--timeout", "60s"});
    return words;
  }
  Completed env(std::vector<std::string> words) const { return run(here(std::move(words))); }

  /// A script in a shell, with $gw and $root as the program and the tree; empty where the shell is not installed.
  std::optional<std::string> in_shell(const std::string& shell, const std::string& script) const {
    Environment variables = environment_;
    variables["gw"] = GPUWARDEN_PROGRAM;
    variables["root"] = (dir_ / "root").string();
    const auto done = testing::run_patiently({.argv = {shell, "-c", script}, .environment = variables});
    if (!done) return std::nullopt;
    EXPECT_EQ(done->standard_error, "") << shell;
    return done->standard_output;
  }
};

TEST_F(Env, ListShowsAllToolkitsAndWhyOneIsActive) {
  environment_["PATH"] = "/usr/local/cuda-12.4/bin:/usr/bin:/bin";
  environment_["CUDA_HOME"] = "/usr/local/cuda-11.8";
  const auto done = env({"list"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_TRUE(done.standard_output.starts_with("driver 550.54.15\n")) << done.standard_output;
  for (const auto version : kVersions) EXPECT_THAT(done.standard_output, HasSubstr(std::string(version)));
  EXPECT_THAT(done.standard_output, HasSubstr("* 12.4.131  /usr/local/cuda-12.4  sm_50 to sm_90\n"));
  EXPECT_THAT(done.standard_output,
              HasSubstr("PATH finds its nvcc; /usr/local/cuda leads to it; update-alternatives names it"));
  EXPECT_THAT(done.standard_output, HasSubstr("its programs run only with cuda-compat"));
  const auto list = json(here({"list"}));
  ASSERT_EQ(list["toolkits"].size(), kVersions.size());
  EXPECT_EQ(list["toolkits"][0]["version"], "13.0.88") << "newest first";
  EXPECT_EQ(list["driver"], "550.54.15");
  const auto& toolkit = list["toolkits"][3];
  EXPECT_EQ(toolkit["path"], "/usr/local/cuda-12.4");
  EXPECT_EQ(toolkit["active"], true);
  EXPECT_EQ(toolkit["libraries"], "/usr/local/cuda-12.4/lib64");
  EXPECT_EQ(list["toolkits"][6]["reasons"], nlohmann::json({"CUDA_HOME names it"}));
}

TEST_F(Env, UseAndNoneInEveryShellThatIsHere) {
  const std::string show = "echo $CUDA_HOME; printenv PATH; printenv LD_LIBRARY_PATH;";
  const std::string expected =
      "/usr/local/cuda-11.8\n/usr/local/cuda-11.8/bin:/usr/local/bin:/usr/bin:/bin\n/usr/local/cuda-11.8/lib64:/mine\n"
      "/old\n/usr/local/bin:/usr/bin:/bin\n/mine\n0\n";
  environment_["CUDA_HOME"] = "/old";
  environment_["LD_LIBRARY_PATH"] = "/mine";
  const std::string use =
      R"x(eval "$("$gw" env use 12.4 --root "$root" --timeout 60s)"; eval "$("$gw" env use 11.8 --root "$root" --timeout 60s)"; )x";
  const std::string none = R"x(eval "$("$gw" env use --none)"; )x";
  for (const char* shell : {"bash", "zsh", "sh"}) {
    const auto told = in_shell(shell, use + show + none + show + "env | grep -c GPUWARDEN_ENV_ || true");
    EXPECT_EQ(told.value_or(expected), expected) << shell;
  }
  const auto fish = in_shell(
      "fish",
      "$gw env use 12.4 --root $root --timeout 60s | source; $gw env use 11.8 --root $root --timeout 60s | source; " +
          show + "$gw env use --none | source; " + show + "env | grep -c GPUWARDEN_ENV_; or true");
  EXPECT_EQ(fish.value_or(expected), expected);
}

TEST_F(Env, UseSpeaksTheShellThatIsNamed) {
  EXPECT_THAT(env({"use", "12.4"}).standard_output, HasSubstr("export CUDA_HOME='/usr/local/cuda-12.4'\n"));
  EXPECT_THAT(env({"use", "12.4", "--shell", "fish"}).standard_output,
              HasSubstr("set -gx CUDA_HOME '/usr/local/cuda-12.4'\n"));
  environment_["SHELL"] = "/usr/bin/fish";
  EXPECT_THAT(env({"use", "12.4"}).standard_output, HasSubstr("set -gx CUDA_HOME"));
  EXPECT_THAT(in_shell("sh", "x=$(\"$gw\" env use 12.4 --root \"$root\" --timeout 60s); echo \"$x\"").value_or(""),
              HasSubstr("export CUDA_HOME"))
      << "the shell around counts more than the login shell";
  expect_error(here({"use", "12.4", "--shell", "tcsh"}), 2, "unknown shell 'tcsh'");
  EXPECT_EQ(json(here({"use", "12.4"}))["variables"]["CUDA_HOME"], "/usr/local/cuda-12.4");
}

TEST_F(Env, UseForAnArchitecturePicksTheNewestThatFitsAndSaysWhy) {
  const auto done = env({"use", "--for", "sm_89"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.standard_output, HasSubstr("export CUDA_HOME='/usr/local/cuda-12.4'"));
  EXPECT_THAT(done.standard_error,
              HasSubstr("CUDA 12.4.131 (/usr/local/cuda-12.4): the newest here that builds for sm_89"));
  EXPECT_THAT(done.standard_error, HasSubstr("not 13.0.88"));
  set_driver("580.65.06");
  EXPECT_THAT(env({"use", "--for", "8.9"}).standard_output, HasSubstr("cuda-13.0'"));
  EXPECT_THAT(env({"use", "--for", "sm_37"}).standard_output, HasSubstr("cuda-11.8'"));
  EXPECT_THAT(env({"use", "--for", "NVIDIA B200"}).standard_output, HasSubstr("cuda-13.0'"));
  set_driver("535.54.03");
  expect_error(here({"use", "--for", "sm_999"}), 2, "not a known GPU architecture");
  const auto native = run({"env", "use", "--for", "native", "--root", (dir_ / "root").string(), "--simulate", "t4x1"});
  EXPECT_THAT(native.standard_error, HasSubstr("builds for sm_75")) << "the simulated GPU, the tree's toolkits";
}

TEST_F(Env, ErrorsPrintNothingThatAShellWouldEvaluate) {
  expect_error(here({"use", "12.5"}), 2, "there is no CUDA toolkit 12.5 here");
  EXPECT_THAT(env({"use", "12.5"}).standard_error, HasSubstr("12.6.85 (/usr/local/cuda-12.6)"));
  expect_error(here({"use"}), 2, "no CUDA version was given");
  expect_error(here({"use", "12.4", "12.6"}), 2, "unexpected argument '12.6'");
  expect_error(here({"use", "; rm -rf /"}), 2, "is not a CUDA version");
  expect_error({"env", "use", "12.4", "--root", "/no/such/folder"}, 2, "is not a directory");
  expect_error({"env"}, 2, "needs an action");
  expect_error({"env", "lsit"}, 2, "unknown action 'lsit'");
  EXPECT_THAT(run({"env", "lst"}).standard_error, HasSubstr("did you mean 'list'?"));
  expect_error(here({"list", "--none"}), 2, "env list takes no --none");
  const auto none = run({"env", "use", "--none"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.standard_output, "");
  EXPECT_THAT(none.standard_error, HasSubstr("nothing is taken back"));
}

TEST_F(Env, ExecRunsACommandWithTheToolkitAndPassesItsExitCodeOn) {
  // exec works on this machine, so a toolkit is brought in through CUDA_HOME.
  const std::string home = (dir_ / "my cuda").string();
  file("my cuda/version.json", R"({"cuda_nvcc": {"version": "12.3.107"}})");
  file("my cuda/bin/nvcc", "#!/bin/sh\necho this nvcc\n");
  std::filesystem::permissions(home + "/bin/nvcc", std::filesystem::perms::owner_all);
  environment_["CUDA_HOME"] = home;
  auto done = run({"env", "exec", "12.3", "--", "sh", "-c", "nvcc; echo \"$CUDA_PATH\"; exit 7"});
  EXPECT_EQ(done.exit_code, 7) << done.standard_error;
  EXPECT_EQ(done.standard_output, "this nvcc\n" + home + "\n");
  EXPECT_EQ(run({"env", "exec", "12.3", "--", "nvcc"}).standard_output, "this nvcc\n") << "found on the new PATH";
  EXPECT_EQ(run({"env", "exec", home, "--", "sh", "-c", "kill -9 $$"}).signal, 9);
  expect_error({"env", "exec", "12.3", "--", "no-such-program"}, 127, "was not found");
  expect_error({"env", "exec", "12.3"}, 2, "no command to run");
  expect_error({"env", "exec", "3.2", "--", "true"}, 2, "there is no CUDA toolkit 3.2");
}

TEST_F(Env, ModuleWritesBothSyntaxes) {
  EXPECT_TRUE(env({"module", "12.4"}).standard_output.starts_with("#%Module1.0\n"));
  EXPECT_THAT(env({"module", "12.4", "--lmod"}).standard_output,
              HasSubstr("setenv(\"CUDA_HOME\", \"/usr/local/cuda-12.4\")"));
  const std::string lua = (dir_ / "12.4.lua").string();
  const auto done = env({"module", "12.4", "-o", lua});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output, "");
  EXPECT_THAT(read_file(lua).value_or(""), HasSubstr("prepend_path(\"PATH\""));
  expect_error(here({"module", "12.4", "-o", "/no/such/folder/x"}), 2, "cannot write");
}

TEST_F(Env, CheckExplainsWhatContradicts) {
  environment_["PATH"] = "/usr/local/cuda-12.4/bin:/usr/bin:/bin";
  environment_["CUDA_HOME"] = "/usr/local/cuda-12.4";
  environment_["LD_LIBRARY_PATH"] = "/usr/local/cuda-12.4/lib64";
  const auto fine = env({"check"});
  EXPECT_EQ(fine.exit_code, 0) << fine.standard_output;
  EXPECT_THAT(fine.standard_output,
              HasSubstr("CUDA 12.4.131 (/usr/local/cuda-12.4): PATH finds its nvcc; CUDA_HOME names it"));
  environment_["CUDA_HOME"] = "/usr/local/cuda-11.8";
  environment_["CUDA_PATH"] = "/usr/local/cuda-12.1";
  environment_["LD_LIBRARY_PATH"] = "/usr/local/cuda-12.8/lib64:/usr/local/cuda-12.4/lib64";
  const auto report = run(here({"check", "--json"}));
  EXPECT_EQ(report.exit_code, 1);
  for (const char* id :
       {"cuda-home-differs-from-nvcc", "cuda-path-differs-from-cuda-home", "library-path-of-other-toolkit"})
    EXPECT_THAT(report.standard_output, HasSubstr(id));
  EXPECT_THAT(env({"check"}).standard_output, HasSubstr("CUDA_HOME is /usr/local/cuda-11.8, but CUDA_PATH is"));
}

TEST_F(Env, PersistReachesEveryNewShellUntilItIsRemoved) {
  const std::string home = (dir_ / "my cuda").string();
  file("my cuda/version.json", R"({"cuda_nvcc": {"version": "12.3.107"}})");
  file("my cuda/bin/nvcc", "");
  environment_["CUDA_HOME"] = home;
  const std::string rc = file("home/.bashrc", "alias x=y\n");
  const auto done = run({"env", "persist", "12.3"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr(rc + ": new shells use CUDA 12.3.107"));
  environment_.erase("CUDA_HOME");
  EXPECT_EQ(in_shell("bash", ". \"$HOME/.bashrc\"; echo \"$CUDA_HOME\"; printenv PATH"),
            home + "\n" + home + "/bin:/usr/local/bin:/usr/bin:/bin\n");
  EXPECT_EQ(run({"env", "persist", "--remove"}).exit_code, 0);
  EXPECT_EQ(read_file(rc), "alias x=y\n");
  expect_error({"env", "persist", "--remove"}, 2, "has no gpuwarden block");
  const std::string other = (dir_ / "other.fish").string();
  environment_["CUDA_HOME"] = home;
  EXPECT_EQ(run({"env", "persist", "12.3", "--shell", "fish", "--file", other}).exit_code, 0);
  EXPECT_THAT(read_file(other).value_or(""), HasSubstr("contains -- '" + home + "/bin' $PATH; or set -gx PATH"));
}

TEST_F(Env, ExplainTellsOfOneVariableOrOfAll) {
  environment_["NCCL_SOCKET_IFNAME"] = "eth0";
  const auto one = run({"env", "explain", "nccl_socket_ifname"});
  EXPECT_EQ(one.exit_code, 0);
  for (const char* part :
       {"NCCL_SOCKET_IFNAME\n", "values:", "default:", "when:", "here:    eth0", "source:  NCCL user"})
    EXPECT_THAT(one.standard_output, HasSubstr(part));
  const auto vllm = run({"env", "explain", "vllm"});
  EXPECT_THAT(vllm.standard_output, HasSubstr("VLLM_ATTENTION_BACKEND"));
  EXPECT_THAT(vllm.standard_output, Not(HasSubstr("NCCL_ALGO")));
  EXPECT_GE(json({"env", "explain"})["variables"].size(), 60U);
  expect_error({"env", "explain", "NCCL_SOCKET_IFNAM"}, 2, "nothing is known about 'NCCL_SOCKET_IFNAM'");
  EXPECT_THAT(run({"env", "explain", "NCCL_SOCKET_IFNAM"}).standard_error,
              HasSubstr("did you mean 'NCCL_SOCKET_IFNAME'?"));
}

TEST_F(Env, GenerateFitsTheMachine) {
  file("root/sys/class/net/ens3/operstate", "up\n");
  file("root/proc/net/route",
       "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
       "ens3\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\n");
  file("root/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  file("root/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  const auto nccl = env({"generate", "nccl"});
  EXPECT_EQ(nccl.exit_code, 0) << nccl.standard_error;
  EXPECT_THAT(nccl.standard_output,
              HasSubstr("# the interface of the default route\nexport NCCL_SOCKET_IFNAME='=ens3'\n"));
  EXPECT_THAT(nccl.standard_output, HasSubstr("export NCCL_IB_HCA='=mlx5_0'\n"));
  EXPECT_THAT(env({"generate", "nccl", "--shell", "fish"}).standard_output,
              HasSubstr("set -gx NCCL_SOCKET_IFNAME '=ens3'"));
  EXPECT_THAT(run(here({"generate", "vllm", "--simulate", "a100x4"})).standard_output,
              HasSubstr("export VLLM_WORKER_MULTIPROC_METHOD='spawn'"));
  expect_error(here({"generate", "tensorflow"}), 2, "nothing is generated for 'tensorflow'");
  expect_error(here({"generate"}), 2, "name one software");
}

TEST_F(Env, CreateShowsTheCommandsAndRunsThemOnlyWhenTold) {
  file("tools/uv",
       "#!/bin/sh\ncase \"$1\" in venv) for last; do :; done; mkdir -p \"$last/bin\"; echo made;; pip) exit "
       "${FAIL:-0};; esac\n");
  std::filesystem::permissions(dir_ / "tools/uv", std::filesystem::perms::owner_all);
  environment_["PATH"] = (dir_ / "tools").string() + ":/usr/bin:/bin";
  const std::string name = (dir_ / "lab").string();
  const auto shown = env({"create", name, "--cuda", "12.4", "--with", "torch", "--tool", "uv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.standard_error;
  EXPECT_THAT(shown.standard_output, HasSubstr("uv venv --python 3."));
  EXPECT_THAT(shown.standard_output, HasSubstr("--index-url https://download.pytorch.org/whl/cu124\n"));
  EXPECT_FALSE(std::filesystem::exists(name));
  environment_["FAIL"] = "5";
  const auto failed = env({"create", name, "--cuda", "12.4", "--tool", "uv", "--yes"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.standard_error, HasSubstr("failed with exit code 5; what it had made was removed"));
  EXPECT_FALSE(std::filesystem::exists(name));
  environment_.erase("FAIL");
  EXPECT_EQ(env({"create", name, "--cuda", "12.4", "--tool", "uv", "--yes"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(name + "/bin"));
  EXPECT_EQ(env({"create", name, "--cuda", "12.4", "--tool", "uv", "--yes"}).exit_code, 2) << "it is there already";
  EXPECT_TRUE(std::filesystem::exists(name + "/bin"));
  expect_error(here({"create", "x", "--cuda", "12.4", "--tool", "micromamba", "--yes"}), 3,
               "micromamba is not installed");
  expect_error(here({"create", "x"}), 2, "needs --cuda");
  expect_error(here({"create", "--cuda", "12.4"}), 2, "no name was given");
  expect_error(here({"create", "x", "--cuda", "twelve"}), 2, "is not a version");
}

}  // namespace
}  // namespace gpuwarden
