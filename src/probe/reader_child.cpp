// SPDX-License-Identifier: Apache-2.0
#include "probe/reader_child.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/packed.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/holders.hpp"
#include "probe/nvml_detail.hpp"
#include "probe/nvml_device.hpp"
#include "probe/nvml_library.hpp"
#include "probe/nvml_links.hpp"
#include "probe/problems.hpp"
#include "probe/process_names.hpp"

namespace gpuwarden::probe {
namespace {

using Json = nlohmann::json;
using facts::GpuRecord;

/// How long what changes slowly is good for in a series of readings.
constexpr std::chrono::seconds kSlowPace{10};
constexpr unsigned kTurns = 8;
constexpr std::chrono::milliseconds kTurn = std::chrono::milliseconds(kSlowPace) / kTurns;

Json packed(const GpuRecord& record) {
  const std::string bytes = facts::pack(record);
  return Json::binary({bytes.begin(), bytes.end()});
}

/// What is remembered of a GPU between readings.
struct Remembered {
  facts::Gpu inventory;
  bool detailed = false;  ///< the inventory has the details, too
  // The rest is a series' own.
  nvml::Device device = nullptr;  ///< while it answers
  std::optional<Clock::SteadyTime> slow_read;
  facts::GpuSample slow;  ///< what changes slowly, and nothing else
  facts::Gpu settled;     ///< the inventory with the settings of that time
};

/// A GPU that was read, for the parts that follow.
struct Done {
  nvml::Device device = nullptr;
  GpuRecord record;
  RowSet rows = RowSet::all;
};

class Server {
 public:
  Server(int fd, const ReaderOptions& options) : fd_(fd), options_(options), names_(options.proc_roots) {}

  /// Opens NVML and says what it is; false when it does not come up.
  bool open(const std::vector<PciGpu>& pci) {
    for (const PciGpu& gpu : pci) {
      if (gpu.suspended && !options_.wake)
        asleep_.insert(gpu.bus_id);
      else if (!gpu.bus_id.empty())
        awake_.push_back(gpu.bus_id);
    }
    auto opened = open_nvml(options_.nvml_library);
    if (!opened) return refuse(opened.error());
    nvml_ = *opened;
    const nvml::Return code = initialise();
    if (code != nvml::kSuccess) return refuse(explain_init(code, nvml_, options_));
    return send({{"driver", describe_driver()}});
  }

  bool answer(const Json& request) {
    unsigned count = 0;
    if (!send_count(count)) return false;
    names_.begin(options_.clock->now());
    // Beside what NVML is asked: both mostly wait. Where it hangs, all of the GPUs have been told.
    std::jthread search = request.value("holders", false) ? search_holders() : std::jthread();
    std::vector<Done> readings;
    Json message = Json::object();
    for (unsigned index = 0; index < count; ++index) {
      if (!is_wanted(request, index)) continue;
      // A GPU's record goes with the word that the next one's turn has come.
      message["reading"] = index;
      if (!send(message)) return false;
      Done one = read_gpu(index, request);
      message = {{"gpu", packed(one.record)}};
      if (one.device != nullptr && facts::is_usable(one.record)) readings.push_back(std::move(one));
    }
    if (!message.empty() && !send(message)) return false;
    return send_parts(request, readings) && end_search(std::move(search)) && send({{"done", true}});
  }

 private:
  /// A message goes out whole, whoever sends it.
  bool send(const Json& message) {
    const std::scoped_lock lock(mutex_);
    return send_message(fd_, message);
  }

  /// Tells by itself what it has found. None where the system refuses a thread: the parent then looks otherwise.
  std::jthread search_holders() try {
    return std::jthread(
        [this] { send({{"holders", to_json(find_holders(options_.driver_proc_root, options_.proc_roots))}}); });
  } catch (const std::system_error&) {
    return {};
  }

  bool end_search(std::jthread search) {
    if (!search.joinable()) return true;
    const bool told = send({{"part", facts::to_string(facts::ReadingGap::Part::holders)}});
    search.join();
    return told;
  }

  bool refuse(const facts::DriverProblem& problem) {
    send({{"problem", facts::to_json(problem)}});
    return false;
  }

  /// False where there is no number to go on with; what is wrong was said then.
  bool send_count(unsigned& count) {
    const auto function =
        nvml_.nvmlDeviceGetCount_v2 != nullptr ? nvml_.nvmlDeviceGetCount_v2 : nvml_.nvmlDeviceGetCount;
    const nvml::Return code = call(function, &count);
    if (is_stale(code)) {
      send({{"stale", true}});
      return false;
    }
    if (code != nvml::kSuccess) return refuse(explain_count(code, nvml_, options_));
    if (count > kMostGpus) return refuse(explain_impossible_count(count));
    find_visible(count);
    return send({{"count", count}});
  }

