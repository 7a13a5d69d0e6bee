// SPDX-License-Identifier: Apache-2.0
#include "probe/event_child.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/nvml_library.hpp"
#include "probe/problems.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

using facts::GpuEventKind;
using Json = nlohmann::json;
using nvml::Return;

/// How long one wait lasts; the process is killed when it is not wanted any more.
constexpr unsigned kWaitMilliseconds = 10'000;

constexpr std::array<std::pair<unsigned long long, GpuEventKind>, 6> kKinds{
    {{nvml::kEventXid, GpuEventKind::xid},
     {nvml::kEventSingleBitEcc, GpuEventKind::ecc_single_bit},
     {nvml::kEventDoubleBitEcc, GpuEventKind::ecc_double_bit},
     {nvml::kEventClock, GpuEventKind::clock},
     {nvml::kEventPState, GpuEventKind::performance_state},
     {nvml::kEventMigConfigChange, GpuEventKind::mig_config}}};

class EventServer {
 public:
  EventServer(int fd, const ReaderOptions& options, const std::vector<Uuid>& only)
      : fd_(fd), options_(options), only_(only) {}

  void serve() {
    auto opened = open_nvml(options_.nvml_library);
    if (!opened) return give_up(opened.error());
    nvml_ = *opened;
    const auto pci = find_pci(options_.sys_root);
    const bool leave_asleep = !options_.wake && std::ranges::any_of(pci, &PciGpu::suspended);
    if (const Return code = initialise(leave_asleep); code != nvml::kSuccess)
      return give_up(explain_init(code, nvml_, options_));
    if (only_.empty())
      find_gpus(leave_asleep, pci);
    else
      find_these();
    if (!watch()) {
      return give_up({ErrorCode::unavailable, "no GPU of this machine reports events to NVML",
                      "the kernel log shows Xids, too (dmesg | grep -i xid)"});
    }
    if (!send_message(fd_, {{"watching", gpus_.size()}})) return;
    while (wait_once()) continue;
  }

 private:
  struct WatchedGpu {
    nvml::Device device;
    Uuid uuid;
  };

  void give_up(const Error& error) const { send_message(fd_, {{"problem", facts::to_json(error)}}); }

  Return initialise(bool leave_asleep) const {
    if (leave_asleep && nvml_.nvmlInitWithFlags != nullptr) return nvml_.nvmlInitWithFlags(nvml::kInitFlagNoAttach);
    return nvml_.nvmlInit_v2 != nullptr ? nvml_.nvmlInit_v2() : nvml_.nvmlInit();
  }

  /// Asking by index would wake all; where some sleep, the others are asked for by their places.
  void find_gpus(bool leave_asleep, const std::vector<PciGpu>& pci) {
    unsigned count = 0;
    nvml::Device device = nullptr;
    if (!leave_asleep && call(nvml_.nvmlDeviceGetCount_v2, &count) != nvml::kSuccess) count = 0;
    count = std::min(count, kMostGpus);
    for (unsigned index = 0; index < count; ++index) {
      if (call(nvml_.nvmlDeviceGetHandleByIndex_v2, index, &device) == nvml::kSuccess) add(device);
    }
    for (const PciGpu& gpu : leave_asleep ? pci : std::vector<PciGpu>{}) {
      if (gpu.suspended) continue;
      if (call(nvml_.nvmlDeviceGetHandleByPciBusId_v2, gpu.bus_id.c_str(), &device) == nvml::kSuccess) add(device);
    }
  }

  /// One that hangs and was not asked for costs nothing.
  void find_these() {
    nvml::Device device = nullptr;
    for (const Uuid& uuid : only_) {
      if (call(nvml_.nvmlDeviceGetHandleByUUID, uuid.value.c_str(), &device) == nvml::kSuccess) add(device);
    }
  }

  void add(nvml::Device device) {
    std::array<char, nvml::kUuidBufferSize> uuid{};
    if (call(nvml_.nvmlDeviceGetUUID, device, uuid.data(), static_cast<unsigned>(uuid.size() - 1)) == nvml::kSuccess)
      gpus_.push_back({device, Uuid(printable(uuid.data()))});
  }

