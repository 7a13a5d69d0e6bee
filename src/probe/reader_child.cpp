// SPDX-License-Identifier: Apache-2.0
#include "probe/reader_child.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "probe/nvml_detail.hpp"
#include "probe/nvml_device.hpp"
#include "probe/nvml_links.hpp"
#include "probe/proc.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

using Json = nlohmann::json;
using facts::GpuRecord;

}  // namespace

Error explain_init(nvml::Return code, const nvml::Functions& nvml, const ReaderOptions& options) {
  const auto module = kernel_module_version(options.driver_proc_root);
  std::array<char, 96> text{};
  std::string library = "?";
  if (call(nvml.nvmlSystemGetNVMLVersion, text.data(), static_cast<unsigned>(text.size())) == nvml::kSuccess)
    library = text.data();
  switch (code) {
    case nvml::kLibRmVersionMismatch: {
      // NVML's own version is CUDA's major version and then the driver's.
      const std::string driver = library.contains('.') ? library.substr(library.find('.') + 1) : library;
      return {
          ErrorCode::unavailable,
          fmt::format("driver/library version mismatch: the library is {}, the loaded kernel module is {}", driver,
                      module.value_or("unknown")),
          "the driver was updated while its old kernel module stayed loaded: reboot, or end all GPU processes and run "
          "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia"};
    }
    case nvml::kDriverNotLoaded:
      return {ErrorCode::unavailable, "the NVIDIA driver is not loaded",
              module ? "the kernel module is loaded, but its devices are missing: sudo nvidia-modprobe -c 0 -u"
                     : "load it with sudo modprobe nvidia; if that fails, look into dmesg (Secure Boot, missing kernel "
                       "headers, nouveau)"};
    case nvml::kNoPermission:
      return {ErrorCode::permission_denied, "no permission to use the NVIDIA driver",
              "check the permissions of /dev/nvidiactl and your groups (video, render); in a container, start it with "
              "--gpus all"};
    case nvml::kUnknown:
      return {
          ErrorCode::unavailable, "the NVIDIA driver answers with an unknown error",
          "in a container: it has lost its devices, restart it (a known effect of systemctl daemon-reload); else look "
          "into dmesg"};
    default:
      return {ErrorCode::unavailable,
              fmt::format("the NVIDIA driver cannot be used: {} (NVML code {})",
                          nvml.nvmlErrorString != nullptr ? nvml.nvmlErrorString(code) : "error", code),
              "look into the kernel log (dmesg | grep -i nvrm)"};
  }
}

namespace {

/// What "reading" says when all GPUs are read at once.
constexpr std::uint32_t kNoGpu = 0xFFFFFFFF;

class Server {
 public:
  Server(int fd, const ReaderOptions& options) : fd_(fd), options_(options) {}

  /// Opens NVML and says what it is; false when it does not come up.
  bool open() {
    for (const PciGpu& gpu : scan_pci(options_.sys_root)) {
      if (gpu.suspended && !options_.wake)
        asleep_.insert(gpu.bus_id);
      else if (!gpu.bus_id.empty())
        awake_.push_back(gpu.bus_id);
    }
    auto opened = open_nvml(options_.nvml_library);
    if (!opened) {
      send_message(fd_, {{"problem", facts::to_json(opened.error())}, {"library_failed", true}});
      return false;
    }
    nvml_ = *opened;
    const nvml::Return code = initialise();
    if (code != nvml::kSuccess) return refuse(code);
    return send_message(fd_, {{"driver", describe_driver()}});
  }

  bool answer(const Json& request) {
    std::vector<nvml::Device> devices;
    std::vector<GpuIndex> indices;
    std::vector<std::pair<nvml::Device, GpuRecord>> readings;
    unsigned count = 0;
    if (is_stale(call(nvml_.nvmlDeviceGetCount_v2, &count))) {
      send_message(fd_, {{"stale", true}});
      return false;
    }
    for (unsigned index = 0; index < count; ++index) {
      const Json& wanted = request["gpus"];
      if (wanted.is_array() && std::find(wanted.begin(), wanted.end(), index) == wanted.end()) continue;
      if (!send_message(fd_, {{"reading", index}})) return false;
      nvml::Device device = nullptr;
      GpuRecord record = read_gpu(index, request, device);
      if (!send_message(fd_, {{"gpu", facts::to_json(record)}})) return false;
      if (device == nullptr || !facts::is_usable(record)) continue;
      devices.push_back(device);
      indices.push_back(record.gpu.index);
      readings.emplace_back(device, std::move(record));
    }
    if (request.value("detail", 0) >= static_cast<int>(Detail::slow) && !send_slow_parts(readings)) return false;
    if (request.value("links", false)) send_links(devices, indices, request.value("detail", 0) > 0);
    if (request.value("cuda_order", false)) send_cuda_order();
    return send_message(fd_, {{"done", true}});
  }

 private:
  bool refuse(nvml::Return code) {
    Json message{{"problem", facts::to_json(explain_init(code, nvml_, options_))}};
    if (code == nvml::kLibRmVersionMismatch) message["mismatch"] = true;
    send_message(fd_, message);
    return false;
  }

  /// The driver under the session is gone, or another.
  static bool is_stale(nvml::Return code) {
    return code == nvml::kLibRmVersionMismatch || code == nvml::kDriverNotLoaded || code == nvml::kUninitialized;
  }

  nvml::Return initialise() {
    // NO_ATTACH leaves sleeping GPUs alone: only those that are asked for are woken.
    if (!asleep_.empty() && nvml_.nvmlInitWithFlags != nullptr) return nvml_.nvmlInitWithFlags(nvml::kInitFlagNoAttach);
    return nvml_.nvmlInit_v2 != nullptr ? nvml_.nvmlInit_v2() : nvml_.nvmlInit();
  }

