// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "hosts/crowd.hpp"
#include "hosts/decide.hpp"
#include "hosts/gather.hpp"
#include "hosts/protocol.hpp"

namespace gpuwarden::hosts {
namespace {

/// For what a host does at once but for its load: connecting comes on top.
constexpr std::chrono::seconds kAnswerTime(60);
constexpr std::chrono::seconds kOutputPatience(5);

std::vector<Host> names_of(const JobOnHosts& job) {
  std::vector<Host> hosts;
  for (const HostOrder& one : job.hosts) hosts.push_back(one.host);
  return hosts;
}

class Conductor {
 public:
  Conductor(const JobOnHosts& job, Links& links, const HostsHooks& hooks, Clock& clock)
      : job_(job),
        hooks_(hooks),
        clock_(clock),
        gather_({job.log_directory, job.redirects, job.tee}),
        crowd_(names_of(job),
               {.version = job.version,
                .ssh = job.ssh,
                .ears = {.output = [this](const Session& from, std::optional<std::uint32_t> rank, bool error,
                                          std::string_view text) { hear(from, rank, error, text); },
                         .said =
                             [this](const Session& from, const std::string& text) {
                               warn(fmt::format("{}: {}", from.host.name, printable(text)));
                             }},
                .slow = [this] { return gather_.waiting(); },
                .moved = [this](bool quiet) { move_output(quiet); }},
               links, clock) {}

  Result<HostsReport> to_its_end() {
    auto ready = prepare();
    if (!ready) {
      crowd_.leave();
      gather_.finish(clock_, kOutputPatience);
      return std::unexpected(std::move(ready).error());
    }
    for (std::uint32_t number = 0;; ++number) {
      report_.last = one_try(number);
      if (!goes_on()) break;
    }
    crowd_.leave();
    gather_.finish(clock_, kOutputPatience);
    note_losses();
    gather_.finish(clock_, kOutputPatience);
    return std::move(report_);
  }

 private:
  using Sessions = std::vector<Session>;

  void warn(const std::string& text) {
    if (hooks_.warning) hooks_.warning(text);
    pass_on();
  }

  /// What the hooks have to say.
  void pass_on() {
    if (hooks_.to_tell) gather_.say(hooks_.to_tell());
  }

  void note_losses() {
    for (const std::string& loss : gather_.take_losses()) {
      report_.lost_output = true;
      warn(loss);
    }
  }

  void hear(const Session& from, std::optional<std::uint32_t> rank, bool error, std::string_view text) {
    const std::uint32_t first = starts_.empty() ? 0 : starts_[from.link].first_rank;
    const std::uint32_t ranks = from.held ? from.held->ranks : 0;
    const bool own = rank && *rank >= first && *rank - first < ranks;
    gather_.add(from.host.name, own ? rank : std::nullopt, own ? *rank - first : 0, error, text);
  }

  void move_output(bool quiet) {
    gather_.pump(quiet);
    note_losses();
    // As with `yes | head`: nobody wants to see the rest, unless it is kept.
    if (gather_.reader_gone() && !job_.log_directory && !std::exchange(told_reader_, true)) stop_all(SIGPIPE);
  }

  /// Waits for an answer of every host; fails where one has a problem, is silent, or a signal came.
  template <class Answered>
  Result<void> ask(const Answered& answered, std::optional<milliseconds> time, std::string_view for_what) {
    crowd_.until(
        [&] {
          return std::ranges::all_of(crowd_.sessions, [&](const Session& one) { return one.problem || answered(one); });
        },
        time);
    if (crowd_.signal) return fail(ErrorCode::interrupted, "interrupted: nothing was started");
    for (Session& session : crowd_.sessions) {
      if (session.problem || answered(session)) continue;
      crowd_.cut_off(session, {ErrorCode::timed_out, fmt::format("{} {}", session.host.name, for_what),
                               "is it reached through a slow network, or overloaded?"});
    }
    if (auto error = problems_of(crowd_.sessions)) return std::unexpected(std::move(*error));
    return {};
  }

  Result<void> prepare() {
    GPUWARDEN_CHECK(ask([](const Session& one) { return one.greeted; }, job_.ssh.connect_timeout + kAnswerTime,
                        "did not answer in time"));
    GPUWARDEN_CHECK(hold());
    return meet();
  }

  /// Every host holds its GPUs.
  Result<void> hold() {
    std::vector<std::size_t> order(crowd_.sessions.size());
    std::iota(order.begin(), order.end(), 0U);
    if (job_.one_by_one) {
      std::ranges::stable_sort(order, {}, [&](std::size_t i) { return crowd_.sessions[i].machine; });
    }
    for (const std::size_t i : order) {
      crowd_.send(crowd_.sessions[i], kOrder, to_json(job_.hosts[i].order));
      if (!job_.one_by_one) continue;
      // They may wait for their GPUs as long as the order says; silence is noticed all the same.
      GPUWARDEN_CHECK(ask([&](const Session& one) { return one.held.has_value() || one.link != i; }, std::nullopt, ""));
    }
    return ask([](const Session& one) { return one.held.has_value(); }, std::nullopt, "");
  }

