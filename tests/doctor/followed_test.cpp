// SPDX-License-Identifier: Apache-2.0
// Who follows every command of a report, in its order, has parts in the end that fit each other, and installs none of
// them twice.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "doctor/machines.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/torch_companions.hpp"

namespace gpuwarden::testing {
namespace {

using doctor::Severity;
using knowledge::Version;

const knowledge::Knowledge& tables() {
  static const knowledge::Knowledge kTables = knowledge::Knowledge::built_in();
  return kTables;
}

struct Gpu {
  std::string_view name;
  int architecture;
};

/// What a report tells of.
struct Machine {
  Gpu gpu;
  Version driver;
  Version torch;
  std::string build;  ///< "cu128"
  std::string vllm;   ///< empty: none
  std::string xformers;
};

std::string report_of(const Machine& machine) {
  const std::string torch = fmt::format("{}.{}.{}", machine.torch.major, machine.torch.minor, machine.torch.patch);
  const auto cuda = knowledge::cuda_of_build(machine.build);
  std::string text = fmt::format(
      "PyTorch version: {}+{}\nIs debug build: False\nCUDA used to build PyTorch: {}\nOS: Ubuntu 22.04.4 LTS "
      "(x86_64)\nPython version: 3.12.3 (64-bit runtime)\nIs CUDA available: False\nGPU models and configuration: GPU "
      "0: {}\nCUDA runtime version: 11.5.119\nNvidia driver version: {}\nVersions of relevant libraries:\n[pip3] "
      "torch=={}\n",
      torch, machine.build, cuda ? to_string(*cuda) : "None", machine.gpu.name, to_string(machine.driver), torch);
  if (!machine.vllm.empty()) text += fmt::format("[pip3] vllm=={}\n", machine.vllm);
  if (!machine.xformers.empty()) text += fmt::format("[pip3] xformers=={}\n", machine.xformers);
  return text;
}

/// Does what the steps say; what a step installs that another has installed already is noted.
class Follower {
 public:
  explicit Follower(Machine machine) : machine_(std::move(machine)) {}

  void follow(const std::string& step) {
    std::string version;
    std::string build;
    if (RE2::PartialMatch(step, R"(nvidia-driver-(\d+)|driver of branch (\d+))", &version, &build)) {
      const std::string branch = version.empty() ? build : version;
      note("driver", branch);
      const Version driver{static_cast<int>(parse_integer(branch).value_or(0))};
      if (driver.major != machine_.driver.major) machine_.driver = driver;
    }
    if (!doctor::is_command(step)) return;
    if (step.contains("pip uninstall -y torch")) machine_.torch = {};
    if (RE2::PartialMatch(step, R"(pip install (?:--no-deps )?torch==(\S+) --index-url \S+/whl/(\w+))", &version,
                          &build))
      take_torch(version, build);
    if (RE2::PartialMatch(step, R"(pip install '?vllm==([\w.]+)(?:\+(cu\d+))?)", &version, &build))
      take_vllm(version, build);
    if (RE2::PartialMatch(step, R"(xformers==([\w.]+))", &version)) machine_.xformers = version;
    if (step.contains("pip uninstall -y xformers")) machine_.xformers.clear();
    if (RE2::PartialMatch(step, R"(install cuda-toolkit-(\d+-\d+))", &version)) {
      note("toolkit", version);
      toolkit_ = Version::parse(std::string(version).replace(version.find('-'), 1, "."));
    }
  }

  const Machine& machine() const { return machine_; }
  /// The one that was installed; nothing where none was.
  const std::optional<Version>& toolkit() const { return toolkit_; }
  /// Parts that were installed in two ways: "torch".
  std::vector<std::string> twice() const {
    std::vector<std::string> parts;
    for (const auto& [part, ways] : ways_) {
      if (ways.size() > 1) parts.push_back(part + ": " + join({ways.begin(), ways.end()}, ", "));
    }
    return parts;
  }

 private:
  void note(const std::string& part, const std::string& way) { ways_[part].insert(way); }

  /// What is installed is enough for pip, whatever its build, where the release is asked for without a label (source:
  /// PEP 440, "Version matching").
  void take_torch(const std::string& asked, const std::string& build) {
    const Version version = Version::parse(asked).value_or(Version{});
    if (version == machine_.torch && (!asked.contains('+') || machine_.build == build)) return;
    note("torch", to_string(version) + build);
    machine_.torch = version;
    machine_.build = build;
  }

  /// pip takes the PyTorch that it pins with it, and an xFormers that goes with that.
  void take_vllm(const std::string& version, const std::string& build) {
    const auto* const row = tables().vllm(Version::parse(version).value_or(Version{}));
    ASSERT_NE(row, nullptr) << version;
    note("vllm", version);
    machine_.vllm = version;
    take_torch(to_string(row->torch), build.empty() ? knowledge::build_of_cuda(row->cuda) : build);
    const auto fitting = knowledge::companions_of(row->torch);
    for (const auto* one : fitting) {
      if (one->package == "xformers" && !machine_.xformers.empty()) machine_.xformers = one->version;
    }
  }

