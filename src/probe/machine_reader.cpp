// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/machine_reader.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/probe/child_process.hpp"
#include "probe/holders.hpp"
#include "probe/nics.hpp"
#include "probe/other_gpus.hpp"
#include "probe/reader_child.hpp"
#include "probe/smi_program.hpp"
#include "probe/sys_listing.hpp"
#include "probe/sysfs.hpp"
#include "probe/tegra.hpp"

namespace gpuwarden::probe {
namespace {

using facts::Snapshot;
using Json = nlohmann::json;

/// nvidia-smi wakes every GPU, so it is not asked while one sleeps.
bool would_wake(const ReaderOptions& options) {
  return !options.wake && std::ranges::any_of(scan_pci(options.sys_root), &PciGpu::suspended);
}

bool all_asleep(const ReaderOptions& options) {
  const auto gpus = scan_pci(options.sys_root);
  return !options.wake && !gpus.empty() && std::ranges::all_of(gpus, &PciGpu::suspended);
}

void tell_holders(int fd, const ReaderOptions& options) {
  Json found = Json::array();
  for (const Holder& holder : find_holders(options.driver_proc_root))
    found.push_back({{"pid", holder.pid.value}, {"minors", holder.minors}});
  send_message(fd, {{"holders", found}});
}

/// Where NVIDIA's software is not there and found nothing, the GPUs of others are no trouble, and neither is a Tegra.
void add_rest(const ReaderOptions& options, Snapshot& snapshot) {
  const bool none = snapshot.gpus.empty();
  if (auto tegra = none ? read_tegra(options) : std::nullopt) {
    snapshot.source = "sysfs";
    snapshot.gpus.push_back(std::move(*tegra));
  }
  auto others = read_other_gpus(options, GpuIndex{static_cast<std::uint32_t>(snapshot.gpus.size())});
  std::ranges::move(others, std::back_inserter(snapshot.gpus));
  const bool absent = snapshot.problem && facts::is_absence(snapshot.problem->kind);
  if (none && absent && !snapshot.gpus.empty()) snapshot.problem.reset();
}

}  // namespace

/// Looks for them beside what else is read, in a process of its own: a process in trouble may hang whoever looks at it
/// in /proc.
class MachineReader::HolderSearch {
 public:
  HolderSearch(const ReaderOptions& options, bool wanted) : options_(options) {
    if (wanted) child_ = ChildProcess::start([&options](int fd) { tell_holders(fd, options); });
  }

  /// The first time, this waits for the end of the search.
  const std::vector<Holder>& found() {
    const auto message = child_ ? child_->receive(options_.timeout) : std::nullopt;
    child_.reset();
    for (const Json& holder : message ? message->value("holders", Json::array()) : Json::array())
      found_.push_back({Pid{holder["pid"].get<std::int32_t>()}, holder["minors"].get<std::vector<std::uint32_t>>()});
    return found_;
  }

 private:
  const ReaderOptions& options_;
  std::unique_ptr<ChildProcess> child_;
  std::vector<Holder> found_;
};

MachineReader::MachineReader(ReaderOptions options) : options_(std::move(options)), nvml_(options_) {}

Snapshot MachineReader::read_nvidia(const ReadRequest& request, HolderSearch& holders) {
  // Where all sleep, the NVML reader lists them without opening anything.
  if (options_.probe != ProbeChoice::nvidia_smi || all_asleep(options_)) {
    Snapshot snapshot = nvml_.read(request);
    const bool fall_back = options_.probe == ProbeChoice::automatic && nvml_.library_failed() && !would_wake(options_);
    if (!fall_back) return snapshot;
    // nvidia-smi opens every GPU, and must not be found at it.
    holders.found();
    auto told = read_with_nvidia_smi(options_, request);
    return told ? std::move(*told) : snapshot;
  }
  std::expected<Snapshot, facts::DriverProblem> told = std::unexpected(facts::DriverProblem(
      facts::DriverProblem::Kind::other, {ErrorCode::unavailable, "nvidia-smi would wake the GPUs that sleep",
                                          "add --wake, or leave --probe nvidia-smi out"}));
  holders.found();
  if (!would_wake(options_)) told = read_with_nvidia_smi(options_, request);
  if (told) return std::move(*told);
  Snapshot snapshot = begin_snapshot(options_);
  list_from_sys(options_, std::move(told.error()), snapshot);
  return snapshot;
}

Snapshot MachineReader::read(const ReadRequest& request) {
  HolderSearch holders(options_, request.holders);
  Snapshot snapshot = read_nvidia(request, holders);
  add_rest(options_, snapshot);
  if (request.links && request.detail >= Detail::full) snapshot.nics = read_nics(options_.sys_root, snapshot.gpus);
  add_holders(holders.found(), options_.proc_roots, snapshot);
  return snapshot;
}

}  // namespace gpuwarden::probe
