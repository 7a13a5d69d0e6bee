// SPDX-License-Identifier: Apache-2.0
// What a Python is to have once a report's commands are followed: one PyTorch that runs on the GPUs and the driver, and
// with it all that is made for one PyTorch. Every finding that replaces PyTorch or vLLM takes its commands from here,
// so that none undoes another's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/torch_pins.hpp"

namespace gpuwarden::doctor {

/// Checks whose commands bring another PyTorch: what is only made for the one that is there follows from them.
inline constexpr std::string_view kBringsOtherTorch =
    "torch-too-old-for-gpu torch-dropped-gpu torch-for-other-maker vllm-torch-differs vllm-cuda-differs "
    "vllm-without-blackwell-kernels";

/// The processor's architecture for which wheels are sought: "x86_64" where nothing tells.
std::string wheel_machine(const Subject& subject);

/// "torchvision", for pip to find the release that goes with a PyTorch beside which it is named;
/// "torchvision==0.24.1+cu126" where it would keep that release's build for something else.
std::string companion_requirement(const facts::PythonPackage& package, const knowledge::Version& torch,
                                  std::string_view build);

/// The command for a wheel, where nothing else of the plan is known; by its label, where the machine's first Python has
/// another build of that release.
std::string wheel_command(const Subject& subject, const knowledge::TorchBuild& wheel);

/// "   # needs driver 580 or newer", behind the command for a wheel: where nobody told the driver, whoever types it has
/// to know whether his will do.
std::string needs_driver(const knowledge::TorchBuild& wheel);

/// The commands for the newest PyTorch that runs on all GPUs with this driver (empty: any), for the vLLM that brings it
/// where one is installed, and for what else is made for one PyTorch; a sentence where there is none, or where it
/// cannot be told.
std::vector<std::string> fitting_torch(const Subject& subject, const facts::PythonEnvironment& python,
                                       std::optional<knowledge::Version> driver);
/// The same with the driver that the machine has, for its first Python.
std::vector<std::string> fitting_torch(const Subject& subject);
/// The same with exactly this driver; empty: none is known that runs with it, or one older than the installed vLLM.
std::vector<std::string> torch_for_driver(const Subject& subject, const facts::PythonEnvironment& python,
                                          const knowledge::Version& driver);
/// The same for that Python; where only a newer driver runs such a PyTorch, that driver first.
std::vector<std::string> torch_steps(const Subject& subject, Report& report, const facts::PythonEnvironment& python);

/// The commands for a vLLM that runs on all GPUs with the machine's driver, or with a newer one that comes first: the
/// installed release where it does, else the newest; one older than that is the last resort. Empty: none is installed
/// that was not built by its owner, or none is known that runs on these GPUs.
std::vector<std::string> vllm_steps(const Subject& subject, Report& report, const facts::PythonEnvironment& python);
/// Whether the vLLM that is installed is made for another PyTorch, so that its commands replace this one.
bool is_replaced_by_vllm(const Subject& subject, const facts::PythonEnvironment& python);

/// The system's glibc, where it is older than a wheel of PyTorch asks for; nothing where it will do or is not told.
std::optional<knowledge::Version> too_old_libc(const Subject& subject, const knowledge::Version& torch,
                                               std::string_view build);

/// The CUDA of the PyTorch with which extensions are to be compiled: of the one that is installed, where it has code
/// for all GPUs and stays, else of the one that comes. Nothing where none is installed, or none is known.
std::optional<knowledge::Version> cuda_of_torch_to_be(const Subject& subject);

/// The Triton that a PyTorch takes: "pip install 'triton==3.5.*'".
std::string triton_for(const facts::PythonEnvironment& python, const knowledge::TritonPin& pin);
/// The release that goes with a PyTorch ("2.9.1+cu128"), from the index of its build; else one's own build.
std::vector<std::string> xformers_for(const facts::PythonEnvironment& python, std::string_view torch);

}  // namespace gpuwarden::doctor
