// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/burn_in/burn_in.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "burn_in/child.hpp"
#include "burn_in/expectations.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/burn_in_json.hpp"
#include "gpuwarden/probe/child_process.hpp"

namespace gpuwarden::burn_in {

namespace {

using facts::BurnInGpu;
using facts::BurnInRun;
using facts::GpuRecord;
using Json = nlohmann::json;

/// Load and memory from which somebody is at work whose process cannot be seen.
constexpr Percent kBusy{10};

/// A device of CUDA's list.
struct CudaDevice {
  int ordinal = 0;
  std::string uuid;
  std::string pci_bus_id;
  std::string name;
};

/// "GPU-…" and "MIG-…" name the same bytes.
std::string_view bytes_of(std::string_view uuid) { return uuid.substr(std::min(uuid.find('-'), uuid.size())); }

bool same_uuid(std::string_view a, std::string_view b) {
  return !a.empty() && to_lower(bytes_of(a)) == to_lower(bytes_of(b));
}

/// CUDA's bus id has a domain of 4 digits, NVML's of 8.
bool same_bus(std::string_view cuda, std::string_view nvml) {
  return !cuda.empty() && nvml.size() >= cuda.size() && to_lower(nvml).ends_with(to_lower(cuda));
}

const GpuRecord* find_record(const facts::Snapshot& snapshot, const CudaDevice& device) {
  for (const GpuRecord& record : snapshot.gpus) {
    if (same_uuid(device.uuid, record.gpu.uuid.value)) return &record;
    for (const auto& mig : record.mig_devices) {
      if (same_uuid(device.uuid, mig.uuid.value)) return &record;
    }
  }
  const auto found = std::ranges::find_if(
      snapshot.gpus, [&](const GpuRecord& record) { return same_bus(device.pci_bus_id, record.gpu.pci_bus_id); });
  return found == snapshot.gpus.end() ? nullptr : &*found;
}

bool is_wanted(const Options& options, const CudaDevice& device, const GpuRecord* record) {
  return options.gpus.empty() || std::ranges::any_of(options.gpus, [&](const Uuid& uuid) {
           return same_uuid(device.uuid, uuid.value) || (record != nullptr && record->gpu.uuid == uuid);
         });
}

std::string seconds(std::chrono::milliseconds time) { return format_duration(time); }

/// Why a child said nothing more.
std::string why_silent(probe::ChildProcess& child, std::string_view phase, const Options& options) {
  const bool late = !child.closed();
  const auto signal = child.end().signal;
  if (late) return fmt::format("{}: CUDA did not answer within {}; it was ended", phase, seconds(options.deadline));
  if (signal) return fmt::format("{}: CUDA's driver crashed (signal {})", phase, *signal);
  return fmt::format("{}: CUDA's driver ended the process", phase);
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Takes over a child's {"problem": ...}.
void take_problem(const Json& message, BurnInRun& run) {
  (message.value("absent", false) ? run.not_possible : run.failed) = text_of(message, "problem");
  for (const Json& step : message.value("steps", Json::array())) run.next_steps.push_back(step.get<std::string>());
}

std::vector<CudaDevice> ask_for_devices(const Options& options, BurnInRun& run) {
  const auto child = probe::ChildProcess::start([&](int fd) { list_devices(fd, options); });
  if (child == nullptr) {
    run.failed = "no process could be started for the test";
    return {};
  }
  const auto answer = child->receive(options.deadline);
  if (!answer) {
    run.failed = why_silent(*child, "starting CUDA", options);
    run.next_steps = {"sudo dmesg | grep -i nvrm"};
    return {};
  }
  if (answer->contains("problem")) {
    take_problem(*answer, run);
    return {};
  }
  const int version = answer->value("cuda", 0);
  run.cuda_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  std::vector<CudaDevice> devices;
  for (const Json& device : answer->value("devices", Json::array()))
    devices.push_back(
        {device.value("ordinal", 0), text_of(device, "uuid"), text_of(device, "pci_bus_id"), text_of(device, "name")});
  if (devices.empty()) run.not_possible = "CUDA shows no device (CUDA_VISIBLE_DEVICES may hide them)";
  return devices;
}

facts::BurnInMoment moment(std::string when, const GpuRecord& record) {
  const auto& sample = record.sample;
  return {std::move(when),        sample.temperature, sample.clock_sm,        sample.power,
          sample.pcie_generation, sample.pcie_width,  sample.throttle_reasons};
}

/// The parent's side of one GPU's tests.
class Tester {
 public:
  Tester(const Options& options, const Listener& listener) : options_(options), listener_(listener) {}

  void test(const CudaDevice& device, BurnInGpu& gpu) {
    const auto start = options_.clock->now();
    const auto child = probe::ChildProcess::start([&](int fd) { test_device(fd, device.ordinal, options_); });
    if (child == nullptr) {
      gpu.failed = "no process could be started for the test";
      return;
    }
    observe("before", gpu);
    listen(*child, start + options_.deadline, gpu);
    child->end();
    observe("after", gpu);
    const auto took = options_.clock->now() - start;
    gpu.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  }

 private:
  void listen(probe::ChildProcess& child, Clock::SteadyTime end, BurnInGpu& gpu) {
    std::string phase = "starting CUDA";
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - options_.clock->now());
      const auto message = child.receive(std::max(left, std::chrono::milliseconds(1)));
      if (!message) {
        gpu.failed = why_silent(child, phase, options_);
        return;
      }
      if (message->contains("done")) return;
      if (message->contains("phase")) {
        phase = text_of(*message, "phase");
        begin(phase, gpu);
      }
      if (message->contains("moment")) observe(text_of(*message, "moment"), gpu);
      if (message->contains("problem")) {
        gpu.failed = text_of(*message, "problem");
        return;
      }
      if (message->contains("gpu")) take((*message)["gpu"], gpu);
    }
  }

