// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/fleets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::machine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What the process that keeps a fleet says when it does, before its pid.
constexpr std::string_view kStarted = "started ";

/// For the end of a keeper that was told to end.
constexpr std::chrono::seconds kPatience(5);

/// In the fleet's folder: the pid of the process that keeps the fleet alive, which holds a lock on the file as long as
/// it lives.
fs::path keeper_file(const fs::path& fleet) { return fleet / "keeper"; }

Result<UniqueFd> note_keeper(const fs::path& file) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || ::ftruncate(fd.get(), 0) != 0)
    return std::unexpected(error_from_errno(errno, "cannot write " + file.string()));
  GPUWARDEN_CHECK(write_descriptor(fd.get(), std::to_string(::getpid()) + "\n", file.string()));
  return fd;
}

bool is_kept(const UniqueFd& file) {
  const bool taken = ::flock(file.get(), LOCK_SH | LOCK_NB) != 0;
  if (!taken) ::flock(file.get(), LOCK_UN);
  return taken;
}

void tell(const UniqueFd& report, std::string_view text) {
  [[maybe_unused]] const ssize_t told = ::write(report.get(), text.data(), text.size());
}

sigset_t block_ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

void wait_for_the_end(const sigset_t& set) {
  int signal = 0;
  do {
    ::sigwait(&set, &signal);
  } while (signal == SIGHUP);
}

/// The fleet's keeper: tells that it has started, or why not, and stays attached until it is told to end.
void start_and_keep(const Json& request, const SimulatorPlaces& places, UniqueFd report) {
  ::setsid();
  // A program without standard streams has the pipe where they would be.
  if (report.get() < 3) report.reset(::fcntl(report.get(), F_DUPFD, 3));
  keep_descriptors({report.get()});
  const sigset_t ending = block_ending_signals();
  auto simulator = Simulator::open(places);
  const auto fleet = simulator ? (*simulator)->call(request) : std::unexpected(simulator.error());
  auto lock = fleet ? note_keeper(keeper_file((*fleet)["folder"].get<std::string>())) : std::unexpected(fleet.error());
  if (!lock) {
    tell(report, facts::to_json(lock.error()).dump());
    return;
  }
  tell(report, fmt::format("{}{}", kStarted, ::getpid()));
  report.reset();
  wait_for_the_end(ending);
  // The lock goes last: who sees it free finds the fleet left.
  simulator->reset();
}

/// Is nobody's child by the time it stays: no caller has to wait for it.
[[noreturn]] void start_keeper(const Json& request, const SimulatorPlaces& places, UniqueFd report) {
  const pid_t pid = ::fork();
  if (pid < 0) tell(report, facts::to_json(error_from_errno(errno, "cannot start a process")).dump());
  if (pid == 0) start_and_keep(request, places, std::move(report));
  // Not the caller's: what it does at exit is no matter of a child.
  ::_exit(0);
}

Error error_of(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return {ErrorCode::failed, "the fleet's process ended before it had started", ""};
  Error error{ErrorCode::failed, json.value("message", ""), json.value("hint", "")};
  for (const ErrorCode code : {ErrorCode::invalid_argument, ErrorCode::unavailable}) {
    if (json.value("code", "") == to_string(code)) error.code = code;
  }
  return error;
}

}  // namespace

Result<SimulatedLoad> parse_load(std::string_view text) {
  SimulatedLoad load;
  for (const auto part : split(text, ',')) {
    const auto sides = split(part, '=');
    const auto size =
        sides.size() == 2 && sides[0] == "memory" ? parse_size(sides[1]) : fail(ErrorCode::invalid_argument, "");
    const auto share = sides.size() == 2 && sides[0] == "util" ? parse_integer(sides[1]) : std::nullopt;
    if (size)
      load.memory = *size;
    else if (share && *share >= 0 && *share <= 100)
      load.utilization = Percent(*share);
    else
      return fail(ErrorCode::invalid_argument, fmt::format("invalid value '{}'", printable(part)),
                  "for example memory=20GiB,util=80");
  }
  return load;
}

