// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/reservation.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/lease/line.hpp"
#include "gpuwarden/machine/own_choice.hpp"
#include "gpuwarden/machine/past_load.hpp"

namespace gpuwarden::machine {
namespace {

using placement::Decision;

/// Attempts of a claim whose GPUs others take between choosing and locking.
constexpr int kLostRaces = 40;

std::set<Uuid> idle_devices(const facts::Snapshot& snapshot, const lease::Situation& situation) {
  std::set<Uuid> idle;
  const auto add = [&](const Uuid& uuid) {
    if (std::ranges::find(situation.leases, uuid, &facts::Lease::uuid) == situation.leases.end()) idle.insert(uuid);
  };
  for (const facts::GpuRecord& record : snapshot.gpus) {
    if (!facts::is_usable(record) || !record.processes) continue;
    const auto is_used = [&](const std::optional<std::uint32_t>& instance) {
      return std::ranges::any_of(*record.processes, [&](const facts::GpuProcess& process) {
        return process.compute && (!instance || !process.gpu_instance || process.gpu_instance == instance);
      });
    };
    if (!is_used(std::nullopt)) add(record.gpu.uuid);
    for (const facts::MigDevice& mig : record.mig_devices) {
      if (!is_used(mig.gpu_instance)) add(mig.uuid);
    }
  }
  return idle;
}

}  // namespace

/// One attempt after another, with a place in line from the second on.
class Acquisition {
 public:
  Acquisition(const ReservationRequest& request, const GpuSource& source, Clock& clock, const std::stop_token& stop)
      : request_(request), source_(source), clock_(clock), stop_(stop), start_(clock.now()) {
    const placement::Request& gpus = request.gpus;
    const placement::Visibility& visible = request.visibility;
    result_.visibility_ = visible;
    read_.links = gpus.count.value_or(1) > 1 || gpus.work.has_value() || gpus.model_size.has_value();
    read_.cuda_order = visible.cuda_visible_devices.has_value() && visible.cuda_device_order != "PCI_BUS_ID" &&
                       !source.simulated && !source.captured;
  }

  Result<Reservation> run() {
    for (int round = 1;; ++round) {
      if (stop_.stop_requested()) return interrupted();
      GPUWARDEN_TRY(const bool done, attempt());
      // A signal that came meanwhile means the job that would start now.
      if (request_.hold && stop_.stop_requested()) return interrupted();
      if (done || (!request_.hold && !request_.wait && !settles_)) return std::move(result_);
      if (auto error = give_up(round)) {
        if (request_.refused) request_.refused(result_.decision_);
        return std::unexpected(std::move(*error));
      }
      if (request_.wait) get_in_line();
      if (!clock_.sleep_for(pause(round), stop_)) return interrupted();
    }
  }

 private:
  static std::unexpected<Error> interrupted() {
    return fail(ErrorCode::interrupted, "interrupted while waiting for GPUs");
  }

  /// True when satisfied.
  Result<bool> attempt() {
    settles_ = false;  // the word of this attempt alone: one that does not read waits for nothing that is soon known
    if (request_.gpus.force_cpu) {
      GPUWARDEN_CHECK(decide({}));
      return true;
    }
    if (!is_my_turn()) return false;
    result_.snapshot_ = source_.read(read_);
    last_read_ = clock_.now();
    if (source_.captured || source_.leases == nullptr) return decide_without_leases();
    devices_ = lease_devices(result_.snapshot_, source_.sys_root, source_.proc_root);
    if (!request_.hold) return decide(source_.leases->inspect(devices_, lease::Names::told, stop_));
    GPUWARDEN_TRY(
        auto held,
        source_.leases->claim(devices_, [&](const lease::Situation& situation) { return choose(situation); }, stop_));
    if (!held) return result_.decision_.satisfied && result_.decision_.cpu;
    result_.leases_ = std::move(*held);
    return true;
  }

  Result<bool> decide_without_leases() {
    GPUWARDEN_TRY(const bool done, decide({}));
    if (source_.captured) result_.decision_.may_come_true = false;  // the past does not change
    if (done && request_.hold && !result_.decision_.cpu)
      return fail(ErrorCode::invalid_argument, "GPUs cannot be reserved without a lease store");
    return done;
  }

