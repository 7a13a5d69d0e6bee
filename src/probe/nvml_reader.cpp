// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/nvml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/apart.hpp"
#include "probe/holder_search.hpp"
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

/// In a series: how often /sys is looked through, and what a new child, which reads everything, is given at least.
constexpr std::chrono::seconds kSysPace{10};
constexpr std::chrono::milliseconds kFirstPatience{1000};
constexpr std::chrono::milliseconds kLeastPatience{50};
/// For what is read besides the GPUs: all of them together.
constexpr std::chrono::milliseconds kPartPatience{3000};

}  // namespace

class NvmlReader::Impl {
 public:
  explicit Impl(ReaderOptions options) : options_(std::move(options)) {}

  Snapshot read(const ReadRequest& request) {
    told_holders_ = false;
    Snapshot snapshot = read_gpus(request);
    // The reader's process had not come to it, or there was none.
    if (request.holders && !request.every && !told_holders_) HolderSearch(options_, request.stop).add_to(snapshot);
    return snapshot;
  }

  bool library_failed() const { return library_failed_; }

 private:
  Snapshot read_gpus(const ReadRequest& request) {
    Snapshot snapshot = begin_snapshot(options_);
    library_failed_ = false;
    // Its socket may have been shut.
    if (stopped()) child_.reset();
    stop_ = request.stop;
    every_ = request.every;
    const auto now = options_.clock->now();
    if (!request.every || !child_ || now - scanned_ >= kSysPace) {
      pci_.look(options_.sys_root);
      scanned_ = now;
    }
    const bool all_asleep = !pci_.gpus().empty() && std::ranges::all_of(pci_.gpus(), &PciGpu::suspended);
    if (all_asleep && !options_.wake) {
      snapshot.source = "sysfs";
      for (const PciGpu& gpu : pci_.described())
        snapshot.gpus.push_back(sleeping_record(gpu, GpuIndex{static_cast<std::uint32_t>(snapshot.gpus.size())}));
      return snapshot;
    }
    // A session outlives neither its kernel module nor its library: it is opened anew once they have changed.
    if (child_ && snapshot.kernel_module_version != module_) forget_session();
    if (!connect(snapshot)) {
      if (coming_up_) list_unread(snapshot);
      return snapshot;
    }
    if (request.every)
      collect_of_series(request, snapshot);
    else
      collect(request, snapshot);
    return snapshot;
  }

  std::unique_ptr<ChildProcess> start_reader() const {
    return ChildProcess::start([this](int fd) { serve_reader(fd, options_, pci_.gpus()); });
  }

  bool stopped() const { return stop_.stop_requested(); }

  void forget_session() {
    child_.reset();
    apart_.clear();
    identities_.clear();
    options_.troubles->forget_all();
  }

  /// A running child that has said what driver there is; false when the driver does not answer.
  bool connect(Snapshot& snapshot) {
    coming_up_ = false;
    if (!child_ && !open_session(snapshot)) return false;
    if (driver_.is_null() && !hear_hello(snapshot)) return false;
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
    fresh_ = true;
    hello_since_ = options_.clock->now();
    return true;
  }