Result<FleetList> list_fleets(const SimulatorPlaces& places) {
  GPUWARDEN_TRY(const auto simulator, Simulator::open(places));
  GPUWARDEN_TRY(const Json presets, simulator->call({{"op", "presets"}}));
  GPUWARDEN_TRY(const Json live, simulator->call({{"op", "list"}}));
  FleetList list;
  for (const Json& one : presets["presets"]) {
    list.presets.push_back({one["name"].get<std::string>(), one["driver"].get<std::string>(),
                            one["cuda"].get<std::string>(), one["gpus"].get<std::vector<std::string>>()});
  }
  list.running = live["fleets"].get<std::vector<std::string>>();
  return list;
}

Json to_json(const FleetList& list) {
  Json presets = Json::array();
  for (const FleetPreset& one : list.presets)
    presets.push_back({{"name", one.name}, {"driver", one.driver}, {"cuda", one.cuda}, {"gpus", one.gpus}});
  return facts::answer({{"presets", presets}, {"running", list.running}}, true);
}

nlohmann::json started_to_json(const std::string& name, Pid keeper) {
  return facts::answer({{"name", name}, {"pid", keeper.value}}, true);
}

Result<nlohmann::json> shown_to_json(const Machine& fleet) {
  GPUWARDEN_TRY(auto shown, fleet.simulator()->call({{"op", "show"}}));
  return facts::answer(std::move(shown), true);
}

Result<Pid> start_fleet(const std::string& name, const std::string& spec, const SimulatorPlaces& places) {
  GPUWARDEN_TRY(Pipe report, make_pipe());
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(error_from_errno(errno, "cannot start a process"));
  if (pid == 0) {
    report.read_end.reset();
    start_keeper({{"op", "start"}, {"name", name}, {"spec", spec}}, places, std::move(report.write_end));
  }
  report.write_end.reset();
  ::waitpid(pid, nullptr, 0);
  constexpr std::size_t kLongestError = std::size_t{1} << 20U;
  const std::string told =
      read_descriptor(report.read_end.get(), "the fleet's process", kLongestError).value_or(std::string());
  const auto keeper = told.starts_with(kStarted) ? parse_integer(told.substr(kStarted.size())) : std::nullopt;
  if (!keeper) return std::unexpected(error_of(told));
  return Pid(static_cast<std::int32_t>(*keeper));
}

Result<Machine> open_running_fleet(const std::string& name, Options options) {
  std::string folder;
  {
    GPUWARDEN_TRY(const auto simulator, Simulator::open(options.simulator));
    GPUWARDEN_TRY(const Json live, simulator->call({{"op", "list"}}));
    const Json& fleets = live["fleets"];
    if (std::none_of(fleets.begin(), fleets.end(), [&](const Json& one) { return one == name; }))
      return fail(ErrorCode::invalid_argument, fmt::format("no simulated fleet '{}' is running", printable(name)),
                  "see gpuwarden sim list");
    folder = live["root"].get<std::string>() + "/" + name;
  }  // closed before the next is opened: the library has one fleet at a time
  return Machine::open(Simulated{folder}, std::move(options));
}

Result<void> stop_fleet(const Machine& fleet, Clock& clock) {
  const fs::path name = keeper_file(fleet.fleet_folder());
  const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  const auto pid = parse_integer(read_line(name).value_or(""));
  if (!file || !is_kept(file) || !pid || *pid <= 0)
    return fail(ErrorCode::failed, "the fleet has no keeper that could be stopped: it ends with its last user");
  if (::kill(static_cast<pid_t>(*pid), SIGTERM) != 0)
    return std::unexpected(error_from_errno(errno, fmt::format("the fleet's keeper (pid {}) cannot be ended", *pid)));
  constexpr std::chrono::milliseconds kBetweenLooks(10);
  const auto deadline = clock.now() + kPatience;
  while (is_kept(file)) {
    if (clock.now() >= deadline)
      return fail(ErrorCode::timed_out,
                  fmt::format("the fleet's keeper (pid {}) has not ended within {} s", *pid, kPatience.count()),
                  fmt::format("kill -9 {}", *pid));
    clock.sleep_for(kBetweenLooks);
  }
  return {};
}

}  // namespace gpuwarden::machine