  /// The first host's port, and an address at which all others reach it.
  Result<void> meet() {
    Sessions& all = crowd_.sessions;
    crowd_.send(all[0], kMeet, {{"port", job_.master_port.value_or(0)}});
    GPUWARDEN_CHECK(
        ask([&](const Session& one) { return one.link != 0 || one.meeting; }, kAnswerTime, "holds no port in time"));
    const Meeting meeting = *all[0].meeting;
    port_ = meeting.port;
    address_ = job_.master_address.value_or("127.0.0.1");
    if (job_.master_address || all.size() == 1) return {};
    for (std::size_t i = 1; i < all.size(); ++i) crowd_.send(all[i], kTry, {{"meeting", to_json(meeting)}});
    GPUWARDEN_CHECK(ask([&](const Session& one) { return one.link == 0 || one.reached; }, kAnswerTime,
                        "did not try the first host in time"));
    std::vector<NamedReach> tries;
    for (std::size_t i = 1; i < all.size(); ++i) tries.push_back({all[i].host.name, *all[i].reached});
    GPUWARDEN_TRY(address_, choose_address(all[0].host.name, meeting, tries));
    return {};
  }

  HostsTry one_try(std::uint32_t number) {
    HostsTry one;
    one.number = number;
    stopping_since_.reset();
    const auto begun = clock_.now();
    start(number);
    if (number == 0 && hooks_.starting) {
      HostsTry told;
      fill(told);
      hooks_.starting(told.hosts, starts_[0]);
      pass_on();
    }
    watch();
    one.wall_time = std::chrono::duration_cast<milliseconds>(clock_.now() - begun);
    fill(one);
    judge(one);
    return one;
  }

  void start(std::uint32_t number) {
    if (number > 0 && job_.log_directory) {
      const auto folder = *job_.log_directory / fmt::format("restart-{}", number);
      std::vector<std::string> names;
      for (const Session& session : crowd_.sessions) names.push_back(session.host.name);
      if (const auto made = make_log_folders(folder, names); !made) warn(made.error().message);
      gather_.begin(folder);
    }
    std::vector<std::uint32_t> ranks;
    for (const Session& session : crowd_.sessions) ranks.push_back(session.held ? session.held->ranks : 0);
    Start common;
    common.address = address_;
    common.port = port_;
    common.job = job_.run_id;
    common.restart_count = number;
    common.max_restarts = job_.restarts.max_restarts;
    common.changes = changes_;
    if (number == 0 && job_.time_limit) limit_ = job_.time_limit();
    if (limit_.end) {
      common.time_left = std::max(std::chrono::floor<milliseconds>(*limit_.end - clock_.now()), milliseconds(0));
      common.time_ends_job = limit_.ends_job;
      common.time_signal = limit_.signal;
      common.time_signal_before = limit_.before;
    }
    if (number > 0) common.arguments = job_.restarts.restart_arguments;
    starts_ = places(common, ranks);
    for (Session& session : crowd_.sessions) crowd_.send(session, kStart, to_json(starts_[session.link]));
  }

  /// Until every host has told how its ranks ended, or is lost; the first failure ends all.
  void watch() {
    crowd_.on_signal = [this](int signal) { take_signal(signal); };
    if (crowd_.signal) take_signal(*crowd_.signal);
    const auto over = [&] {
      bool failed = false;
      bool all = true;
      for (const Session& session : crowd_.sessions) {
        failed = failed || session.failure || session.problem;
        all = all && (session.done || session.problem);
      }
      if (failed) stop_all(SIGTERM);
      return all || is_tired();
    };
    crowd_.until(over, std::nullopt, false);
    crowd_.on_signal = nullptr;
    for (Session& session : crowd_.sessions) {
      if (!session.done && !session.problem)
        crowd_.cut_off(session, {ErrorCode::timed_out,
                                 fmt::format("lost {}: its ranks did not end in time", session.host.name), ""});
    }
  }

  /// Told to end, and not at its end long after the grace.
  bool is_tired() const {
    constexpr std::chrono::seconds kOnTop(30);
    return stopping_since_ && clock_.now() - *stopping_since_ > job_.grace + kOnTop;
  }

  void stop_all(int signal) {
    if (starts_.empty() || std::exchange(stopping_since_, stopping_since_.value_or(clock_.now()))) return;
    for (Session& session : crowd_.sessions) {
      // A host whose own rank has failed ends the others of its ranks itself.
      if (!session.done && !session.failure)
        crowd_.send(session, kSignal, {{"signal", signal == SIGPIPE ? SIGTERM : signal}});
    }
  }

  void take_signal(int signal) {
    if (signal == SIGTSTP)
      return warn("Ctrl-Z does nothing here: the hosts would take a stopped launcher for a dead one");
    if (signal == SIGCONT) return;
    crowd_.send_all(kSignal, {{"signal", signal}});
    if (signal == SIGUSR1 || signal == SIGUSR2) return;
    interrupted_ = interrupted_.value_or(signal);
    if (!stopping_since_) stopping_since_ = clock_.now();
  }

