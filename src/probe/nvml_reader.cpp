// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/nvml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/reader_child.hpp"
#include "probe/sys_listing.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

using Json = nlohmann::json;
using facts::GpuRecord;
using facts::GpuState;
using facts::Snapshot;

/// A reader's process.
std::unique_ptr<ChildProcess> start_child(const ReaderOptions& options) {
  return ChildProcess::start([&options](int fd) { serve_reader(fd, options); });
}

}  // namespace

class NvmlReader::Impl {
 public:
  explicit Impl(ReaderOptions options) : options_(std::move(options)) {}

  Snapshot read(const ReadRequest& request) {
    Snapshot snapshot = begin_snapshot(options_);
    library_failed_ = false;
    pci_ = scan_pci(options_.sys_root);
    const bool all_asleep = !pci_.empty() && std::ranges::all_of(pci_, &PciGpu::suspended);
    if (all_asleep && !options_.wake) {
      snapshot.source = "sysfs";
      for (std::size_t i = 0; i < pci_.size(); ++i) snapshot.gpus.push_back(asleep(i));
      return snapshot;
    }
    // A session outlives neither its kernel module nor its library: it is opened anew once they have changed.
    if (child_ && snapshot.kernel_module_version != module_) child_.reset();
    if (!connect(snapshot)) return snapshot;
    collect(request, snapshot);
    return snapshot;
  }

  bool library_failed() const { return library_failed_; }

 private:
  static GpuIndex index_at(std::size_t i) { return GpuIndex{static_cast<std::uint32_t>(i)}; }

  GpuRecord asleep(std::size_t i) const {
    return record_of(pci_[i], index_at(i), GpuState::suspended, "the GPU sleeps (runtime power management)",
                     "reading it would wake it: use --wake");
  }

  /// A running child that has said what driver there is; false when the driver does not answer.
  bool connect(Snapshot& snapshot) {
    if (!child_) {
      driver_ = Json();
      child_ = start_child(options_);
      const auto hello = child_ ? child_->receive(options_.timeout) : std::nullopt;
      if (!hello || !hello->contains("driver")) {
        report_problem(hello, snapshot);
        return false;
      }
      driver_ = (*hello)["driver"];
      module_ = snapshot.kernel_module_version;
      worked_ = true;
    }
    const auto text = [&](const char* key) {
      return driver_.contains(key) ? std::optional(driver_[key].get<std::string>()) : std::nullopt;
    };
    snapshot.driver_version = text("driver");
    snapshot.cuda_driver_version = text("cuda");
    snapshot.nvml_version = text("nvml");
    return true;
  }

  /// The driver as a whole does not answer: its GPUs are listed from /sys.
  void report_problem(const std::optional<Json>& hello, Snapshot& snapshot) {
    const auto signal = child_ ? child_->end() : std::nullopt;
    child_.reset();
    Error problem{ErrorCode::unavailable,
                  fmt::format("the NVIDIA driver did not answer within {} ms", options_.timeout.count()),
                  "look into the kernel log (dmesg | grep -i nvrm); a hung driver usually needs a reboot"};
    GpuState state = GpuState::not_answering;
    if (signal) problem.message = fmt::format("NVIDIA's management library crashed (signal {})", *signal);
    library_failed_ = signal.has_value();
    if (hello && hello->contains("problem")) {
      const Json& told = (*hello)["problem"];
      problem = {ErrorCode::unavailable, told.value("message", ""), told.value("hint", "")};
      if (told.value("code", "") == to_string(ErrorCode::permission_denied))
        problem.code = ErrorCode::permission_denied;
      state = problem.code == ErrorCode::permission_denied ? GpuState::no_permission : GpuState::disabled;
      library_failed_ = hello->contains("library_failed");
      if (worked_ && hello->contains("mismatch"))
        problem.message = "the NVIDIA driver was replaced while this program was running: " + problem.message;
    }
    list_from_sys(options_, std::move(problem), state, snapshot);
  }

  static Json request_json(const ReadRequest& request, const Json& gpus) {
    return {{"gpus", gpus},
            {"detail", static_cast<int>(request.detail)},
            {"processes", request.processes},
            {"links", request.links},
            {"cuda_order", request.cuda_order}};
  }

  /// Takes one child's answers; the index it was reading when it fell silent, if it did.
  std::optional<std::uint32_t> take_answers(ChildProcess& child, std::map<std::uint32_t, GpuRecord>& records,
                                            Snapshot& snapshot) const {
    std::optional<std::uint32_t> reading = kNothingYet;
    for (;;) {
      const auto message = child.receive(options_.timeout);
      if (!message) return reading;
      if (message->contains("done")) return std::nullopt;
      if (message->contains("stale")) return kStale;
      if (message->contains("reading")) reading = (*message)["reading"].get<std::uint32_t>();
      if (message->contains("gpu")) take_record((*message)["gpu"], records);
      if (!message->contains("links") && !message->contains("cuda_order")) continue;
      reading = kNothingYet;
      take_order(*message, snapshot);
    }
  }