  Json describe_driver() const {
    std::array<char, 96> text{};
    Json driver = Json::object();
    if (call(nvml_.nvmlSystemGetDriverVersion, text.data(), static_cast<unsigned>(text.size())) == nvml::kSuccess)
      driver["driver"] = text.data();
    if (call(nvml_.nvmlSystemGetNVMLVersion, text.data(), static_cast<unsigned>(text.size())) == nvml::kSuccess)
      driver["nvml"] = text.data();
    int cuda = 0;
    if (call(nvml_.nvmlSystemGetCudaDriverVersion, &cuda) == nvml::kSuccess)
      driver["cuda"] = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
    return driver;
  }

  /// By bus id where some GPUs sleep (asking by index would wake all), else by index.
  nvml::Return handle_of(unsigned index, nvml::Device* device) const {
    if (!asleep_.empty() && index < pci_order().size()) {
      return call(nvml_.nvmlDeviceGetHandleByPciBusId_v2, pci_order()[index].c_str(), device);
    }
    return call(nvml_.nvmlDeviceGetHandleByIndex_v2, index, device);
  }

  std::vector<std::string> pci_order() const {
    std::vector<std::string> order = awake_;
    order.insert(order.end(), asleep_.begin(), asleep_.end());
    std::ranges::sort(order);
    return order;
  }

  bool is_asleep(unsigned index) const {
    const auto order = pci_order();
    return index < order.size() && asleep_.contains(order[index]);
  }

  GpuRecord read_gpu(unsigned index, const Json& request, nvml::Device& device) {
    GpuRecord record;
    record.gpu.index = GpuIndex{index};
    if (!asleep_.empty() && is_asleep(index)) {
      // The parent lists it from /sys.
      record.state = facts::GpuState::suspended;
      return record;
    }
    if (const nvml::Return code = handle_of(index, &device); code != nvml::kSuccess) {
      device = nullptr;
      if (!note_trouble(code, "getting its handle", record)) note_trouble(nvml::kUnknown, "getting its handle", record);
      return record;
    }
    auto known = inventory_.find(index);
    if (known == inventory_.end()) {
      read_inventory(nvml_, device, record);
      known = inventory_.emplace(index, record.gpu).first;
    }
    const auto detail = static_cast<Detail>(request.value("detail", 0));
    if (detail >= Detail::full && detailed_.insert(index).second) read_detailed_inventory(nvml_, device, known->second);
    record.gpu = known->second;
    read_settings(nvml_, device, record.gpu);
    if (detail >= Detail::full) read_detailed_settings(nvml_, device, record.gpu);
    read_mig(nvml_, device, record);
    read_sample(nvml_, device, record);
    if (!facts::is_usable(record)) return record;
    if (detail >= Detail::full) read_detailed_sample(nvml_, device, record.sample);
    if (detail >= Detail::full) facts::drop_impossible(record.sample);
    if (!request.value("processes", true)) return record;
    read_processes(nvml_, device, record);
    if (!record.processes) return record;
    if (detail >= Detail::full) read_process_utilization(nvml_, device, record);
    for (facts::GpuProcess& process : *record.processes) name_process(options_.proc_roots, process);
    const bool computes = std::ranges::any_of(*record.processes, &facts::GpuProcess::compute);
    if (computes) record.state = facts::GpuState::busy;
    return record;
  }

  void send_links(const std::vector<nvml::Device>& devices, const std::vector<GpuIndex>& indices, bool peer_access) {
    facts::Snapshot carrier;
    carrier.links = read_links(nvml_, devices, indices, peer_access);
    send_message(fd_, {{"links", facts::to_json(carrier)["links"]}});
  }

  /// The slow parts of all GPUs at once, since most of their time is waiting. What was sent before stands if one hangs.
  bool send_slow_parts(std::vector<std::pair<nvml::Device, GpuRecord>>& readings) {
    // From here on no one GPU can be blamed for silence.
    if (!send_message(fd_, {{"reading", kNoGpu}})) return false;
    {
      std::vector<std::jthread> threads;
      for (auto& [device, record] : readings) {
        threads.emplace_back([this, device, &sample = record.sample] {
          read_slow_sample(nvml_, device, sample);
          facts::drop_impossible(sample);
        });
      }
    }
    return std::ranges::all_of(
        readings, [this](const auto& entry) { return send_message(fd_, {{"gpu", facts::to_json(entry.second)}}); });
  }

  void send_cuda_order() {
    facts::Snapshot carrier;
    carrier.cuda_order = read_cuda_order();
    send_message(fd_, {{"cuda_order", facts::to_json(carrier)["cuda_order"]}});
  }

  int fd_;
  const ReaderOptions& options_;
  nvml::Functions nvml_;
  std::set<std::string> asleep_;
  std::vector<std::string> awake_;
  std::map<unsigned, facts::Gpu> inventory_;
  std::set<unsigned> detailed_;  ///< GPUs whose inventory holds the details
};

}  // namespace

void serve_reader(int fd, const ReaderOptions& options) {
  for (const auto& [name, value] : options.variables) ::setenv(name.c_str(), value.c_str(), 1);
  Server server(fd, options);
  if (!server.open()) ::_exit(0);
  for (;;) {
    const auto request = receive_message(fd, std::chrono::milliseconds(-1));
    if (!request || !server.answer(*request)) ::_exit(0);
  }
}

}  // namespace gpuwarden::probe
