// SPDX-License-Identifier: Apache-2.0
#include "probe/smi_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/probe/nvidia_smi.hpp"
#include "probe/proc.hpp"
#include "probe/sys_listing.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;
using ProblemKind = facts::DriverProblem::Kind;

/// Where Windows puts it for its Linux guests, outside of PATH.
constexpr const char* kWslProgram = "/usr/lib/wsl/lib/nvidia-smi";

/// What the program said when it gave up, as the captures of such output are read; else its first line.
facts::DriverProblem explain_failure(const fs::path& program, const Completed& done) {
  const std::string said = done.standard_output + "\n" + done.standard_error;
  if (auto capture = capture::read_capture(said, program.string()); capture && capture->snapshot.problem)
    return *capture->snapshot.problem;
  const std::string how = done.signal ? fmt::format("was killed by signal {}", *done.signal)
                                      : fmt::format("ended with exit code {}", done.exit_code.value_or(-1));
  const std::string text = printable(trim(said).substr(0, trim(said).find('\n')));
  return {done.signal ? ProblemKind::crashed : ProblemKind::other,
          {ErrorCode::unavailable, fmt::format("{} {}{}", program.string(), how, text.empty() ? "" : ": " + text),
           "run nvidia-smi -q -x by hand, and look into the kernel log (dmesg | grep -i nvrm)"}};
}

/// What the log does not tell, but the kernel does.
void complete(const ReaderOptions& options, const ReadRequest& request, facts::Snapshot& snapshot) {
  const auto known = scan_pci(options.sys_root);
  for (facts::GpuRecord& record : snapshot.gpus) {
    const auto found = std::ranges::find(known, record.gpu.pci_bus_id, &PciGpu::bus_id);
    if (found != known.end() && !record.gpu.numa_node) record.gpu.numa_node = found->numa_node;
    if (found != known.end() && !record.gpu.cpu_affinity) record.gpu.cpu_affinity = found->cpu_list;
    if (!request.processes) record.processes.reset();
    if (!record.processes) continue;
    for (facts::GpuProcess& process : *record.processes) name_process(options.proc_roots, process);
  }
}

}  // namespace

Result<Completed> run_nvidia_smi(const fs::path& program, const std::vector<std::string>& arguments,
                                 std::chrono::milliseconds deadline) {
  const auto run = [&](const std::string& name) {
    std::vector<std::string> argv{name};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return run_command({.argv = std::move(argv), .deadline = deadline});
  };
  auto done = run(program.string());
  const bool searched = !program.has_parent_path();
  if (!done && done.error().code == ErrorCode::not_found && searched) {
    // The first failure is the one to tell of.
    if (auto second = run(kWslProgram)) done = std::move(second);
  }
  if (done) return done;
  return fail(done.error().code, done.error().message,
              "install NVIDIA's driver and its tools (Debian: apt install nvidia-smi), or name the program with "
              "GPUWARDEN_NVIDIA_SMI");
}

std::expected<facts::Snapshot, facts::DriverProblem> read_with_nvidia_smi(const ReaderOptions& options,
                                                                          const ReadRequest& request) {
  const auto deadline = options.timeout * 2;
  const auto done = run_nvidia_smi(options.nvidia_smi, {"-q", "-x"}, deadline);
  if (!done) {
    const bool absent = done.error().code == ErrorCode::not_found;
    return std::unexpected(facts::DriverProblem(absent ? ProblemKind::no_library : ProblemKind::other, done.error()));
  }
  if (done->timed_out) {
    return std::unexpected(facts::DriverProblem(
        ProblemKind::timed_out,
        {ErrorCode::timed_out,
         fmt::format("{} did not end within {} ms", options.nvidia_smi.string(), deadline.count()),
         "look into the kernel log (dmesg | grep -i nvrm); a hung driver usually needs a reboot"}));
  }
  // A GPU in trouble makes the exit code, not the log, a failure.
  auto told = capture::snapshot_from_smi_xml(done->standard_output);
  if (!told || done->signal || done->truncated) return std::unexpected(explain_failure(options.nvidia_smi, *done));
  facts::Snapshot snapshot = begin_snapshot(options);
  snapshot.source = "nvidia-smi";
  snapshot.driver_version = std::move(told->driver_version);
  snapshot.cuda_driver_version = std::move(told->cuda_driver_version);
  snapshot.gpus = std::move(told->gpus);
  complete(options, request, snapshot);
  return snapshot;
}

}  // namespace gpuwarden::probe
