// SPDX-License-Identifier: Apache-2.0
// What the knowledge base says about the facts at hand: the questions that several checks ask.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::doctor {

/// The messages of this kind that the report quotes.
std::vector<const facts::ReportedMessage*> of_kind(const Subject& subject, std::string_view kind);
/// The first of them, one with a value before one without; nullptr: there is none.
const facts::ReportedMessage* told_of(const Subject& subject, std::string_view kind);
/// " (line 12)"; empty where the line is not known.
std::string at_line(const facts::ReportedMessage& message);

/// NVIDIA's GPUs among the machine's.
std::vector<const facts::GpuRecord*> nvidia_gpus(const Subject& subject);
/// Those for which `holds`.
template <class Predicate>
std::vector<const facts::GpuRecord*> gpus_that(const Subject& subject, Predicate holds) {
  std::vector<const facts::GpuRecord*> result;
  for (const auto* gpu : nvidia_gpus(subject)) {
    if (holds(*gpu)) result.push_back(gpu);
  }
  return result;
}

/// The catalogue's row for a GPU, by PCI id, else by name; nullptr where it is not known.
const knowledge::GpuModel* model_of(const Subject& subject, const facts::Gpu& gpu);
/// 90 for compute capability 9.0: the GPU's own word, else the catalogue's.
std::optional<int> architecture_of(const Subject& subject, const facts::Gpu& gpu);
/// The architectures of NVIDIA's GPUs, one each, as far as they are known.
std::vector<int> all_architectures(const Subject& subject);
/// NVIDIA's GPUs of a lower architecture than this.
std::vector<const facts::GpuRecord*> gpus_below(const Subject& subject, int architecture);
/// Those between two architectures, both included.
std::vector<const facts::GpuRecord*> gpus_of_architecture(const Subject& subject, int first, int last);
/// How these GPUs set bad memory aside; unknown where they differ, too.
knowledge::MemoryRepair repair_of(const Subject& subject, const std::vector<const facts::GpuRecord*>& gpus);
/// "9.0" of 90.
std::string capability_text(int architecture);
/// A GPU for servers: no GeForce, RTX, Quadro, TITAN, GTX, Jetson. Empty name: no.
bool is_server_gpu(const facts::Gpu& gpu);
bool is_geforce(const facts::Gpu& gpu);

/// Whether NVIDIA's open kernel module alone drives this GPU (Grace Hopper, Blackwell), or the proprietary one alone
/// (before Turing). Both false: either, or not known.
bool needs_open_module(const Subject& subject, const facts::Gpu& gpu);
bool needs_proprietary_module(const Subject& subject, const facts::Gpu& gpu);
/// The last driver branch that serves all of the machine's GPUs; 0: every one, as far as is known.
int last_driver_branch(const Subject& subject);
/// The time for which advice is given. A report may be old, or tell no time; whoever reads what is said of it has this
/// knowledge base, so that it is no earlier than that.
std::chrono::system_clock::time_point time_of_advice(const Subject& subject);
/// What the machine's GPUs take: no newer branch than their last, the module that all of them work with.
DriverNeed taken_by_gpus(const Subject& subject);
/// `need` with a branch no older than this one, as far as what all findings ask and the GPUs take allow: for what any
/// driver that they take would mend.
DriverNeed no_older_than(const Subject& subject, Report& report, int branch, DriverNeed need = {});
/// The branch to install for this need: one that still gets fixes and serves all GPUs, where there is such a one, else
/// the oldest that will do. 0: nothing asks for one and the distribution's own will do, or why_no_driver() says more.
int fitting_branch(const Subject& subject, const DriverNeed& need);
/// Why no driver that is known here satisfies this need and the machine's GPUs; empty: one does.
std::string why_no_driver(const Subject& subject, const DriverNeed& need);

/// The driver in force, as the driver itself, its module or a report tells it. On WSL and Windows the number is the
/// Windows driver's, of the same branch.
std::optional<knowledge::Version> driver_of(const Subject& subject);
/// Its branch: 550.
std::optional<int> driver_branch(const Subject& subject);
/// The highest CUDA version that the driver offers: its own word, else the catalogue's by branch.
std::optional<knowledge::Version> driver_cuda(const Subject& subject);
/// cuda-compat's libcuda is on the library path: CUDA's version is then not the kernel driver's to limit.
bool uses_forward_compatibility(const Subject& subject);

/// Whether programs of this CUDA version run although the driver is older: cuda-compat is on the library path, or a
/// PyTorch of that major release, which asks for as new a driver, has said that it can use the GPU.
bool runs_by_compatibility(const Subject& subject, const knowledge::Version& cuda);

/// A PyTorch of this machine, taken apart.
struct Torch {
  const facts::PythonEnvironment* python = nullptr;
  std::string version;                     ///< "2.5.1"
  std::string build;                       ///< "cu124", "cpu", "rocm6.2"; empty where nothing tells
  std::optional<knowledge::Version> cuda;  ///< 12.4
  std::vector<std::string> architectures;  ///< compiled in, as that Python says, else as the catalogue has the wheel
  bool own_word = false;                   ///< the architectures are that Python's own answer
};
std::vector<Torch> torches(const Subject& subject);
/// The version of an installed package; empty where it is not there or not to be read.
std::optional<knowledge::Version> package_version(const facts::PythonEnvironment& python, std::string_view package);
/// "in /srv/venv", or "" for a report's only Python.
std::string where(const facts::PythonEnvironment& python);

/// Whether code compiled for these ("sm_80", "sm_90a", "compute_90") runs on this architecture (90).
bool code_runs_on(const std::vector<std::string>& compiled, int architecture);

/// Whether CUDA_VISIBLE_DEVICES with this value hides every GPU: CUDA stops at the first entry that names none.
bool hides_all_gpus(std::string_view mask);

/// GPU and machine are inside a virtual machine.
bool is_virtual_machine(const Subject& subject);
bool is_wsl(const Subject& subject);
/// Whose driver the machine has, and which commands it takes.
knowledge::Platform platform_of(const Subject& subject);
bool is_container(const Subject& subject);

}  // namespace gpuwarden::doctor
