// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/survey.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/probe/kernel_messages.hpp"
#include "gpuwarden/probe/root_gpus.hpp"

namespace gpuwarden::machine {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kKernelLogDeadline(2);

/// Another machine's files are not judged by this shell's variables, but by those a login there would have at least.
void enter(probe::SurveyRequest& request) {
  request.variables = {{"HOME", "/root"},
                       {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin"}};
  request.working_directory = "/root";
}

facts::Environment software(const SurveyOptions& options, const fs::path& root, const Environment& variables) {
  probe::SurveyRequest request{.root = root, .variables = variables};
  request.working_directory = options.working_directory;
  if (root != "/") enter(request);
  request.start_pythons = options.start_pythons;
  request.deadline = std::max(request.deadline, options.deadline);
  return probe::survey(request);
}

void add_kernel_faults(facts::Snapshot& snapshot) {
  auto faults = probe::read_kernel_faults(kKernelLogDeadline);
  if (faults) {
    snapshot.kernel_faults = std::move(*faults);
  } else if (snapshot.environment) {
    snapshot.environment->not_probed.push_back({"kernel log", faults.error().message});
  }
}

}  // namespace

facts::Snapshot Machine::survey(const SurveyOptions& options, const probe::ReadRequest& request) const {
  std::error_code error;
  const fs::path canonical = fs::canonical(options.root, error);
  const fs::path root = error ? options.root : canonical;
  const bool elsewhere = root != "/";
  facts::Snapshot snapshot = captured_ ? *captured_ : elsewhere ? facts::Snapshot{} : read(request);
  if (elsewhere && !captured_) snapshot.origin = root.string();
  const bool here = !captured_ && !simulated();
  if (!here && !elsewhere) return snapshot;
  if (options.software) snapshot.environment = software(options, root, options_.environment);
  if (elsewhere && !captured_) probe::list_root_gpus(root, snapshot);
  if (here && !elsewhere && !snapshot.gpus.empty()) add_kernel_faults(snapshot);
  return snapshot;
}

Result<facts::Snapshot> Machine::survey_software(const SurveyOptions& options, bool gpus) const {
  if (captured_) {
    if (captured_->environment) return *captured_;
    return fail(ErrorCode::unsatisfied,
                fmt::format("{} says nothing about the software around the GPUs", printable(capture_name_)),
                "gpuwarden snapshot -o FILE, or PyTorch's collect_env, does");
  }
  facts::Snapshot snapshot;
  if (simulated() || (gpus && options.root == "/")) snapshot = read({.detail = probe::Detail::basic, .links = gpus});
  probe::SurveyRequest request{.root = options.root, .variables = options_.environment};
  request.working_directory = options.working_directory;
  request.deadline = std::max(request.deadline, options.deadline);
  snapshot.environment = probe::survey(request);
  return snapshot;
}

}  // namespace gpuwarden::machine
