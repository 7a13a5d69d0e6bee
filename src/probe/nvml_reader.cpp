// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/nvml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/pci_places.hpp"
#include "probe/problems.hpp"
#include "probe/reader_child.hpp"
#include "probe/reading.hpp"
#include "probe/sys_listing.hpp"
#include "probe/sysfs.hpp"
#include "probe/troubles.hpp"

namespace gpuwarden::probe {
namespace {

using facts::DriverProblem;
using facts::GpuRecord;
using facts::Snapshot;
using Json = nlohmann::json;
using ProblemKind = DriverProblem::Kind;
using Stage = Progress::Stage;

Json json_of(const ReadRequest& request, const std::vector<std::uint32_t>& skip) {
  return {{"skip", skip},
          {"detail", static_cast<int>(request.detail)},
          {"processes", request.processes},
          {"links", request.links},
          {"cuda_order", request.cuda_order}};
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
      for (std::size_t i = 0; i < pci_.size(); ++i)
        snapshot.gpus.push_back(sleeping_record(pci_[i], GpuIndex{static_cast<std::uint32_t>(i)}));
      return snapshot;
    }
    // A session outlives neither its kernel module nor its library: it is opened anew once they have changed.
    if (child_ && snapshot.kernel_module_version != module_) forget_session();
    if (connect(snapshot)) collect(request, snapshot);
    return snapshot;
  }

  bool library_failed() const { return library_failed_; }

 private:
  std::unique_ptr<ChildProcess> start_reader() const {
    return ChildProcess::start([this](int fd) { serve_reader(fd, options_, pci_); });
  }

  void forget_session() {
    child_.reset();
    options_.troubles->forget_all();
  }

  /// A running child that has said what driver there is; false when the driver does not answer.
  bool connect(Snapshot& snapshot) {
    if (!child_ && !open_session(snapshot)) return false;
    const auto text = [&](const char* key) {
      return driver_.contains(key) ? std::optional(driver_[key].get<std::string>()) : std::nullopt;
    };
    snapshot.driver_version = text("driver");
    snapshot.cuda_driver_version = text("cuda");
    snapshot.nvml_version = text("nvml");
    return true;
  }

  bool open_session(Snapshot& snapshot) {
    if (const auto problem = options_.troubles->resting_driver(options_.clock->now())) {
      list_from_sys(options_, *problem, snapshot);
      return false;
    }
    driver_ = Json();
    child_ = start_reader();
    const auto hello = child_ ? child_->receive(options_.timeout) : std::nullopt;
    if (hello && hello->contains("driver")) {
      driver_ = (*hello)["driver"];
      module_ = snapshot.kernel_module_version;
      worked_ = true;
      options_.troubles->forget_driver();
      return true;
    }
    std::optional<DriverProblem> told;
    if (hello && hello->contains("problem")) {
      if (auto problem = facts::driver_problem_from_json((*hello)["problem"])) told = std::move(*problem);
    }
    report_problem(std::move(told), snapshot);
    return false;
  }

  /// The driver as a whole does not answer: its GPUs are listed from /sys. Without `told` the child fell silent.
  void report_problem(std::optional<DriverProblem> told, Snapshot& snapshot) {
    DriverProblem problem;
    if (told)
      problem = std::move(*told);
    else if (child_)
      problem = explain_silent_driver(silence_of(*child_), options_.timeout);
    else
      problem = {ProblemKind::other, {ErrorCode::failed, "no process could be started to read the GPUs", ""}};
    child_.reset();
    if (problem.kind == ProblemKind::timed_out) options_.troubles->remember_driver(problem, options_.clock->now());
    library_failed_ = is_librarys_fault(problem.kind);
    if (worked_ && problem.kind == ProblemKind::mismatch)
      problem.message = "the NVIDIA driver was replaced while this program was running: " + problem.message;
    list_from_sys(options_, std::move(problem), snapshot);
  }

  void collect(const ReadRequest& request, Snapshot& snapshot) {
    Reading reading;
    const Troubles::View troubles = options_.troubles->look(options_.clock->now());
    std::vector<std::uint32_t> skip = troubles.due;
    for (const auto& [index, record] : troubles.resting) skip.push_back(index);
    Progress progress = ask(json_of(request, skip), reading);
    if (progress.stage == Stage::stale) {
      forget_session();
      if (!connect(snapshot)) return;
      progress = ask(json_of(request, {}), reading);
    }
    if (progress.stage == Stage::nothing || progress.stage == Stage::refused || progress.stage == Stage::stale) {
      clear_driver(snapshot);
      if (progress.stage == Stage::stale) progress.problem = explain_unsteady_driver();
      report_problem(std::move(progress.problem), snapshot);
      return;
    }
    for (const auto& [index, record] : troubles.resting) {
      if (index < reading.count) reading.records.try_emplace(index, record);
    }
    settle(progress, request, reading, snapshot);
    const bool gpus_missing = !reading.missing().empty();
    if (gpus_missing) read_apart(request, reading);
    if (progress.stage == Stage::gpu) read_parts(request, reading, snapshot);
    finish(std::move(reading), snapshot);
  }