  /// Fills the decision; true when satisfied.
  Result<bool> decide(const lease::Situation& situation) {
    const auto view = line_.look(situation, ticket_.id(), idle_devices(result_.snapshot_, situation), clock_.now());
    someone_goes_first_ = view.someone_can_go;
    const std::vector<facts::Lease> leases = situation.in_the_way();
    own_line_ = own_line();
    std::vector<facts::Disabling> disabled;
    if (source_.disabled && !request_.gpus.force_cpu) {
      GPUWARDEN_TRY(disabled, source_.disabled(result_.snapshot_));
    }
    // Nobody else can take what our own lease holds, and those who hold it are no strangers on it.
    std::vector<Uuid> spoken_for = view.spoken_for;
    std::erase_if(spoken_for,
                  [&](const Uuid& uuid) { return std::ranges::find(situation.own, uuid) != situation.own.end(); });
    const facts::Snapshot seen = as_seen_within(result_.snapshot_, situation.own);
    const placement::Inputs inputs{seen, leases, spoken_for, request_.visibility, disabled};
    GPUWARDEN_TRY(result_.decision_, select_most(inputs));
    const auto again = [this](const placement::Inputs& calm) { return select_most(calm); };
    settles_ = request_.looks_again && !source_.captured &&
               clock_.now() - start_ < std::min(kPastLoad, request_.wait.value_or(kPastLoad)) &&
               past_load_counts(result_.decision_, inputs, again);
    note_own_in_the_way(situation, inputs);
    return result_.decision_.satisfied && !settles_;
  }

  /// For as many as can be had, where fewer would do.
  Result<Decision> select_most(const placement::Inputs& inputs) const {
    placement::Request wanted = request_.gpus;
    const std::uint32_t most = wanted.count.value_or(1);
    const std::uint32_t least = std::clamp(request_.least.value_or(most), std::min(1U, most), most);
    for (std::uint32_t count = most;; --count) {
      if (request_.least) wanted.count = count;
      GPUWARDEN_TRY(Decision decision, placement::select(wanted, inputs));
      if (decision.satisfied || count <= least) return decision;
    }
  }

  /// Whether the lease is that of a process from which this one was started.
  bool is_of_own_line(const facts::Lease& lease) const {
    return !lease.holders.empty() && std::ranges::all_of(lease.holders, [&](const auto& holder) {
      // What this very process holds alone it has taken itself: another of its threads may give it back.
      return std::ranges::find(own_line_, holder.pid) != own_line_.end() &&
             (lease.shared || holder.pid != own_line_.back());
    });
  }

  /// Such a lease, where nothing else is in the way: without it the request would be satisfied.
  void note_own_in_the_way(const lease::Situation& situation, const placement::Inputs& inputs) {
    blocked_by_own_.reset();
    if (result_.decision_.satisfied) return;
    std::vector<facts::Lease> others = inputs.leases;
    const auto own = std::ranges::stable_partition(others, [&](const auto& lease) { return !is_of_own_line(lease); });
    const std::vector<facts::Lease> blocking(own.begin(), own.end());
    if (blocking.empty()) return;
    others.erase(own.begin(), own.end());
    std::vector<Uuid> devices = situation.own;
    for (const facts::Lease& lease : blocking) devices.push_back(lease.uuid);
    std::vector<Uuid> spoken_for = inputs.spoken_for;
    std::erase_if(spoken_for, [&](const Uuid& uuid) { return std::ranges::find(devices, uuid) != devices.end(); });
    const facts::Snapshot seen = without_processes(result_.snapshot_, own_line_, devices);
    const auto without = select_most({seen, others, spoken_for, inputs.visibility, inputs.disabled});
    if (!without || !without->satisfied) return;
    for (const facts::Lease& lease : blocking) {
      const auto& chosen = without->selected;
      if (std::ranges::find(chosen, lease.uuid, &placement::Device::uuid) != chosen.end()) blocked_by_own_ = lease;
    }
  }

  /// For somebody who would wait for the end of what he runs in himself.
  std::string advice_on_own_lease() const {
    if (blocked_by_own_->shared) return "this command runs within that lease, which is shared: --share uses it too";
    return fmt::format(
        "this command was started by the process that holds it (pid {}), but did not inherit its lock: let it keep its "
        "descriptors (Python's subprocess: close_fds=False)",
        blocked_by_own_->holders.front().pid.value);
  }

  Result<lease::Choice> choose(const lease::Situation& situation) {
    GPUWARDEN_CHECK(decide(situation));
    lease::Choice choice{{}, request_.gpus.shared};
    if (settles_) return choice;
    for (const auto& device : result_.decision_.selected) {
      const auto known = std::ranges::find(devices_, device.uuid, &lease::Device::uuid);
      choice.devices.push_back(known == devices_.end() ? lease::Device{device.uuid, {}} : *known);
    }
    return choice;
  }

  /// Why it is not tried again, if it is not.
  std::optional<Error> give_up(int round) const {
    if (settles_) return std::nullopt;
    const Decision& decision = result_.decision_;
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - start_);
    if (decision.satisfied) {
      if (request_.wait ? waited < *request_.wait : round < kLostRaces) return std::nullopt;
      return Error{request_.wait ? ErrorCode::timed_out : ErrorCode::unsatisfied,
                   "others took the GPUs while they were being claimed", "try again, or wait in line for them"};
    }
    if (!decision.may_come_true) return unsatisfied();
    // Who goes first takes what it may, or has let its turn pass: that is soon known.
    if (!request_.wait) return someone_goes_first_ ? std::nullopt : std::optional(unsatisfied());
    if (waited < *request_.wait) return std::nullopt;
    Error error = unsatisfied();
    error.code = ErrorCode::timed_out;
    error.message = fmt::format("timed out after {}: {}", format_duration(waited), error.message);
    error.hint.clear();
    return error;
  }

