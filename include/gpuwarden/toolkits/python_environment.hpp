// SPDX-License-Identifier: Apache-2.0
// Makes a Python environment with a CUDA version in it: first a plan of commands to read, then, if wanted, all of them
// or nothing.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::toolkits {

/// What makes environments, in the order in which it is chosen where several are installed.
enum class Maker { mamba, conda, micromamba, uv, venv };
std::string_view to_string(Maker maker);
std::optional<Maker> maker_from(std::string_view name);
/// The program behind it: "conda"; python3 for venv.
std::string program_of(Maker maker);
/// Those whose program is on PATH.
std::vector<Maker> installed_makers(const Environment& variables);

struct PythonEnvironmentRequest {
  std::string name;  ///< of a conda environment, or a folder (one with '/' is a folder for all makers)
  knowledge::Version cuda;
  std::optional<std::string> python;             ///< "3.11"
  std::vector<std::string> packages;             ///< as pip takes them: "torch", "vllm==0.10.0"
  std::filesystem::path working_directory = {};  ///< where a relative folder begins
  std::optional<Maker> maker = {};               ///< empty: the first that is installed, else conda
};

/// Of "cuda" (12.4), "python", "with" and "tool" (a maker), without a working directory. Fails with invalid_argument.
Result<PythonEnvironmentRequest> read_python_environment(const std::string& name, const NamedValues& values);

/// Commands to be run in order. All or nothing: what exists already is left alone, a failure is undone.
struct PythonEnvironmentPlan {
  std::vector<std::vector<std::string>> commands;
  std::vector<std::string> notes;               ///< what is to be known before
  std::string activation;                       ///< how a shell enters it
  std::optional<std::filesystem::path> folder;  ///< what comes into being; absolute, without . and ..
  std::string name;                             ///< of a conda environment; empty for a folder
  std::string program;
  std::vector<Maker> instead;  ///< where the program is not installed: those that are
  bool installed = true;       ///< the program is
  /// Conda may take so long to tell which environments there are.
  std::chrono::milliseconds list_deadline = std::chrono::minutes(1);
};

/// What to do where the program is not installed: "--tool uv: uv is installed".
std::string instead_of(const PythonEnvironmentPlan& plan);

/// The plan. PyTorch is taken in the newest release that has a build for the CUDA version and the Python. Fails with
/// invalid_argument (names, versions) and unsatisfied (no such build: says which there are; a CUDA of a later major
/// release than is known).
Result<PythonEnvironmentPlan> plan_python_environment(const PythonEnvironmentRequest& wanted, Maker maker,
                                                      std::optional<knowledge::Version> driver,
                                                      const knowledge::Knowledge& knowledge);

/// The same by the request's maker, among those that are installed where `variables` are.
Result<PythonEnvironmentPlan> plan_python_environment(const PythonEnvironmentRequest& wanted,
                                                      const Environment& variables,
                                                      std::optional<knowledge::Version> driver,
                                                      const knowledge::Knowledge& knowledge);

/// Runs a command in sight of the user and gives its exit code; 128 and more: ended by a signal.
using Runner = std::function<Result<int>(const std::vector<std::string>&)>;

/// Carries the plan out. Fails with unavailable where its program is not installed, with invalid_argument where the
/// environment exists already, with unavailable or
/// timed_out where conda does not tell which there are (nothing is run then), and with failed or interrupted where a
/// command fails: what had been made is then removed, and the message says so, or what may be left.
Result<void> create_python_environment(const PythonEnvironmentPlan& plan, const Runner& run);

}  // namespace gpuwarden::toolkits