  static bool is_wanted(const Json& request, unsigned index) {
    const auto lists = [&](const char* key) {
      const Json list = request.value(key, Json());
      return std::find(list.begin(), list.end(), index) != list.end();
    };
    const bool all = !request.contains("only") || request["only"].is_null();
    return (all || lists("only")) && !lists("skip");
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
    const auto size = static_cast<unsigned>(text.size() - 1);
    if (call(nvml_.nvmlSystemGetDriverVersion, text.data(), size) == nvml::kSuccess)
      driver["driver"] = printable(text.data());
    if (call(nvml_.nvmlSystemGetNVMLVersion, text.data(), size) == nvml::kSuccess)
      driver["nvml"] = printable(text.data());
    int cuda = 0;
    if (call(nvml_.nvmlSystemGetCudaDriverVersion, &cuda) == nvml::kSuccess)
      driver["cuda"] = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
    return driver;
  }

  /// Where some GPUs sleep, asking by index would wake all: who is which is found out without that. /sys may show more
  /// GPUs than NVML counts (a container); then those that are awake say which number they have, and the others sleep.
  void find_visible(unsigned count) {
    by_index_.clear();
    if (asleep_.empty()) return;
    std::vector<std::string> order = awake_;
    order.insert(order.end(), asleep_.begin(), asleep_.end());
    std::ranges::sort(order);
    if (order.size() == count) {
      for (unsigned i = 0; i < count; ++i) by_index_[i] = order[i];
      return;
    }
    for (const std::string& bus_id : awake_) {
      nvml::Device device = nullptr;
      unsigned index = 0;
      if (call(nvml_.nvmlDeviceGetHandleByPciBusId_v2, bus_id.c_str(), &device) == nvml::kSuccess &&
          call(nvml_.nvmlDeviceGetIndex, device, &index) == nvml::kSuccess)
        by_index_[index] = bus_id;
    }
  }

  nvml::Return handle_of(unsigned index, nvml::Device* device) const {
    if (const auto known = by_index_.find(index); known != by_index_.end())
      return call(nvml_.nvmlDeviceGetHandleByPciBusId_v2, known->second.c_str(), device);
    if (nvml_.nvmlDeviceGetHandleByIndex_v2 != nullptr) return nvml_.nvmlDeviceGetHandleByIndex_v2(index, device);
    return call(nvml_.nvmlDeviceGetHandleByIndex, index, device);
  }

  bool is_asleep(unsigned index) const {
    if (asleep_.empty()) return false;
    const auto known = by_index_.find(index);
    return known == by_index_.end() || asleep_.contains(known->second);
  }

  /// False where the GPU gives no handle; the record says why then.
  bool find_device(unsigned index, Remembered& known, GpuRecord& record) const {
    const nvml::Return code = handle_of(index, &known.device);
    if (code == nvml::kSuccess) return true;
    known.device = nullptr;
    known.slow_read.reset();
    if (!note_trouble(code, "getting its handle", record)) note_trouble(nvml::kUnknown, "getting its handle", record);
    return false;
  }

  Done read_gpu(unsigned index, const Json& request) {
    Done done;
    GpuRecord& record = done.record;
    record.gpu.index = GpuIndex{index};
    if (is_asleep(index)) {
      // The parent lists it from /sys.
      record.state = facts::GpuState::suspended;
      return done;
    }
    const bool series = request.value("series", false);
    Remembered& known = remembered_[index];
    if (!(series && known.device != nullptr) && !find_device(index, known, record)) return done;
    done.device = known.device;
    const auto detail = static_cast<Detail>(request.value("detail", 0));
    read_inventory_once(known, detail, record);
    if (request.value("memory_alone", false)) {
      record.gpu = known.inventory;
      read_memory_alone(nvml_, known.device, record);
    } else if (series) {
      read_paced(known, detail, request.value("refresh", false), done);
    } else {
      record.gpu = known.inventory;
      read_all_settings(known.device, detail, record);
      read_readings(known.device, detail, done);
    }
    if (facts::is_usable(record)) {
      if (request.value("processes", true) && !request.value("memory_alone", false))
        add_processes(known.device, detail, record);
    } else {
      known.device = nullptr;
      known.slow_read.reset();
    }
    return done;
  }

  void read_inventory_once(Remembered& known, Detail detail, GpuRecord& record) {
    if (known.inventory.uuid.value.empty() && known.inventory.name.empty()) {
      read_identity(nvml_, known.device, record);
      send({{"known", packed(record)}});
      read_inventory(nvml_, known.device, record);
      known.inventory = record.gpu;
    }
    if (detail < Detail::full || known.detailed) return;
    read_detailed_inventory(nvml_, known.device, known.inventory);
    known.detailed = true;
  }

  void read_all_settings(nvml::Device device, Detail detail, GpuRecord& record) {
    read_settings(nvml_, device, record.gpu);
    if (detail >= Detail::full) read_detailed_settings(nvml_, device, record.gpu);
    read_mig(nvml_, device, record);
  }

  void read_readings(nvml::Device device, Detail detail, Done& done) {
    GpuRecord& record = done.record;
    read_sample(nvml_, device, record, done.rows);
    if (!facts::is_usable(record) || detail < Detail::full) return;
    read_detailed_sample(nvml_, device, record.sample, done.rows);
    facts::drop_impossible(record.sample);
  }