  /// Makes the event set anew from the GPUs that report events; false where none does.
  bool watch() {
    if (set_ != nullptr) call(nvml_.nvmlEventSetFree, set_);
    set_ = nullptr;
    if (call(nvml_.nvmlEventSetCreate, &set_) != nvml::kSuccess) return false;
    std::erase_if(gpus_, [&](const WatchedGpu& gpu) { return !register_gpu(gpu.device); });
    return !gpus_.empty();
  }

  bool register_gpu(nvml::Device device) const {
    unsigned long long wanted = 0;
    for (const auto& [bit, kind] : kKinds) wanted |= bit;
    unsigned long long supported = wanted;
    call(nvml_.nvmlDeviceGetSupportedEventTypes, device, &supported);
    wanted &= supported;
    return wanted != 0 && call(nvml_.nvmlDeviceRegisterEvents, device, wanted, set_) == nvml::kSuccess;
  }

  /// Waits for one event and sends it; false when there is no more to wait for.
  bool wait_once() {
    nvml::EventData data{};
    const Return code = wait(data);
    if (code == nvml::kTimeout) return true;
    if (code == nvml::kGpuIsLost) return drop_lost();
    if (code != nvml::kSuccess) {
      give_up({ErrorCode::unavailable, fmt::format("NVML stopped reporting events (NVML code {})", code),
               "look into the kernel log (dmesg | grep -i nvrm)"});
      return false;
    }
    for (const auto& [bit, kind] : kKinds) {
      if ((data.type & bit) != 0 && !send(kind, uuid_of(data.device), data.data)) return false;
    }
    return true;
  }

  Return wait(nvml::EventData& data) const {
    if (nvml_.nvmlEventSetWait_v2 != nullptr) return nvml_.nvmlEventSetWait_v2(set_, &data, kWaitMilliseconds);
    nvml::EventDataV1 old{};
    const Return code = call(nvml_.nvmlEventSetWait, set_, &old, kWaitMilliseconds);
    data.device = old.device;
    data.type = old.type;
    data.data = old.data;
    return code;
  }

  Uuid uuid_of(nvml::Device device) const {
    const auto found = std::ranges::find(gpus_, device, &WatchedGpu::device);
    return found == gpus_.end() ? Uuid() : found->uuid;
  }

  bool send(GpuEventKind kind, const Uuid& uuid, unsigned long long data) const {
    const facts::GpuEvent event{kind, uuid, data, options_.clock->wall_now()};
    return send_message(fd_, {{"event", facts::to_json(event)}});
  }

  /// A lost GPU ends every wait on the set it is in: the others go on without it.
  bool drop_lost() {
    std::vector<WatchedGpu> lost;
    std::erase_if(gpus_, [&](const WatchedGpu& gpu) {
      nvml::PciInfo pci{};
      const bool gone = call(nvml_.nvmlDeviceGetPciInfo_v3, gpu.device, &pci) == nvml::kGpuIsLost;
      if (gone) lost.push_back(gpu);
      return gone;
    });
    for (const WatchedGpu& gpu : lost) {
      if (!send(GpuEventKind::lost, gpu.uuid, 0)) return false;
    }
    if (!lost.empty() && watch()) return true;
    give_up({ErrorCode::unavailable, "NVML stopped reporting events: a GPU is lost",
             "look for its Xid in the kernel log (dmesg | grep -i xid)"});
    return false;
  }

  int fd_;
  const ReaderOptions& options_;
  const std::vector<Uuid>& only_;
  nvml::Functions nvml_;
  std::vector<WatchedGpu> gpus_;
  nvml::EventSet set_ = nullptr;
};

}  // namespace

void serve_events(int fd, const ReaderOptions& options, const std::vector<Uuid>& only) {
  for (const auto& [name, value] : options.variables) ::setenv(name.c_str(), value.c_str(), 1);
  EventServer(fd, options, only).serve();
}

}  // namespace gpuwarden::probe