  static void take_record(const Json& json, std::map<std::uint32_t, GpuRecord>& records) {
    auto record = facts::gpu_record_from_json(json);
    if (!record) return;
    const std::uint32_t index = record->gpu.index.value;
    records[index] = std::move(*record);
  }

  static void take_order(const Json& json, Snapshot& snapshot) {
    auto carrier = facts::snapshot_from_json(json);
    if (!carrier) return;
    if (carrier->links) snapshot.links = std::move(carrier->links);
    if (carrier->cuda_order) snapshot.cuda_order = std::move(carrier->cuda_order);
  }

  void collect(const ReadRequest& request, Snapshot& snapshot) {
    std::map<std::uint32_t, GpuRecord> records;
    child_->send(request_json(request, Json()));
    auto silent = take_answers(*child_, records, snapshot);
    if (silent == kStale) {
      child_.reset();
      if (!connect(snapshot)) return;
      child_->send(request_json(request, Json()));
      silent = take_answers(*child_, records, snapshot);
    }
    if (silent) {
      const auto signal = child_->end();
      child_.reset();
      if (*silent < kStale) records[*silent] = stuck(*silent, signal);
      read_rest(request, records, snapshot);
    }
    for (auto& [index, record] : records) {
      complete_from_pci(index, record);
      snapshot.gpus.push_back(std::move(record));
    }
  }

  /// After one GPU got stuck: a fresh child for each of the others, all at once, so that several stuck ones cost one
  /// more timeout together and not one each.
  void read_rest(const ReadRequest& request, std::map<std::uint32_t, GpuRecord>& records, Snapshot& snapshot) const {
    const std::size_t count = std::max(pci_.size(), records.empty() ? 0 : records.rbegin()->first + std::size_t{1});
    std::map<std::uint32_t, std::unique_ptr<ChildProcess>> children;
    for (std::uint32_t index = 0; index < count; ++index) {
      if (records.contains(index)) continue;
      if (auto child = start_child(options_)) children.emplace(index, std::move(child));
    }
    for (auto& [index, child] : children) {
      const ReadRequest one{.processes = request.processes};
      child->send(request_json(one, Json::array({index})));
    }
    for (auto& [index, child] : children) {
      std::optional<std::uint32_t> silent = index;
      if (const auto hello = child->receive(options_.timeout); hello && hello->contains("driver")) {
        silent = take_answers(*child, records, snapshot);
      }
      if (silent || !records.contains(index)) records[index] = stuck(index, child->end());
    }
  }

  GpuRecord stuck(std::uint32_t index, std::optional<int> signal) const {
    GpuRecord record;
    record.gpu.index = GpuIndex{index};
    record.state = GpuState::not_answering;
    record.cause = signal ? fmt::format("the driver library crashed while reading the GPU (signal {})", *signal)
                          : fmt::format("the GPU did not answer within {} ms", options_.timeout.count());
    record.next_step = "look into the kernel log (dmesg | grep -i nvrm); a hung GPU usually needs a reset or a reboot";
    return record;
  }

  /// A GPU that could not be read still has a name and a place.
  void complete_from_pci(std::uint32_t index, GpuRecord& record) const {
    if (index >= pci_.size()) return;
    const PciGpu* found = &pci_[index];
    const auto same = std::ranges::find(pci_, record.gpu.pci_bus_id, &PciGpu::bus_id);
    if (same != pci_.end()) found = &*same;
    if (record.state == GpuState::suspended) {
      record = asleep(static_cast<std::size_t>(found - pci_.data()));
      return;
    }
    if (record.gpu.name.empty()) record.gpu.name = found->name;
    if (record.gpu.pci_bus_id.empty()) record.gpu.pci_bus_id = found->bus_id;
    if (!record.gpu.numa_node) record.gpu.numa_node = found->numa_node;
    if (!record.gpu.cpu_affinity || record.gpu.cpu_affinity->empty()) record.gpu.cpu_affinity = found->cpu_list;
  }

  static constexpr std::uint32_t kNothingYet = 0xFFFFFFFF;
  static constexpr std::uint32_t kStale = 0xFFFFFFFE;  ///< the driver was replaced under the session

  ReaderOptions options_;
  std::vector<PciGpu> pci_;
  std::unique_ptr<ChildProcess> child_;
  Json driver_;
  std::optional<std::string> module_;  ///< the kernel module's version when the child was started
  bool worked_ = false;
  bool library_failed_ = false;
};

NvmlReader::NvmlReader(ReaderOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
NvmlReader::NvmlReader(NvmlReader&&) noexcept = default;
NvmlReader& NvmlReader::operator=(NvmlReader&&) noexcept = default;
NvmlReader::~NvmlReader() = default;

Snapshot NvmlReader::read(const ReadRequest& request) { return impl_->read(request); }
bool NvmlReader::library_failed() const { return impl_->library_failed(); }

Snapshot read_snapshot(const ReaderOptions& options, const ReadRequest& request) {
  return NvmlReader(options).read(request);
}

}  // namespace gpuwarden::probe