  Machine machine_;
  std::optional<Version> toolkit_;
  std::map<std::string, std::set<std::string>> ways_;
};

/// What does not go together; empty: everything does.
std::string clash_of(const Machine& machine, bool with_vllm) {
  const auto cuda = knowledge::cuda_of_build(machine.build);
  if (!cuda) return fmt::format("PyTorch {}+{} is not for NVIDIA's GPUs", to_string(machine.torch), machine.build);
  const auto how = tables().runs_on(*cuda, machine.driver);
  if (how != knowledge::RunsOn::natively && how != knowledge::RunsOn::by_minor_version)
    return fmt::format("PyTorch's {} does not run on driver {}", machine.build, to_string(machine.driver));
  const auto* const wheel = tables().torch(machine.torch, machine.build);
  if (wheel != nullptr && knowledge::wheel_fit(tables(), *wheel, machine.gpu.architecture, machine.driver) >
                              knowledge::WheelFit::runs_by_jit)
    return fmt::format("PyTorch {}+{} does not run on the GPU", to_string(machine.torch), machine.build);
  const auto* const vllm = machine.vllm.empty() ? nullptr : tables().vllm(*Version::parse(machine.vllm));
  if (with_vllm && vllm != nullptr && knowledge::release_of(vllm->torch) != knowledge::release_of(machine.torch))
    return fmt::format("vLLM {} beside PyTorch {}", machine.vllm, to_string(machine.torch));
  const auto* const xformers = knowledge::torch_companion("xformers", machine.xformers);
  if (xformers != nullptr && !knowledge::goes_with(*xformers, machine.torch))
    return fmt::format("xFormers {} beside PyTorch {}", machine.xformers, to_string(machine.torch));
  return {};
}

std::vector<Machine> machines() {
  std::vector<Machine> all;
  // The last branches of Kepler, older than the CUDA of the last PyTorch for it.
  for (const Version driver : {Version{450, 80, 2}, Version{470, 82, 1}}) {
    for (const char* build : {"cu117", "cu118"}) all.push_back({{"Tesla K80", 37}, driver, {2, 0, 1}, build, "", ""});
  }
  for (const Gpu gpu : {Gpu{"NVIDIA A100-PCIE-40GB", 80}, Gpu{"NVIDIA GeForce RTX 5090", 120},
                        Gpu{"Tesla V100-SXM2-16GB", 70}, Gpu{"NVIDIA GeForce GTX 1080", 61}}) {
    for (const Version driver : {Version{470, 82, 1}, Version{535, 183, 1}, Version{575, 57, 8}, Version{580, 65, 6}}) {
      for (const auto& [torch, build] : {std::pair(Version{2, 4, 0}, "cu121"),
                                         {Version{2, 9, 1}, "cu130"},
                                         {Version{2, 8, 0}, "cu128"},
                                         {Version{2, 6, 0}, "cu118"},
                                         {Version{2, 6, 0}, "cpu"},
                                         {Version{2, 6, 0}, "rocm6.2"},
                                         {Version{2, 13, 0}, "cpu"}}) {
        for (const char* vllm : {"", "0.5.4", "0.8.5.post1", "0.9.0", "0.11.0", "0.28.0"}) {
          for (const char* xformers : {"", "0.0.27.post2"}) all.push_back({gpu, driver, torch, build, vllm, xformers});
        }
      }
    }
  }
  return all;
}

/// Follows the findings of at least this severity.
void expect_to_fit(const Machine& machine, Severity least) {
  const std::string text = report_of(machine);
  const auto capture = capture::read_capture(text, "paste.txt");
  ASSERT_TRUE(capture) << text;
  Follower follower(machine);
  std::string steps;
  for (const auto& finding : examined(capture->snapshot).findings) {
    if (finding.severity < least) continue;
    for (const std::string& step : finding.fix) {
      follower.follow(step);
      steps += fmt::format("  {}: {}\n", finding.id, step);
    }
  }
  const bool vllm_has_a_release =
      knowledge::newest_vllm_for(tables(), {machine.gpu.architecture}, std::nullopt) != nullptr;
  EXPECT_EQ(clash_of(follower.machine(), vllm_has_a_release), "") << text << steps;
  if (follower.toolkit()) {
    EXPECT_EQ(follower.toolkit(), knowledge::cuda_of_build(follower.machine().build)) << text << steps;
  }
  EXPECT_EQ(join(follower.twice(), "; "), "") << text << steps;
  EXPECT_GE(follower.machine().driver, machine.driver) << "each GPU is served by its driver\n" << text << steps;
  if (Version::parse(follower.machine().vllm) == Version::parse(machine.vllm)) {
    EXPECT_EQ(follower.machine().vllm, machine.vllm) << "its post-release stays\n" << text << steps;
  }
}

TEST(Followed, AllCommandsTogetherEndWithPartsThatFitEachOther) {
  for (const Machine& machine : machines()) {
    // Notes are for who wants to; without them it fits as well.
    for (const Severity least : {Severity::warning, Severity::info}) expect_to_fit(machine, least);
  }
}

}  // namespace
}  // namespace gpuwarden::testing