  void begin(const std::string& phase, const BurnInGpu& gpu) const {
    if (!listener_.progress) return;
    const std::string name = gpu.index ? fmt::format("GPU {} ({})", gpu.index->value, gpu.name) : gpu.name;
    listener_.progress(fmt::format("{}: {}", name, phase));
  }

  /// A moment that comes again is read again.
  void observe(std::string when, BurnInGpu& gpu) const {
    const auto record = listener_.observe ? listener_.observe(gpu.uuid) : std::nullopt;
    if (!record) return;
    std::erase_if(gpu.moments, [&](const facts::BurnInMoment& earlier) { return earlier.when == when; });
    gpu.moments.push_back(moment(std::move(when), *record));
  }

  /// The child knows figures, the parent knows the GPU.
  static void take(const Json& json, BurnInGpu& gpu) {
    auto found = facts::burn_in_gpu_from_json(json);
    if (!found) return;
    gpu.not_possible = std::move(found->not_possible);
    gpu.failed = std::move(found->failed);
    gpu.memory = std::move(found->memory);
    gpu.figures = std::move(found->figures);
    gpu.wrong_results = found->wrong_results;
    gpu.notes = std::move(found->notes);
  }

  const Options& options_;
  const Listener& listener_;
};

/// Copies between those GPUs that were tested: in one process, for as long as all of them may take.
class PairTester {
 public:
  PairTester(const Options& options, const Listener& listener) : options_(options), listener_(listener) {}

  /// The pairs that were begun; the last one has failed where the child fell silent.
  std::vector<facts::BurnInPair> test(const std::vector<int>& ordinals, const std::map<int, const BurnInGpu*>& gpus) {
    if (ordinals.size() < 2) return {};
    if (listener_.progress) listener_.progress("copies from GPU to GPU");
    const auto child = probe::ChildProcess::start([&](int fd) { test_pairs(fd, ordinals, options_); });
    if (child == nullptr) return {lost("no process could be started for the test")};
    const auto end = options_.clock->now() + options_.deadline * static_cast<int>(ordinals.size());
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - options_.clock->now());
      const auto message = child->receive(std::max(left, std::chrono::milliseconds(1)));
      if (!message) {
        fail_last(why_silent(*child, "copies from GPU to GPU", options_));
        break;
      }
      if (message->contains("done")) break;
      if (message->contains("problem")) {
        fail_last(text_of(*message, "problem"));
        break;
      }
      if (message->contains("begin")) begin((*message)["begin"], gpus);
      if (message->contains("pair") && !pairs_.empty()) take((*message)["pair"], pairs_.back());
    }
    child->end();
    return std::move(pairs_);
  }

 private:
  static facts::BurnInPair lost(std::string why) {
    facts::BurnInPair pair;
    pair.failed = std::move(why);
    return pair;
  }

  void fail_last(std::string why) {
    const bool open = !pairs_.empty() && !pairs_.back().figure && !pairs_.back().failed;
    if (!open) pairs_.emplace_back();
    pairs_.back().failed = std::move(why);
  }

  void begin(const Json& json, const std::map<int, const BurnInGpu*>& gpus) {
    facts::BurnInPair pair;
    const auto from = gpus.find(json.value("from", -1));
    const auto to = gpus.find(json.value("to", -1));
    if (from == gpus.end() || to == gpus.end()) return;
    pair.from = from->second->uuid;
    pair.from_index = from->second->index;
    pair.to = to->second->uuid;
    pair.to_index = to->second->index;
    pairs_.push_back(std::move(pair));
  }

  static void take(const Json& json, facts::BurnInPair& pair) {
    if (json.contains("problem")) {
      pair.failed = text_of(json, "problem");
      return;
    }
    pair.direct = json.value("direct", false);
    pair.figure = facts::BurnInFigure{
        .id = "peer_copy", .value = json.value("value", 0.0), .unit = "GB/s", .method = text_of(json, "method")};
  }

  const Options& options_;
  const Listener& listener_;
  std::vector<facts::BurnInPair> pairs_;
};