  Error unsatisfied() const {
    const Decision& decision = result_.decision_;
    if (blocked_by_own_ && decision.may_come_true)
      return {ErrorCode::unsatisfied, decision.missing, advice_on_own_lease()};
    return {ErrorCode::unsatisfied, decision.missing,
            source_.advise ? source_.advise(decision, result_.snapshot_) : ""};
  }

  void get_in_line() {
    if (ticket_ || !request_.hold || result_.decision_.satisfied) return;
    const auto wants = static_cast<std::uint32_t>(std::max<std::size_t>(1, result_.decision_.wanted));
    // Without a place it waits all the same, behind those who have one.
    if (auto ticket = source_.leases->queue(wants, result_.decision_.candidates, stop_, request_.priority))
      ticket_ = std::move(*ticket);
  }

  /// Reading the GPUs costs more than looking at the line: those who wait far behind do not.
  bool is_my_turn() const {
    if (!ticket_) return true;
    const auto situation = source_.leases->inspect(devices_, lease::Names::left_out, stop_);
    const auto leases = situation.in_the_way();
    const auto& candidates = result_.decision_.candidates;
    const auto own = std::ranges::find(situation.waiting, ticket_.id(), &facts::LeaseTicket::id);
    const auto ahead = own - situation.waiting.begin();
    const auto free = std::ranges::count_if(candidates, [&](const Uuid& uuid) {
      return std::ranges::none_of(leases, [&](const facts::Lease& lease) {
        return lease.uuid == uuid && !(lease.shared && request_.gpus.shared);
      });
    });
    // Those in front may be such as never go (lease::Line), which only a reading tells.
    const bool is_long_ago = clock_.now() - last_read_ >= kLongestBlind;
    return candidates.empty() || own == situation.waiting.end() || (free > 0 && (ahead < kReaders || is_long_ago));
  }

  /// Unequal steps, so that many waiters do not move together; longer ones in the long run.
  std::chrono::nanoseconds pause(int round) const {
    const int most = std::min(60 + round / 4, 400);
    const auto step = std::chrono::milliseconds(most + (round * 37) % 60);
    if (!request_.wait) return step;
    const auto left = *request_.wait - std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - start_);
    return std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(1), step);
  }

  /// How many of those in front read the GPUs.
  static constexpr std::ptrdiff_t kReaders = 4;
  static constexpr std::chrono::seconds kLongestBlind{8};

  const ReservationRequest& request_;
  const GpuSource& source_;
  Clock& clock_;
  const std::stop_token& stop_;
  Clock::SteadyTime start_;
  Clock::SteadyTime last_read_;
  probe::ReadRequest read_;
  std::vector<lease::Device> devices_;
  lease::Line line_;
  lease::Ticket ticket_;
  bool someone_goes_first_ = false;
  bool settles_ = false;       ///< load that may be past stands in the way: it is soon known
  std::vector<Pid> own_line_;  ///< this process and those that it was started by
  std::optional<facts::Lease> blocked_by_own_;
  Reservation result_;
};

Result<Reservation> Reservation::make(const ReservationRequest& request, const GpuSource& source, Clock& clock,
                                      const std::stop_token& stop) {
  return Acquisition(request, source, clock, stop).run();
}

placement::Inputs Reservation::inputs() const {
  static const std::vector<facts::Lease> kNoLeases;
  static const std::vector<Uuid> kNobody;
  return {snapshot_, kNoLeases, kNobody, visibility_};
}

void Reservation::give_back(const Uuid& device) {
  std::erase_if(decision_.selected, [&](const placement::Device& one) { return one.uuid == device; });
  leases_.give_back(device);
}

void Reservation::join(Reservation other) {
  std::ranges::move(other.decision_.selected, std::back_inserter(decision_.selected));
  snapshot_ = std::move(other.snapshot_);
  leases_.join(std::move(other.leases_));
}

Reservation Reservation::of_cpu() {
  Reservation cpu;
  cpu.decision_.satisfied = cpu.decision_.cpu = true;
  return cpu;
}

void Reservation::keep(Clock& clock, const std::stop_token& stop,
                       const std::function<void(const std::string&)>& warning) {
  constexpr std::chrono::seconds kBetweenLooks(10);
  while (clock.sleep_for(kBetweenLooks, stop)) {
    for (const std::string& text : repair()) warning(text);
  }
}

}  // namespace gpuwarden::machine
