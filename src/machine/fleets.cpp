// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/fleets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::machine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What the process that keeps a fleet says when it does.
constexpr std::string_view kStarted = "started";

/// In the fleet's folder: the pid of the process that keeps it alive.
fs::path keeper_file(const fs::path& fleet) { return fleet / "keeper"; }

/// Stays attached until it is told to end. What it holds goes with the process.
[[noreturn]] void keep(const fs::path& fleet, UniqueFd report) {
  ::setsid();
  [[maybe_unused]] const auto noted = write_file_atomically(keeper_file(fleet), std::to_string(::getpid()) + "\n");
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  [[maybe_unused]] const ssize_t told = ::write(report.get(), kStarted.data(), kStarted.size());
  report.reset();
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  int signal = 0;
  do {
    ::sigwait(&set, &signal);
  } while (signal == SIGHUP);
  ::exit(0);
}

/// In the child: tells that it has started, or why not.
[[noreturn]] void start_and_keep(const Json& request, const SimulatorPlaces& places, UniqueFd report) {
  auto simulator = Simulator::open(places);
  const auto fleet = simulator ? (*simulator)->call(request) : std::unexpected(simulator.error());
  if (!fleet) {
    const std::string text = facts::to_json(fleet.error()).dump();
    [[maybe_unused]] const ssize_t told = ::write(report.get(), text.data(), text.size());
    ::_exit(1);
  }
  keep((*fleet)["folder"].get<std::string>(), std::move(report));
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
  return {{"schema", facts::kJsonSchema}, {"simulated", true}, {"presets", presets}, {"running", list.running}};
}

Result<Pid> start_fleet(const std::string& name, const std::string& spec, const SimulatorPlaces& places) {
  GPUWARDEN_TRY(Pipe report, make_pipe());
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(error_from_errno(errno, "cannot start a process"));
  if (pid == 0) {
    report.read_end.reset();
    start_and_keep({{"op", "start"}, {"name", name}, {"spec", spec}}, places, std::move(report.write_end));
  }
  report.write_end.reset();
  constexpr std::size_t kLongestError = std::size_t{1} << 20U;
  const auto told = read_descriptor(report.read_end.get(), "the fleet's process", kLongestError);
  if (told && *told == kStarted) return Pid(pid);
  ::waitpid(pid, nullptr, 0);
  return std::unexpected(error_of(told.value_or("")));
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
  const auto pid = parse_integer(read_line(keeper_file(fleet.fleet_folder())).value_or(""));
  if (!pid || *pid <= 0 || ::kill(static_cast<pid_t>(*pid), SIGTERM) != 0)
    return fail(ErrorCode::failed, "the fleet has no keeper that could be stopped: it ends with its last user");
  constexpr std::chrono::milliseconds kBetweenLooks(10);
  for (int i = 0; i < 500 && ::kill(static_cast<pid_t>(*pid), 0) == 0; ++i) clock.sleep_for(kBetweenLooks);
  return {};
}

}  // namespace gpuwarden::machine