/// Those that could be tested, by their ordinals.
std::vector<facts::BurnInPair> between(const std::vector<std::pair<int, std::size_t>>& tested, const BurnInRun& run,
                                       const Options& options, const Listener& listener) {
  std::vector<int> ordinals;
  std::map<int, const BurnInGpu*> gpus;
  for (const auto& [ordinal, place] : tested) {
    const BurnInGpu& gpu = run.gpus[place];
    if (gpu.not_possible || gpu.failed) continue;
    ordinals.push_back(ordinal);
    gpus[ordinal] = &gpu;
  }
  return PairTester(options, listener).test(ordinals, gpus);
}

BurnInGpu introduce(const CudaDevice& device, const GpuRecord* record, const Options& options) {
  BurnInGpu gpu;
  gpu.uuid = Uuid(device.uuid);
  gpu.name = device.name;
  if (record == nullptr) return gpu;
  gpu.index = record->gpu.index;
  if (same_uuid(device.uuid, record->gpu.uuid.value) || device.uuid.empty()) gpu.uuid = record->gpu.uuid;
  for (const auto& mig : record->mig_devices) {
    if (same_uuid(device.uuid, mig.uuid.value)) gpu.uuid = mig.uuid;
  }
  if (options.force) return gpu;
  gpu.not_possible = in_use(*record);
  const auto reserved = std::ranges::find(options.reserved, record->gpu.uuid, &std::pair<Uuid, std::string>::first);
  if (reserved != options.reserved.end()) gpu.not_possible = reserved->second;
  return gpu;
}

}  // namespace

std::optional<std::string> in_use(const GpuRecord& record) {
  if (record.processes && !record.processes->empty()) {
    const auto& first = record.processes->front();
    return fmt::format("{} process{} on it ({}{})", record.processes->size(),
                       record.processes->size() == 1 ? " runs" : "es run", first.pid.value,
                       first.command ? " " + printable(first.command->substr(0, 40)) : "");
  }
  if (record.processes_unreadable) return "its processes could not be read, so it may be in use";
  if (record.sample.utilization_gpu && *record.sample.utilization_gpu >= kBusy)
    return fmt::format("it is at work ({} %), for whom cannot be seen from here", record.sample.utilization_gpu->value);
  return std::nullopt;
}

BurnInRun run(const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge, const Options& options,
              const Listener& listener) {
  BurnInRun run;
  run.library = options.library.string();
  run.stand_in = options.stand_in;
  Tester tester(options, listener);
  std::vector<std::pair<int, std::size_t>> tested;  // ordinals, and places in the run
  for (const CudaDevice& device : ask_for_devices(options, run)) {
    const GpuRecord* record = find_record(snapshot, device);
    if (!is_wanted(options, device, record)) continue;
    BurnInGpu gpu = introduce(device, record, options);
    if (!gpu.not_possible) tester.test(device, gpu);
    if (record != nullptr) expect(gpu, *record, knowledge);
    tested.emplace_back(device.ordinal, run.gpus.size());
    run.gpus.push_back(std::move(gpu));
  }
  if (options.pairs) run.pairs = between(tested, run, options, listener);
  for (facts::BurnInPair& pair : run.pairs) expect(pair, snapshot);
  if (run.gpus.empty() && !run.not_possible && !run.failed)
    run.not_possible = "CUDA shows none of the chosen GPUs (CUDA_VISIBLE_DEVICES may hide them)";
  return run;
}

}  // namespace gpuwarden::burn_in
