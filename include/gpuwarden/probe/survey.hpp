// SPDX-License-Identifier: Apache-2.0
// Looks at the software around the GPUs: driver, libraries, toolkits, Pythons, containers, services, the machine.
// Nothing it does changes anything, and nothing it starts is left running.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::probe {

struct SurveyRequest {
  /// Everything is read below this folder; links are resolved inside it. With another than "/" nothing is asked of the
  /// running kernel and no program is started: an image or a test tree.
  std::filesystem::path root = "/";
  /// The caller's environment variables; of these only what GPU software heeds is gathered, never a secret.
  Environment variables;
  std::filesystem::path working_directory;
  /// For each probe. One that does not end in time is named in Environment::not_probed.
  std::chrono::milliseconds deadline = std::chrono::seconds(2);
  bool start_programs = true;  ///< modinfo, nvcc, gcc, systemctl, rpm ... to ask their versions
  bool start_pythons = false;  ///< ask each Python with PyTorch for its architectures and whether CUDA is available
  /// For each Python that is asked: importing PyTorch takes seconds from a cold disk.
  std::chrono::milliseconds python_deadline = std::chrono::seconds(15);
};

/// What is there. Never fails: what cannot be looked at is a fact (not_probed).
facts::Environment survey(const SurveyRequest& request);

}  // namespace gpuwarden::probe