  void fill(HostsTry& one) const {
    for (const Session& session : crowd_.sessions) {
      HostEnd end{session.host, session.held.value_or(Held{}), session.done, {}};
      if (!session.done && session.problem) end.lost = session.problem->message;
      one.hosts.push_back(std::move(end));
    }
  }

  void judge(HostsTry& one) const {
    one.interrupted_by = interrupted_;
    std::vector<HostFailure> failures;
    for (const Session& session : crowd_.sessions) {
      if (session.failure)
        failures.push_back({session.link, session.failure->rank, session.failure->exit_code, session.failure->when});
      else if (!session.done)
        failures.push_back({session.link, std::nullopt, kHostLost, session.heard});
    }
    const auto first = first_of(failures);
    if (interrupted_ && (!first || first->exit_code == kHostLost)) {
      one.exit_code = 128 + *interrupted_;
      // Ranks that ended by themselves after the signal have the last word, as with `run`.
      const bool by_themselves =
          std::ranges::all_of(crowd_.sessions, [](const Session& s) { return s.done && s.done->exit_code < 128; });
      if (by_themselves) one.exit_code = worst_code(one);
      return;
    }
    if (first) {
      one.exit_code = first->exit_code;
      one.failed_host = first->host;
      one.failed_rank = first->rank;
    } else {
      one.exit_code = told_reader_ ? 128 + SIGPIPE : worst_code(one);
    }
  }

  static int worst_code(const HostsTry& one) {
    for (const HostEnd& host : one.hosts) {
      if (host.done && host.done->exit_code != 0) return host.done->exit_code;
    }
    return 0;
  }

  /// Whether another try follows; waits for it.
  bool goes_on() {
    HostsTry& last = report_.last;
    if (last.exit_code == 0 || last.interrupted_by || told_reader_) return false;
    const launch::Failure failure = failure_of(last);
    const auto decision =
        restarts_.decide(failure, limit_, clock_.now(), std::uniform_real_distribution<>(0, 1)(random_));
    last.restarts = decision.restarts;
    last.decision = decision.text;
    last.pause = decision.pause;
    if (decision.remedied) last.changes = failure.remedy;
    report_.failed.push_back(last);
    if (hooks_.failed) hooks_.failed(last);
    pass_on();
    if (!last.restarts) return false;
    changes_.insert(last.changes.begin(), last.changes.end());
    crowd_.until([] { return false; }, last.pause);
    if (crowd_.signal) {
      last.interrupted_by = crowd_.signal;
      last.exit_code = 128 + *crowd_.signal;
      return false;
    }
    return replace_gpus();
  }

  /// Hosts whose GPUs were at fault take others.
  bool replace_gpus() {
    HostsTry& last = report_.last;
    const auto dones = [&] {
      std::vector<Done> all;
      for (const Session& session : crowd_.sessions) all.push_back(session.done.value_or(Done{}));
      return all;
    }();
    for (Session& session : crowd_.sessions) session.begin_try();
    for (Session& session : crowd_.sessions) {
      const std::vector<Uuid>& at_fault = dones[session.link].gpus_at_fault;
      if (at_fault.empty()) continue;
      Order order = job_.hosts[session.link].order;
      auto& without = without_[session.link];
      without.insert(without.end(), at_fault.begin(), at_fault.end());
      order.without = without;
      session.held.reset();
      crowd_.send(session, kOrder, to_json(order));
    }
    auto held = ask([](const Session& one) { return one.held.has_value(); }, std::nullopt, "");
    if (held) held = meet();
    if (held) return true;
    report_.failed.back().restarts = last.restarts = false;
    last.decision = report_.failed.back().decision = "it could not be started again: " + held.error().message;
    warn(last.decision);
    return false;
  }

  const JobOnHosts& job_;
  const HostsHooks& hooks_;
  Clock& clock_;
  Gather gather_;
  Crowd crowd_;
  HostsReport report_;
  std::string address_;
  std::uint16_t port_ = 0;
  std::vector<Start> starts_;  ///< of the last try, by link
  Environment changes_;
  std::map<std::size_t, std::vector<Uuid>> without_;
  launch::TimeLimit limit_;
  launch::Restarts restarts_{job_.restarts};
  std::mt19937 random_{std::random_device{}()};
  std::optional<int> interrupted_;
  std::optional<Clock::SteadyTime> stopping_since_;
  bool told_reader_ = false;
};

}  // namespace

Result<HostsReport> run_on_hosts(const JobOnHosts& job, Links& links, const HostsHooks& hooks, Clock& clock) {
  if (job.hosts.empty()) return fail(ErrorCode::invalid_argument, "no host is given");
  if (job.log_directory) {
    std::vector<std::string> names;
    for (const HostOrder& one : job.hosts) names.push_back(one.host.name);
    GPUWARDEN_CHECK(make_log_folders(*job.log_directory, names));
  }
  return Conductor(job, links, hooks, clock).to_its_end();
}

}  // namespace gpuwarden::hosts