  /// What driver a new child has found. In a series whose GPUs are known it may come up while others are read: then
  /// this reading waits no longer than until the next one.
  bool hear_hello(Snapshot& snapshot) {
    const auto end = hello_since_ + options_.timeout;
    const bool goes_on = every_ && worked_ && !identities_.empty();
    auto wait = std::chrono::ceil<std::chrono::milliseconds>(end - options_.clock->now());
    if (goes_on) wait = std::min(wait, std::max(*every_, kLeastPatience));
    const auto hello = child_ ? child_->receive(std::max(wait, std::chrono::milliseconds(1)), stop_) : std::nullopt;
    if (stopped()) {
      child_.reset();
      return false;
    }
    coming_up_ = !hello && goes_on && child_ && !child_->closed() && options_.clock->now() < end;
    if (coming_up_) return false;
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

  /// A GPU that was not asked, since a new child is only coming up: nothing is known of this moment.
  facts::GpuRecord unread(std::uint32_t index) const {
    GpuRecord record;
    if (const auto known = identities_.find(index); known != identities_.end()) record.gpu = known->second;
    record.gpu.index = GpuIndex{index};
    record.processes_unreadable = true;
    record.cause = "not read this time: the driver is being opened anew, since another GPU does not answer";
    return record;
  }

  void list_unread(Snapshot& snapshot) {
    Reading reading;
    const auto now = options_.clock->now();
    apart_.look(now, options_.timeout, *options_.troubles, reading);
    const Troubles::View troubles = options_.troubles->look(now);
    for (const auto* list : {&troubles.due, &troubles.resting}) {
      for (const auto& [index, record] : *list) reading.records.try_emplace(index, record);
    }
    for (const auto& [index, gpu] : identities_) reading.records.try_emplace(index, unread(index));
    finish(std::move(reading), snapshot);
  }

  void collect(const ReadRequest& request, Snapshot& snapshot) {
    Reading reading;
    const Troubles::View troubles = options_.troubles->look(options_.clock->now());
    std::vector<std::uint32_t> skip;
    for (const auto* list : {&troubles.due, &troubles.resting}) {
      for (const auto& [index, record] : *list) skip.push_back(index);
    }
    Progress progress;
    if (!ask_driver(request, skip, reading, snapshot, progress)) return;
    for (const auto& [index, record] : troubles.resting) {
      if (index < reading.count) reading.records.try_emplace(index, record);
    }
    settle(progress, request, reading, snapshot);
    const bool gpus_missing = !reading.missing().empty();
    if (gpus_missing) read_apart(request, reading);
    if (progress.stage == Stage::gpu) read_parts(request, reading, snapshot);
    finish(std::move(reading), snapshot);
  }

  /// Asks, by another session where the driver was replaced; false where the driver as a whole does not answer, which
  /// the snapshot then says, or the reading was stopped.
  bool ask_driver(const ReadRequest& request, const std::vector<std::uint32_t>& skip, Reading& reading,
                  Snapshot& snapshot, Progress& progress) {
    progress = ask(request_message(request, skip), request, reading);
    if (!stopped() && progress.stage == Stage::stale) {
      forget_session();
      if (!connect(snapshot)) {
        if (coming_up_) list_unread(snapshot);
        return false;
      }
      reading = {};
      progress = ask(request_message(request, {}), request, reading);
    }
    if (stopped()) {
      child_.reset();
      return false;
    }
    if (progress.stage != Stage::nothing && progress.stage != Stage::refused && progress.stage != Stage::stale)
      return true;
    clear_driver(snapshot);
    if (progress.stage == Stage::stale) progress.problem = explain_unsteady_driver();
    report_problem(std::move(progress.problem), snapshot);
    return false;
  }

  /// As collect(), but a GPU that is late is left to a child of its own.
  void collect_of_series(const ReadRequest& wanted, Snapshot& snapshot) {
    Reading reading;
    const auto now = options_.clock->now();
    const ReadRequest request = without_resting(wanted, now, snapshot);
    apart_.look(now, options_.timeout, *options_.troubles, reading);
    const Troubles::View troubles = options_.troubles->look(now);
    for (const auto& [index, record] : troubles.resting) reading.records.try_emplace(index, record);
    for (const auto& [index, record] : troubles.due) {
      if (apart_.holds(index)) continue;
      apart_.keep(record, start_and_ask(request, index), now);
      reading.records.try_emplace(index, record);
    }
    std::vector<std::uint32_t> skip;
    for (const auto& [index, record] : reading.records) skip.push_back(index);
    Progress progress;
    if (!ask_driver(request, skip, reading, snapshot, progress)) return;
    if (progress.stage == Stage::gpu && !part_from(progress, request, reading, snapshot)) return;
    if (progress.stage == Stage::part) {
      settle(progress, request, reading, snapshot);
      if (!stopped()) rest_part(progress.part, snapshot, now);
    }
    std::erase_if(reading.records, [&](const auto& entry) { return entry.first >= reading.count; });
    if (!stopped()) finish(std::move(reading), snapshot);
  }

  /// What fell silent besides the GPUs is asked ever more seldom; until then the snapshot says what is missing.
  ReadRequest without_resting(ReadRequest request, Clock::SteadyTime now, Snapshot& snapshot) {
    using Part = facts::ReadingGap::Part;
    const auto rests = [&](Part part, bool wanted) {
      const auto found = resting_parts_.find(part);
      if (!wanted || found == resting_parts_.end() || now >= found->second.rest.until) return false;
      snapshot.gaps.push_back(found->second.gap);
      return true;
    };
    if (rests(Part::links, request.links)) request.links = false;
    if (rests(Part::cuda_order, request.cuda_order)) request.cuda_order = false;
    if (rests(Part::slow_metrics, request.detail >= Detail::slow)) request.detail = Detail::full;
    return request;
  }

  void rest_part(facts::ReadingGap::Part part, const Snapshot& snapshot, Clock::SteadyTime now) {
    const auto gap = std::ranges::find(snapshot.gaps, part, &facts::ReadingGap::part);
    if (gap == snapshot.gaps.end()) return;
    RestingPart& resting = resting_parts_[part];
    resting.rest.begin(now);
    resting.gap = *gap;
  }

  /// The session's child is late with a GPU: it stays with that one, and another child reads the others. Where that
  /// happens twice in one reading, each of the rest has a child of its own. False where the reading ends here.
  bool part_from(Progress& progress, const ReadRequest& request, Reading& reading, Snapshot& snapshot) {
    for (int times = 0; progress.stage == Stage::gpu; ++times) {
      leave_behind(progress.index, reading);
      const auto missing = reading.missing();
      if (missing.empty() || times > 0) break;
      if (!connect(snapshot)) {
        if (!coming_up_) return false;
        for (const std::uint32_t index : missing) reading.records[index] = unread(index);
        return true;
      }
      Json rest = request_message(request, {});
      rest["only"] = missing;
      progress = ask(rest, request, reading);
      if (stopped()) return false;
    }
    for (const std::uint32_t index : reading.missing()) {
      GpuRecord record = explain_silent_gpu(known(reading, index), {.timed_out = true, .end = {}}, patience_);
      apart_.keep(record, start_and_ask(request, index), options_.clock->now());
      reading.records[index] = std::move(record);
    }
    return true;
  }

  void leave_behind(std::uint32_t index, Reading& reading) {
    if (child_->closed()) {
      put_silent(index, silence_of(*child_), reading);
      child_.reset();
      return;
    }
    GpuRecord record = explain_silent_gpu(known(reading, index), {.timed_out = true, .end = {}}, patience_);
    apart_.keep(record, std::move(child_), options_.clock->now());
    reading.records[index] = std::move(record);
  }

  /// A new child that was asked for one GPU.
  std::unique_ptr<ChildProcess> start_and_ask(const ReadRequest& request, std::uint32_t index) const {
    ReadRequest alone = request;
    alone.links = alone.cuda_order = alone.holders = false;
    alone.detail = std::min(request.detail, Detail::full);
    auto child = start_reader();
    Json wanted = request_message(alone, {});
    wanted["only"] = {index};
    if (child) child->send(wanted);
    return child;
  }

  Progress ask(const Json& json, const ReadRequest& request, Reading& reading) {
    child_->send(json);
    const auto most = std::max(request.every.value_or(options_.timeout), fresh_ ? kFirstPatience : kLeastPatience);
    patience_ = std::min(most, options_.timeout);
    const auto patience = [&](const Progress& progress) {
      if (progress.stage == Stage::gpu) return patience_;
      const bool in_series = request.every && progress.stage == Stage::part;
      return in_series ? std::min(std::max(*request.every, kPartPatience), options_.timeout) : options_.timeout;
    };
    Progress progress = reading.take(*child_, patience, stop_);
    fresh_ = fresh_ && progress.stage != Stage::done;
    return progress;
  }

  /// What is known of a GPU, from this reading or one before.
  facts::Gpu known(const Reading& reading, std::uint32_t index) const {
    const facts::Gpu gpu = reading.known(index);
    const auto before = identities_.find(index);
    return gpu.uuid.value.empty() && before != identities_.end() ? before->second : gpu;
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
    pci_.look(options_.sys_root);
    if (progress.stage == Stage::gpu)
      put_silent(progress.index, silence, reading);
    else
      note_gaps(progress.part, silence, request, reading, snapshot);
  }

  void put_silent(std::uint32_t index, const Silence& silence, Reading& reading) const {
    GpuRecord record = explain_silent_gpu(known(reading, index), silence, options_.timeout);
    options_.troubles->remember(record, options_.clock->now());
    reading.records[index] = std::move(record);
  }

  /// The part that fell silent, and those that were to follow it.
  void note_gaps(facts::ReadingGap::Part part, const Silence& silence, const ReadRequest& request,
                 const Reading& reading, Snapshot& snapshot) {
    using Part = facts::ReadingGap::Part;
    const auto note = [&](Part which, bool missing) {
      if (missing) snapshot.gaps.push_back(explain_gap(which, silence, options_.timeout));
    };
    note(Part::slow_metrics, part == Part::slow_metrics);
    note(Part::links, request.links && !reading.links);
    note(Part::cuda_order, request.cuda_order && !reading.cuda_order);
    // Where something before it fell silent, the search can be made up for.
    note(Part::holders, part == Part::holders);
    told_holders_ = told_holders_ || part == Part::holders;
  }

  /// A fresh child for each GPU that is not read yet, all at once, so that several that hang cost one more timeout
  /// together and not one each.
  void read_apart(const ReadRequest& request, Reading& reading) const {
    std::vector<std::pair<std::uint32_t, std::unique_ptr<ChildProcess>>> children;
    for (const std::uint32_t index : reading.missing()) children.emplace_back(index, start_and_ask(request, index));
    const auto end = options_.clock->now() + options_.timeout;
    // Whoever has answered in time is read, however late the parent comes to it.
    const auto patience = [&](const Progress& = {}) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - options_.clock->now());
      return std::max(left, std::chrono::milliseconds(20));
    };
    for (auto& [index, child] : children) {
      if (!child) continue;
      const auto hello = child->receive(patience(), stop_);
      if (hello && hello->contains("driver")) reading.take(*child, patience, stop_);
      if (stopped()) return;
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
    Json json = request_message(request, {});
    json["only"] = healthy;
    json["holders"] = request.holders && !reading.holders;
    const auto hello = child_->receive(options_.timeout, stop_);
    Progress progress;
    if (hello && hello->contains("driver")) progress = ask(json, request, reading);
    if (stopped()) return;
    settle(progress, request, reading, snapshot);
  }

