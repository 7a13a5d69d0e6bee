// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/machine_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

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

/// The names that a holder has besides its pid.
constexpr std::pair<const char*, std::optional<std::string> facts::GpuProcess::*> kNames[] = {
    {"user", &facts::GpuProcess::user},
    {"command", &facts::GpuProcess::command},
    {"container", &facts::GpuProcess::container},
    {"pod", &facts::GpuProcess::pod},
    {"slurm_job", &facts::GpuProcess::slurm_job}};

/// More of a command line shows nowhere, and many of them have to fit into one message.
constexpr std::size_t kLongestName = 4096;

Json json_of(const Holder& holder) {
  Json json{{"pid", holder.process.pid.value}, {"minors", holder.minors}};
  for (const auto& [key, name] : kNames) {
    if (holder.process.*name) json[key] = (holder.process.*name)->substr(0, kLongestName);
  }
  return json;
}

Holder holder_of(const Json& json) {
  Holder holder{{.pid = Pid{json["pid"].get<std::int32_t>()}, .listed = false},
                json["minors"].get<std::vector<std::uint32_t>>()};
  for (const auto& [key, name] : kNames) {
    if (json.contains(key)) holder.process.*name = json[key].get<std::string>();
  }
  return holder;
}

void tell_holders(int fd, const ReaderOptions& options) {
  Json found = Json::array();
  for (const Holder& holder : find_holders(options.driver_proc_root, options.proc_roots))
    found.push_back(json_of(holder));
  send_message(fd, {{"holders", found}});
}

facts::ReadingGap unknown_holders(std::chrono::milliseconds timeout, bool ended) {
  using Kind = facts::DriverProblem::Kind;
  if (ended)
    return {
        facts::ReadingGap::Part::holders,
        {Kind::other,
         {ErrorCode::failed, "the process that looks for those that have a GPU open could not run to its end", ""}}};
  return {facts::ReadingGap::Part::holders,
          {Kind::timed_out,
           {ErrorCode::timed_out,
            fmt::format("the processes that have a GPU open could not be found within {} ms", timeout.count()),
            "a process in uninterruptible sleep may hold /proc up: ps -eo pid,stat,wchan:30,args | grep ' D'"}}};
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
  HolderSearch(const ReaderOptions& options, bool wanted) : options_(options), wanted_(wanted) {
    if (wanted) child_ = ChildProcess::start([&options](int fd) { tell_holders(fd, options); });
  }

  /// Waits for the end of the search.
  void wait() {
    if (!wanted_ || found_) return;
    const auto message = child_ ? child_->receive(options_.timeout) : std::nullopt;
    if (child_) ended_ = child_->closed();
    child_.reset();
    if (!message || !message->contains("holders")) return;
    found_.emplace();
    for (const Json& holder : (*message)["holders"]) found_->push_back(holder_of(holder));
  }

  /// What was found and still runs; a gap where the search did not end.
  void add_to(Snapshot& snapshot) {
    wait();
    if (wanted_ && !found_) snapshot.gaps.push_back(unknown_holders(options_.timeout, ended_));
    if (!found_) return;
    drop_ended(options_.driver_proc_root, *found_);
    add_holders(*found_, snapshot);
  }

 private:
  const ReaderOptions& options_;
  bool wanted_;
  bool ended_ = true;  ///< without an answer, or never started
  std::unique_ptr<ChildProcess> child_;
  std::optional<std::vector<Holder>> found_;
};

MachineReader::MachineReader(ReaderOptions options) : options_(std::move(options)), nvml_(options_) {}

Snapshot MachineReader::read_nvidia(const ReadRequest& request, HolderSearch& holders) {
  // Where all sleep, the NVML reader lists them without opening anything.
  if (options_.probe != ProbeChoice::nvidia_smi || all_asleep(options_)) {
    Snapshot snapshot = nvml_.read(request);
    const bool fall_back = options_.probe == ProbeChoice::automatic && nvml_.library_failed() && !would_wake(options_);
    if (!fall_back) return snapshot;
    // nvidia-smi opens every GPU, and must not be found at it.
    holders.wait();
    auto told = read_with_nvidia_smi(options_, request);
    return told ? std::move(*told) : snapshot;
  }
  std::expected<Snapshot, facts::DriverProblem> told = std::unexpected(facts::DriverProblem(
      facts::DriverProblem::Kind::other, {ErrorCode::unavailable, "nvidia-smi would wake the GPUs that sleep",
                                          "add --wake, or leave --probe nvidia-smi out"}));
  holders.wait();
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
  holders.add_to(snapshot);
  return snapshot;
}

}  // namespace gpuwarden::probe
