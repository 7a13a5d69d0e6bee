// SPDX-License-Identifier: Apache-2.0
// Pythons of a machine made of files: where they are found, what is in them, which one is active.
#include <gmock/gmock.h>

#include "probe/machine_tree.hpp"

namespace gpuwarden {
namespace {

using namespace std::string_literals;
using facts::PythonEnvironment;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MachineTree;
using ::testing::SizeIs;
using Texts = std::vector<std::string>;

/// "KIND PATH VERSION", with a '*' for the active one.
Texts pythons(const facts::Environment& environment) {
  Texts texts;
  for (const auto& one : environment.pythons)
    texts.push_back(one.kind + " " + one.path + " " + one.version.value_or("?") + (one.active ? " *" : ""));
  return texts;
}

std::string version_of(const PythonEnvironment& python, std::string_view package) {
  const auto* found = facts::find_package(python, package);
  return found == nullptr ? "none" : found->version + " " + found->manager;
}

void add_venv(const MachineTree& tree, const std::string& folder, const std::string& settings = "version = 3.11.2\n") {
  tree.file(folder + "/pyvenv.cfg", settings);
  tree.pip(folder + "/lib/python3.11/site-packages", "torch", "2.5.1");
}

TEST(SurveyPythons, ReadWhatPipInstalledAndWhatTorchSaysOfItself) {
  const MachineTree tree;
  const std::string site = "/root/.venv/lib/python3.11/site-packages";
  add_venv(tree, "/root/.venv");
  tree.pip(site, "Flash_Attn", "2.6.3");
  tree.pip(site, "nvidia_cudnn_cu12", "9.1.0.70");
  tree.pip(site, "requests", "2.31.0");
  tree.file(site + "/torch/version.py",
            "__version__ = '2.5.1+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n");
  tree.file(site + "/torch/lib/libtorch_python.so", "ELF\0sm_50 sm_80 sm_90 compute_90\0"s);
  const auto environment = tree.survey();
  ASSERT_THAT(environment.pythons, SizeIs(1));
  const PythonEnvironment& python = environment.pythons[0];
  EXPECT_EQ(version_of(python, "torch"), "2.5.1+cu124 pip");
  EXPECT_EQ(version_of(python, "flash-attn"), "2.6.3 pip");
  EXPECT_EQ(version_of(python, "nvidia-cudnn-cu12"), "9.1.0.70 pip");
  EXPECT_EQ(version_of(python, "requests"), "none");
  EXPECT_EQ(python.torch_cuda, "12.4");
  EXPECT_EQ(python.torch_rocm, std::nullopt);
  EXPECT_EQ(python.torch_debug, false);
  EXPECT_THAT(python.torch_architectures, ElementsAre("sm_50", "sm_80", "sm_90", "compute_90"));
  EXPECT_EQ(python.cuda_available, std::nullopt);  // nobody was asked
}

TEST(SurveyPythons, AreFoundInTheUsualPlaces) {
  const MachineTree tree;
  add_venv(tree, "/work/.venv", "uv = 0.4.1\nversion_info = 3.12.4\n");
  add_venv(tree, "/opt/venv");
  add_venv(tree, "/root/.virtualenvs/a");
  add_venv(tree, "/root/.cache/pypoetry/virtualenvs/b");
  tree.program("/root/.pyenv/versions/3.11.7/bin/python3");
  tree.pip("/root/.pyenv/versions/3.11.7/lib/python3.11/site-packages", "jax", "0.4.30");
  tree.file("/root/miniforge3/envs/c/conda-meta/python-3.10.14-h1.json");
  tree.file("/root/miniforge3/envs/c/conda-meta/cupy-13.0.0-h1.json");
  tree.file("/root/.conda/environments.txt", "/data/d\nnot a path\n/no/such\n");
  tree.file("/data/d/conda-meta/numpy-1.26.4-h1.json");
  EXPECT_THAT(pythons(tree.survey({}, "/work")),
              ElementsAre("uv /work/.venv 3.12.4", "venv /opt/venv 3.11.2", "venv /root/.virtualenvs/a 3.11.2",
                          "venv /root/.cache/pypoetry/virtualenvs/b 3.11.2", "pyenv /root/.pyenv/versions/3.11.7 3.11",
                          "conda /root/miniforge3/envs/c 3.10.14", "conda /data/d ?"));
}

TEST(SurveyPythons, TheActiveOneIsThatOfTheVariablesElseOfPath) {
  const MachineTree tree;
  add_venv(tree, "/work/venv");
  add_venv(tree, "/root/other");
  tree.program("/root/other/bin/python3");
  const std::string none = "venv /work/venv 3.11.2";
  EXPECT_THAT(pythons(tree.survey({}, "/work")), ElementsAre(none));
  EXPECT_THAT(pythons(tree.survey({{"VIRTUAL_ENV", "/work/venv"}}, "/work")), ElementsAre(none + " *"));
  EXPECT_THAT(pythons(tree.survey({{"PATH", "/nothing:/root/other/bin"}}, "/work")),
              ElementsAre("python /root/other 3.11.2 *", none));
}

TEST(SurveyPythons, PyenvsShimsStandForTheVersionThatItsFileNames) {
  const MachineTree tree;
  tree.program("/root/.pyenv/shims/python3");
  tree.program("/root/.pyenv/versions/3.12.1/bin/python3");
  tree.pip("/root/.pyenv/versions/3.12.1/lib/python3.12/site-packages", "vllm", "0.6.3");
  tree.file("/root/.pyenv/version", "3.12.1\n");
  EXPECT_THAT(pythons(tree.survey({{"PATH", "/root/.pyenv/shims"}})),
              ElementsAre("pyenv /root/.pyenv/versions/3.12.1 3.12 *"));
}

TEST(SurveyPythons, CondasPytorchIsTorchAndItsBuildTellsCuda) {
  const MachineTree tree;
  tree.file("/opt/conda/conda-meta/pytorch-2.4.0-py3.11_cuda12.4_cudnn9.1.0_0.json");
  tree.file("/opt/conda/conda-meta/python-3.11.9-h955ad1f_0.json");
  tree.pip("/opt/conda/lib/python3.11/site-packages", "torch", "2.4.0");
  const auto environment = tree.survey({{"CONDA_PREFIX", "/opt/conda"}});
  EXPECT_THAT(pythons(environment), ElementsAre("conda /opt/conda 3.11.9 *"));
  EXPECT_EQ(version_of(environment.pythons[0], "torch"), "2.4.0 conda");
  EXPECT_EQ(environment.pythons[0].torch_cuda, "12.4");
}

TEST(SurveyPythons, TheSystemsHasTheDistributionsPackagesAndTheUsersOwn) {
  const MachineTree tree;
  tree.program("/usr/bin/python3.11");
  tree.link("/usr/bin/python3", "python3.11");
  tree.pip("/usr/lib/python3/dist-packages", "numpy", "1.24.2");
  tree.pip("/usr/local/lib/python3.11/dist-packages", "torch", "2.1.0");
  tree.pip("/root/.local/lib/python3.11/site-packages", "numpy", "2.0.0");
  tree.pip("/usr/local/lib/python3.9/dist-packages", "jax", "0.3.0");
  const auto environment = tree.survey();
  EXPECT_THAT(pythons(environment), ElementsAre("system /usr 3.11 *"));
  EXPECT_EQ(version_of(environment.pythons[0], "numpy"), "2.0.0 pip");
  EXPECT_EQ(version_of(environment.pythons[0], "torch"), "2.1.0 pip");
  EXPECT_EQ(version_of(environment.pythons[0], "jax"), "none");  // of a Python that is not there
}

TEST(SurveyPythons, OneInUsrLocalIsItsOwn) {
  const MachineTree tree;
  tree.program("/usr/local/bin/python3.12");
  tree.link("/usr/local/bin/python3", "python3.12");
  tree.pip("/usr/local/lib/python3.12/site-packages", "torch", "2.6.0");
  EXPECT_THAT(pythons(tree.survey({{"PATH", "/usr/local/bin:/usr/bin"}})), ElementsAre("python /usr/local 3.12 *"));
  EXPECT_THAT(pythons(tree.survey()), ElementsAre("system /usr/local 3.12 *"));
}

TEST(SurveyPythons, AVenvThatSeesTheSystemsPackagesHasThemToo) {
  const MachineTree tree;
  tree.pip("/usr/lib/python3/dist-packages", "numpy", "1.24.2");
  tree.pip("/usr/local/lib/python3.11/dist-packages", "torch", "2.1.0");
  add_venv(tree, "/root/venv", "include-system-site-packages = true\n");
  const auto environment = tree.survey();
  ASSERT_THAT(environment.pythons, SizeIs(1));
  EXPECT_EQ(version_of(environment.pythons[0], "torch"), "2.5.1 pip");
  EXPECT_EQ(version_of(environment.pythons[0], "numpy"), "1.24.2 pip");
}

TEST(SurveyPythons, WithoutGpuSoftwareTheyAreNoNews) {
  const MachineTree tree;
  tree.file("/root/venv/pyvenv.cfg", "version = 3.11.2\n");
  tree.pip("/root/venv/lib/python3.11/site-packages", "requests", "2.31.0");
  EXPECT_THAT(pythons(tree.survey()), IsEmpty());
}

TEST(SurveyPythons, ThereAreNeverTooMany) {
  const MachineTree tree;
  for (int i = 0; i < 80; ++i) add_venv(tree, "/root/venvs/" + std::to_string(i));
  EXPECT_THAT(tree.survey().pythons, SizeIs(64));
}

}  // namespace
}  // namespace gpuwarden