  void finish(Reading reading, Snapshot& snapshot) {
    for (auto& [index, record] : reading.records) {
      if (facts::is_usable(record) && identities_[index].uuid != record.gpu.uuid) identities_[index] = record.gpu;
      snapshot.gpus.push_back(std::move(record));
    }
    snapshot.links = std::move(reading.links);
    snapshot.cuda_order = std::move(reading.cuda_order);
    if (std::ranges::any_of(snapshot.gpus, needs_pci)) place_by_pci(pci_.described(), snapshot.gpus);
    mark_duplicates(snapshot.gpus);
    if (!reading.holders) return;
    told_holders_ = true;
    drop_ended(options_.driver_proc_root, *reading.holders);
    add_holders(*reading.holders, snapshot);
  }

  struct RestingPart {
    TroubleRest rest;
    facts::ReadingGap gap;
  };

  ReaderOptions options_;
  PciLook pci_;  ///< of the reading that goes on
  Clock::SteadyTime scanned_{};
  std::unique_ptr<ChildProcess> child_;
  bool fresh_ = true;                     ///< the child has not answered a request to its end
  std::chrono::milliseconds patience_{};  ///< for each GPU, of the last request
  Apart apart_;
  std::map<std::uint32_t, facts::Gpu> identities_;
  std::stop_token stop_;                            ///< of the reading that goes on
  std::optional<std::chrono::milliseconds> every_;  ///< of the reading that goes on
  std::map<facts::ReadingGap::Part, RestingPart> resting_parts_;
  Clock::SteadyTime hello_since_{};
  bool coming_up_ = false;             ///< the child has not said yet what driver there is
  Json driver_;                        ///< null: not said yet
  std::optional<std::string> module_;  ///< the kernel module's version when the child was started
  bool worked_ = false;
  bool library_failed_ = false;
  bool told_holders_ = false;  ///< who they are, or why that is unknown
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