  /// One of a series: what changes slowly is read when its time has come, and carried on in between.
  void read_paced(Remembered& known, Detail detail, bool refresh, Done& done) {
    GpuRecord& record = done.record;
    const auto now = options_.clock->now();
    const bool due = refresh || !known.slow_read || now - *known.slow_read >= kSlowPace;
    if (due) {
      // In turns from the second time on, so that no one reading takes much longer than the others.
      const auto head_start =
          known.slow_read ? std::chrono::milliseconds(0) : kTurn * (record.gpu.index.value % kTurns);
      record.gpu = known.inventory;
      read_all_settings(known.device, detail, record);
      known.settled = record.gpu;
      auto links = std::move(known.slow.nvlinks);
      known.slow = {};
      read_basic_rows(nvml_, known.device, RowSet::slow, known.slow);
      if (detail >= Detail::full) read_detailed_sample(nvml_, known.device, known.slow, RowSet::slow);
      if (detail >= Detail::slow) known.slow.nvlinks = std::move(links);
      known.slow_read = now - head_start;
    } else {
      record.gpu = known.settled;
      if (record.gpu.mig_enabled.value_or(false)) read_mig(nvml_, known.device, record);
    }
    record.sample = known.slow;
    done.rows = RowSet::quick;
    read_readings(known.device, detail, done);
    if (due) done.rows = RowSet::all;
  }

  void add_processes(nvml::Device device, Detail detail, GpuRecord& record) {
    read_processes(nvml_, device, record);
    if (!record.processes) return;
    if (detail >= Detail::full) read_process_utilization(nvml_, device, record);
    for (facts::GpuProcess& process : *record.processes) names_.name(process);
    const bool computes = std::ranges::any_of(*record.processes, &facts::GpuProcess::compute);
    if (computes) record.state = facts::GpuState::busy;
  }

  /// From here on no one GPU can be blamed for silence, but the part that is read.
  bool send_parts(const Json& request, std::vector<Done>& readings) {
    using Part = facts::ReadingGap::Part;
    const auto begin = [&](Part part) { return send({{"part", facts::to_string(part)}}); };
    const auto detail = static_cast<Detail>(request.value("detail", 0));
    if (detail >= Detail::slow && !(begin(Part::slow_metrics) && send_slow_parts(readings))) return false;
    facts::Snapshot carrier;
    if (request.value("links", false)) {
      if (!begin(Part::links)) return false;
      std::vector<nvml::Device> devices;
      std::vector<GpuIndex> indices;
      for (const Done& one : readings) {
        devices.push_back(one.device);
        indices.push_back(one.record.gpu.index);
      }
      carrier.links = read_links(nvml_, devices, indices, detail >= Detail::full);
      if (!send({{"links", facts::to_json(carrier)["links"]}})) return false;
    }
    if (!request.value("cuda_order", false)) return true;
    if (!begin(Part::cuda_order)) return false;
    carrier.cuda_order = read_cuda_order();
    return send({{"cuda_order", facts::to_json(carrier)["cuda_order"]}});
  }

  /// The slow parts of all GPUs at once, since most of their time is waiting. What was sent before stands if one hangs.
  bool send_slow_parts(std::vector<Done>& readings) {
    {
      std::vector<std::jthread> threads;
      for (Done& one : readings) {
        threads.emplace_back([this, &one] {
          read_slow_sample(nvml_, one.device, *options_.clock, one.record.sample, one.rows);
          facts::drop_impossible(one.record.sample);
        });
      }
    }
    for (const Done& one : readings) remembered_[one.record.gpu.index.value].slow.nvlinks = one.record.sample.nvlinks;
    return std::ranges::all_of(readings, [this](const Done& one) { return send({{"gpu", packed(one.record)}}); });
  }

  int fd_;
  std::mutex mutex_;  ///< of sending
  const ReaderOptions& options_;
  nvml::Functions nvml_;
  std::set<std::string> asleep_;
  std::vector<std::string> awake_;
  std::map<unsigned, std::string> by_index_;  ///< bus ids, where some GPUs sleep
  std::map<unsigned, Remembered> remembered_;
  ProcessNames names_;
};

}  // namespace

Json request_message(const ReadRequest& request, const std::vector<std::uint32_t>& skip) {
  return {{"skip", skip},
          {"detail", static_cast<int>(request.detail)},
          {"processes", request.processes},
          {"links", request.links},
          {"cuda_order", request.cuda_order},
          {"holders", request.holders && !request.every},
          {"memory_alone", request.memory_alone},
          {"series", request.every.has_value()},
          {"refresh", request.refresh}};
}

void serve_reader(int fd, const ReaderOptions& options, const std::vector<PciGpu>& pci) {
  for (const auto& [name, value] : options.variables) ::setenv(name.c_str(), value.c_str(), 1);
  Server server(fd, options);
  if (!server.open(pci)) ::_exit(0);
  for (;;) {
    const auto request = receive_message(fd, std::chrono::milliseconds(-1));
    if (!request || !server.answer(*request)) ::_exit(0);
  }
}

}  // namespace gpuwarden::probe