  Progress ask(const Json& request, Reading& reading) const {
    child_->send(request);
    return reading.take(*child_, [&] { return options_.timeout; });
  }

  static void clear_driver(Snapshot& snapshot) {
    snapshot.driver_version.reset();
    snapshot.cuda_driver_version.reset();
    snapshot.nvml_version.reset();
  }

  /// Notes whom the session's child fell silent at, and gives that child up.
  void settle(const Progress& progress, const ReadRequest& request, Reading& reading, Snapshot& snapshot) {
    if (progress.stage == Stage::done) return;
    const Silence silence = silence_of(*child_);
    child_.reset();
    // The children that follow are started a timeout later: a GPU may sleep by now.
    pci_ = scan_pci(options_.sys_root);
    if (progress.stage == Stage::gpu)
      put_silent(progress.index, silence, reading);
    else
      note_gaps(progress.part, silence, request, reading, snapshot);
  }

  void put_silent(std::uint32_t index, const Silence& silence, Reading& reading) const {
    GpuRecord record = explain_silent_gpu(reading.known(index), silence, options_.timeout);
    options_.troubles->remember(record, options_.clock->now());
    reading.records[index] = std::move(record);
  }

  /// The part that fell silent, and those that were to follow it.
  void note_gaps(facts::ReadingGap::Part part, const Silence& silence, const ReadRequest& request,
                 const Reading& reading, Snapshot& snapshot) const {
    using Part = facts::ReadingGap::Part;
    const auto note = [&](Part which, bool missing) {
      if (missing) snapshot.gaps.push_back(explain_gap(which, silence, options_.timeout));
    };
    note(Part::slow_metrics, part == Part::slow_metrics);
    note(Part::links, request.links && !reading.links);
    note(Part::cuda_order, request.cuda_order && !reading.cuda_order);
  }

  /// A fresh child for each GPU that is not read yet, all at once, so that several that hang cost one more timeout
  /// together and not one each.
  void read_apart(const ReadRequest& request, Reading& reading) const {
    ReadRequest alone = request;
    alone.links = alone.cuda_order = false;
    alone.detail = std::min(request.detail, Detail::full);
    std::vector<std::pair<std::uint32_t, std::unique_ptr<ChildProcess>>> children;
    for (const std::uint32_t index : reading.missing()) {
      children.emplace_back(index, start_reader());
      Json wanted = json_of(alone, {});
      wanted["only"] = {index};
      if (children.back().second) children.back().second->send(wanted);
    }
    const auto end = options_.clock->now() + options_.timeout;
    // Whoever has answered in time is read, however late the parent comes to it.
    const auto patience = [&] {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - options_.clock->now());
      return std::max(left, std::chrono::milliseconds(20));
    };
    for (auto& [index, child] : children) {
      if (!child) continue;
      const auto hello = child->receive(patience());
      if (hello && hello->contains("driver")) reading.take(*child, patience);
      if (!reading.records.contains(index))
        put_silent(index, silence_of(*child), reading);
      else
        options_.troubles->forget(GpuIndex{index});
    }
  }

  /// What is asked besides the GPUs, after one of them has ended the session: by a new one, which stays.
  void read_parts(const ReadRequest& request, Reading& reading, Snapshot& snapshot) {
    const bool wanted = request.links || request.cuda_order || request.detail >= Detail::slow;
    if (!wanted) return;
    child_ = start_reader();
    if (!child_) return;
    std::vector<std::uint32_t> healthy;
    for (const auto& [index, record] : reading.records) {
      if (facts::is_usable(record)) healthy.push_back(index);
    }
    Json json = json_of(request, {});
    json["only"] = healthy;
    const auto hello = child_->receive(options_.timeout);
    Progress progress;
    if (hello && hello->contains("driver")) progress = ask(json, reading);
    settle(progress, request, reading, snapshot);
  }

  void finish(Reading reading, Snapshot& snapshot) const {
    for (auto& [index, record] : reading.records) snapshot.gpus.push_back(std::move(record));
    snapshot.links = std::move(reading.links);
    snapshot.cuda_order = std::move(reading.cuda_order);
    place_by_pci(pci_, snapshot.gpus);
    mark_duplicates(snapshot.gpus);
  }

  ReaderOptions options_;
  std::vector<PciGpu> pci_;  ///< of the reading that goes on
  std::unique_ptr<ChildProcess> child_;
  Json driver_;
  std::optional<std::string> module_;  ///< the kernel module's version when the child was started
  bool worked_ = false;
  bool library_failed_ = false;
};

std::optional<ProbeChoice> probe_choice_from(std::string_view name) {
  if (name == "auto") return ProbeChoice::automatic;
  if (name == "nvml") return ProbeChoice::nvml;
  if (name == "nvidia-smi") return ProbeChoice::nvidia_smi;
  return std::nullopt;
}

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
