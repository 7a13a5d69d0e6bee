// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/machine_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "probe/holder_search.hpp"
#include "probe/nics.hpp"
#include "probe/other_gpus.hpp"
#include "probe/smi_program.hpp"
#include "probe/sys_listing.hpp"
#include "probe/sysfs.hpp"
#include "probe/tegra.hpp"

namespace gpuwarden::probe {
namespace {

using facts::Snapshot;

/// nvidia-smi wakes every GPU, so it is not asked while one sleeps.
bool would_wake(const ReaderOptions& options) {
  return !options.wake && std::ranges::any_of(find_pci(options.sys_root), &PciGpu::suspended);
}

bool all_asleep(const ReaderOptions& options) {
  const auto gpus = find_pci(options.sys_root);
  return !options.wake && !gpus.empty() && std::ranges::all_of(gpus, &PciGpu::suspended);
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

MachineReader::MachineReader(ReaderOptions options) : options_(std::move(options)), nvml_(options_) {}

Snapshot MachineReader::read_nvidia(const ReadRequest& request, std::optional<HolderSearch>& holders) {
  // nvidia-smi opens every GPU, and must not be found at it.
  const auto ask_smi = [&] {
    if (request.holders && !holders) holders.emplace(options_, request.stop);
    if (holders) holders->wait();
    return read_with_nvidia_smi(options_, request);
  };
  // Where all sleep, the NVML reader lists them without opening anything.
  if (options_.probe != ProbeChoice::nvidia_smi || all_asleep(options_)) {
    Snapshot snapshot = nvml_.read(request);
    const bool fall_back = options_.probe == ProbeChoice::automatic && nvml_.library_failed() && !would_wake(options_);
    if (!fall_back) return snapshot;
    auto told = ask_smi();
    if (told) return std::move(*told);
    // This one says already who holds them.
    if (!request.every) holders.reset();
    return snapshot;
  }
  std::expected<Snapshot, facts::DriverProblem> told = std::unexpected(facts::DriverProblem(
      facts::DriverProblem::Kind::other, {ErrorCode::unavailable, "nvidia-smi would wake the GPUs that sleep",
                                          "add --wake, or leave --probe nvidia-smi out"}));
  if (!would_wake(options_)) told = ask_smi();
  if (told) return std::move(*told);
  if (request.holders && !holders) holders.emplace(options_, request.stop);
  Snapshot snapshot = begin_snapshot(options_);
  list_from_sys(options_, std::move(told.error()), snapshot);
  return snapshot;
}

Snapshot MachineReader::read(const ReadRequest& request) {
  // A series' session must not be lost with a search that hangs: this one goes on beside it.
  std::optional<HolderSearch> holders;
  if (request.holders && request.every) holders.emplace(options_, request.stop);
  Snapshot snapshot = read_nvidia(request, holders);
  const auto now = options_.clock->now();
  if (!request.every || !others_read_ || now - *others_read_ >= kOthersPace) {
    others_ = read_other_gpus(options_, GpuIndex{0});
    others_read_ = now;
  }
  add_rest(options_, others_, snapshot);
  if (request.links && request.detail >= Detail::full) snapshot.nics = read_nics(options_.sys_root, snapshot.gpus);
  if (holders) holders->add_to(snapshot);
  return snapshot;
}

}  // namespace gpuwarden::probe
