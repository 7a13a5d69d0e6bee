// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/machine_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "gpuwarden/facts/json.hpp"
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

/// More of a command line shows nowhere, and many of them have to fit into one message.
constexpr std::size_t kLongestName = 4096;

Json json_of(const Holder& holder) {
  facts::GpuProcess process = holder.process;
  if (process.command && process.command->size() > kLongestName) process.command->resize(kLongestName);
  return {{"process", facts::to_json(process)}, {"minors", holder.minors}};
}

Holder holder_of(const Json& json) {
  return {facts::gpu_process_from_json(json["process"]).value_or(facts::GpuProcess{}),
          json["minors"].get<std::vector<std::uint32_t>>()};
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

/// In a series, how often the kernel is asked for GPUs of other makers.
constexpr std::chrono::seconds kOthersPace{10};

/// Where NVIDIA's software is not there and found nothing, the GPUs of others are no trouble, and neither is a Tegra.
void add_rest(const ReaderOptions& options, std::vector<facts::GpuRecord> others, Snapshot& snapshot) {
  const bool none = snapshot.gpus.empty();
  if (auto tegra = none ? read_tegra(options) : std::nullopt) {
    snapshot.source = "sysfs";
    snapshot.gpus.push_back(std::move(*tegra));
  }
  for (facts::GpuRecord& other : others) {
    other.gpu.index = GpuIndex{static_cast<std::uint32_t>(snapshot.gpus.size())};
    snapshot.gpus.push_back(std::move(other));
  }
  const bool absent = snapshot.problem && facts::is_absence(snapshot.problem->kind);
  if (none && absent && !snapshot.gpus.empty()) snapshot.problem.reset();
}

}  // namespace

/// Looks for them beside what else is read, in a process of its own: a process in trouble may hang whoever looks at it
/// in /proc.
class MachineReader::HolderSearch {
 public:
  HolderSearch(const ReaderOptions& options, const ReadRequest& request)
      : options_(options), wanted_(request.holders), stop_(request.stop) {
    if (wanted_) child_ = ChildProcess::start([&options](int fd) { tell_holders(fd, options); });
  }

  /// Waits for the end of the search.
  void wait() {
    if (!wanted_ || found_) return;
    const auto message = child_ ? child_->receive(options_.timeout, stop_) : std::nullopt;
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
  std::stop_token stop_;
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
  HolderSearch holders(options_, request);
  Snapshot snapshot = read_nvidia(request, holders);
  const auto now = options_.clock->now();
  if (!request.every || !others_read_ || now - *others_read_ >= kOthersPace) {
    others_ = read_other_gpus(options_, GpuIndex{0});
    others_read_ = now;
  }
  add_rest(options_, others_, snapshot);
  if (request.links && request.detail >= Detail::full) snapshot.nics = read_nics(options_.sys_root, snapshot.gpus);
  holders.add_to(snapshot);
  return snapshot;
}

}  // namespace gpuwarden::probe
