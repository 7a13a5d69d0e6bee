// SPDX-License-Identifier: Apache-2.0
#include "acquire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/ways_to_fit.hpp"

namespace gpuwarden::cli {
namespace {

using placement::Decision;

/// Waiting is interrupted by these; a job's own signals are handled elsewhere.
class Interruptible {
 public:
  Interruptible() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// True when a signal came.
  bool sleep(std::chrono::milliseconds duration) const {
    const timespec time{duration.count() / 1000, (duration.count() % 1000) * 1'000'000};
    return ::sigtimedwait(&set_, nullptr, &time) > 0;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

/// One attempt after another, with a place in line from the second on.
class Acquisition {
 public:
  Acquisition(const Context& context, const Machine& machine, const Selection& selection,
              const lease::LeaseStore* store, bool hold)
      : selection_(selection),
        store_(store),
        hold_(hold),
        captured_(machine.captured()),
        reader_(machine.reader()),
        visibility_(machine.captured() ? placement::Visibility{} : placement::visibility_from(context.environment)) {
    read_.links = selection.request.count.value_or(1) > 1 || selection.request.work.has_value();
    read_.cuda_order = visibility_.cuda_visible_devices.has_value() && visibility_.cuda_device_order != "PCI_BUS_ID" &&
                       !machine.simulated();
  }

  /// True when satisfied.
  Result<bool> attempt() {
    if (selection_.request.force_cpu) {
      GPUWARDEN_CHECK(decide({}));
      return true;
    }
    if (!is_my_turn()) return false;
    result_.snapshot = captured_ ? *captured_ : reader_.read(read_);
    if (captured_) {
      GPUWARDEN_TRY(const bool done, decide({}));
      result_.decision.may_come_true = false;  // the past does not change
      return done;
    }
    if (!hold_) {
      GPUWARDEN_TRY(const lease::Situation situation, store_->inspect());
      return decide(situation);
    }
    GPUWARDEN_TRY(auto held, store_->claim(ticket_ ? &*ticket_ : nullptr,
                                           [&](const lease::Situation& situation) { return choose(situation); }));
    if (!held) return result_.decision.satisfied && result_.decision.cpu;
    result_.leases = std::move(*held);
    return true;
  }

  Result<void> get_in_line() {
    if (ticket_ || !hold_) return {};
    const auto wants = static_cast<std::uint32_t>(std::max<std::size_t>(1, result_.decision.wanted));
    GPUWARDEN_TRY(ticket_, store_->queue(wants, result_.decision.candidates));
    return {};
  }

  const Decision& decision() const { return result_.decision; }
  Error unsatisfied() const {
    const Decision& decision = result_.decision;
    return {ErrorCode::unsatisfied, decision.missing,
            decision.may_come_true
                ? "--wait waits in line for them; --explain of gpuwarden select tells more"
                : placement::ways_to_fit(selection_.request, {result_.snapshot, {}, {}, visibility_}, decision)};
  }
  Acquired take() {
    ticket_.reset();
    return std::move(result_);
  }

 private:
  /// Fills result_.decision; true when satisfied.
  Result<bool> decide(const lease::Situation& situation) {
    GPUWARDEN_TRY(result_.decision, placement::select(selection_.request, {result_.snapshot, situation.leases,
                                                                           situation.spoken_for, visibility_}));
    return result_.decision.satisfied;
  }

  Result<lease::Choice> choose(const lease::Situation& situation) {
    GPUWARDEN_CHECK(decide(situation));
    lease::Choice choice{{}, selection_.request.shared};
    for (const auto& device : result_.decision.selected) choice.devices.push_back(device.uuid);
    return choice;
  }

  /// Reading the GPUs costs more than looking at the line: those who wait far behind do not.
  bool is_my_turn() const {
    if (!ticket_) return true;
    const auto situation = store_->inspect();
    if (!situation) return true;
    const auto& candidates = result_.decision.candidates;
    const auto ahead = std::ranges::count_if(situation->waiting,
                                             [&](const auto& ticket) { return ticket.number < ticket_->number(); });
    const auto free = std::ranges::count_if(candidates, [&](const Uuid& uuid) {
      return std::ranges::none_of(situation->leases, [&](const facts::Lease& lease) {
        return lease.uuid == uuid && !(lease.shared && selection_.request.shared);
      });
    });
    return candidates.empty() || (free > 0 && ahead < 4);
  }

  const Selection& selection_;
  const lease::LeaseStore* store_;
  bool hold_;
  const std::optional<facts::Snapshot>& captured_;
  probe::MachineReader reader_;
  placement::Visibility visibility_;
  probe::ReadRequest read_;
  std::optional<lease::Ticket> ticket_;
  Acquired result_;
};

}  // namespace

Result<Acquired> acquire(const Context& context, const Machine& machine, const Selection& selection,
                         const lease::LeaseStore* store, bool hold) {
  const Interruptible signals;
  Acquisition acquisition(context, machine, selection, store, hold);
  const auto start = system_clock().now();
  std::uint32_t round = 0;
  for (;;) {
    GPUWARDEN_TRY(const bool done, acquisition.attempt());
    if (done) return acquisition.take();
    if (!selection.wait && !hold) return acquisition.take();
    if (!selection.wait) {
      if (acquisition.decision().satisfied) continue;  // taken between choosing and locking, from outside the gate
      return std::unexpected(acquisition.unsatisfied());
    }
    if (!acquisition.decision().may_come_true && !acquisition.decision().satisfied)
      return std::unexpected(acquisition.unsatisfied());
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(system_clock().now() - start);
    if (waited >= *selection.wait) {
      Error error = acquisition.unsatisfied();
      error.message = fmt::format("waited {} in vain: {}", format_duration(waited), error.message);
      error.hint.clear();
      return std::unexpected(std::move(error));
    }
    GPUWARDEN_CHECK(acquisition.get_in_line());
    // Unequal steps, so that many waiters do not move together.
    const auto step = std::chrono::milliseconds(60 + (++round * 37) % 60);
    if (signals.sleep(std::min(step, *selection.wait - waited)))
      return fail(ErrorCode::interrupted, "interrupted while waiting for GPUs");
  }
}

std::string explain(const Decision& decision) {
  std::string text;
  for (const auto& verdict : decision.verdicts) {
    const std::string mig = verdict.device.mig ? fmt::format(" MIG {}", *verdict.device.mig) : "";
    text += fmt::format("GPU {}{} {}: {}{}\n", verdict.device.index.value, mig, verdict.device.name,
                        verdict.chosen ? "chosen" : "no: ",
                        verdict.chosen           ? ""
                        : verdict.reason.empty() ? "would do, but the rest is missing"
                                                 : verdict.reason);
  }
  return text;
}

void show_model_fit(const Decision& decision) {
  if (decision.satisfied && decision.model) fmt::print(stderr, "gpuwarden: {}\n", decision.model->reason);
}

void show_warnings(const Decision& decision) {
  for (const std::string& warning : decision.warnings) warn(warning);
}

}  // namespace gpuwarden::cli
