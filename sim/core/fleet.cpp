// SPDX-License-Identifier: Apache-2.0
#include "sim/core/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "sim/core/accounting.hpp"
#include "sim/core/evolve.hpp"
#include "sim/core/identity.hpp"
#include "sim/core/process.hpp"
#include "sim/core/settings.hpp"

namespace gpuwarden::sim {
namespace {

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

bool is_id(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
             std::string_view::npos;
}

Error no_such_fleet(std::string_view spec, const std::filesystem::path& root) {
  std::vector<std::string> names = preset_names();
  for (const std::string& id : live_fleets(root)) names.push_back(id);
  return {ErrorCode::not_found, fmt::format("there is no simulated fleet '{}'", printable(spec)),
          "name a preset, a started fleet of your own (those of other users are theirs) or a YAML file; known: " +
              join(names, ", ")};
}

/// What strikes or changes one GPU has to name one that is there.
Result<void> check_gpu(const FleetSpec& spec, std::uint32_t gpu) {
  if (gpu < spec.gpus.size()) return {};
  if (spec.gpus.empty()) return fail(ErrorCode::invalid_argument, "the fleet has no GPUs");
  const std::string known = fmt::format("GPUs 0 to {}", spec.gpus.size() - 1);
  if (gpu == kWholeFleet)
    return fail(ErrorCode::invalid_argument, "no GPU is named", "--gpu is required: the fleet has " + known);
  return fail(ErrorCode::invalid_argument, fmt::format("the fleet has no GPU {}", gpu), "it has " + known);
}

/// A link that goes down must be one of the GPU's.
Result<void> check_link(const FleetSpec& spec, std::uint32_t gpu, const Fault& fault) {
  const int links = spec.gpus[gpu].model.nvlinks;
  if (fault.kind != FaultKind::nvlink_down || fault.value < links) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("GPU {} has no NVLink {}", gpu, fault.value),
              links == 0 ? "it has none" : fmt::format("it has links 0 to {}", links - 1));
}

}  // namespace

Fleet::Fleet(FleetSpec spec, std::string id, FleetFolder folder)
    : spec_(std::move(spec)), id_(std::move(id)), folder_(std::move(folder)) {}

Result<void> Fleet::open_state() {
  return state_.open(folder(), [&](Body& body) { begin(body, spec_, monotonic_ns()); });
}

Result<std::shared_ptr<Fleet>> Fleet::make(std::string_view id, std::string_view yaml, std::string_view file,
                                           const std::filesystem::path& root) {
  GPUWARDEN_TRY(FleetSpec spec, parse_fleet(yaml, file, id));
  GPUWARDEN_TRY(FleetFolder folder, FleetFolder::join_or_make(root, std::string(id), yaml, spec));
  if (!folder.is_new()) {
    // Somebody may have made a fleet of this name from another file: theirs holds.
    GPUWARDEN_TRY(const std::string theirs, read_file(folder.path() / "fleet.yaml"));
    if (theirs != yaml) {
      GPUWARDEN_TRY(spec, parse_fleet(theirs, file, id));
    }
  }
  if (spec.name.empty()) spec.name = id;
  std::shared_ptr<Fleet> fleet(new Fleet(std::move(spec), std::string(id), std::move(folder)));
  GPUWARDEN_CHECK(fleet->open_state());
  return fleet;
}

Result<std::shared_ptr<Fleet>> Fleet::join(const std::filesystem::path& path) {
  GPUWARDEN_TRY(FleetFolder folder, FleetFolder::join(path));
  const std::string id = path.filename();
  GPUWARDEN_TRY(const std::string yaml, read_file(path / "fleet.yaml"));
  GPUWARDEN_TRY(FleetSpec spec, parse_fleet(yaml, id, id));
  if (spec.name.empty()) spec.name = id;
  std::shared_ptr<Fleet> fleet(new Fleet(std::move(spec), id, std::move(folder)));
  GPUWARDEN_CHECK(fleet->open_state());
  return fleet;
}

std::shared_ptr<Fleet> Fleet::attach_for_library() {
  const char* spec = std::getenv("GPUWARDEN_SIM_FLEET");
  if (spec == nullptr) spec = std::getenv("GPUWARDEN_SIMULATE");
  if (spec == nullptr) spec = "h100x8";
  auto attached = attach(spec);
  if (attached) return *attached;
  // A library has no better place to say why; without this line a stranger would only see "no driver", "no device".
  std::fprintf(stderr, "gpuwarden simulator: %s\n", attached.error().message.c_str());
  return nullptr;
}

Result<std::shared_ptr<Fleet>> Fleet::attach(std::string_view spec, const std::filesystem::path& root) {
  const std::filesystem::path path(spec);
  if (path.is_absolute() && std::filesystem::is_directory(path)) return join(path);
  if (const auto text = preset(spec)) {
    return make(fmt::format("{}-{:08x}", spec, mix(0, *text) & 0xFFFFFFFF), *text, spec, root);
  }
  if (is_id(spec)) {
    if (auto joined = join(root / path); joined || joined.error().code != ErrorCode::not_found) return joined;
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::unexpected(no_such_fleet(spec, root));
  GPUWARDEN_TRY(const std::string text, read_file(path, std::size_t{2} << 20U));
  return make(fmt::format("file-{:016x}", mix(1, text)), text, spec, root);
}

Result<std::shared_ptr<Fleet>> Fleet::start(std::string_view name, std::string_view spec,
                                            const std::filesystem::path& root) {
  if (!is_id(name) || preset(name)) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' cannot be the name of a fleet", printable(name)),
                "use letters, digits, '-', '_', and no preset's name");
  }
  if (std::ranges::count(live_fleets(root), std::string(name)) > 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("a fleet '{}' is running already", name),
                fmt::format("gpuwarden sim stop {}", name));
  }
  if (const auto text = preset(spec)) return make(name, *text, spec, root);
  const auto text = read_file(std::filesystem::path(spec), std::size_t{2} << 20U);
  if (!text) return std::unexpected(no_such_fleet(spec, root));
  return make(name, *text, spec, root);
}

bool Fleet::is_current(const Seen& seen, std::int64_t now_ns) const {
  // Whether a declared process has died shows nowhere but in /proc: look there now and then.
  constexpr std::int64_t kProcessCheckNs = 10'000'000;
  if (!seen.view || seen.generation != state_.generation()) return false;
  if (seen.has_processes && now_ns - seen.at_ns > kProcessCheckNs) return false;
  return tick_at(seen.sim_origin_ns, seen.clock_origin_ns, seen.frozen ? 0 : seen.speed, now_ns) <= seen.tick;
}

Result<std::shared_ptr<const FleetView>> Fleet::view() {
  const std::scoped_lock lock(mutex_);
  const std::int64_t now = monotonic_ns();
  if (is_current(seen_, now)) return seen_.view;
  Seen seen;
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    bool changed = drop_dead(body) | advance(body, spec_, now);
    const auto view = std::make_shared<const FleetView>(look(body, spec_));
    changed |= record_processes(body, *view);
    seen = {view,
            0,
            body.clock_origin_ns,
            body.sim_origin_ns,
            body.speed,
            body.frozen != 0,
            body.tick,
            body.process_count + body.holding_count > 0,
            now};
    // Nobody else changes the state while this runs: the number it will have is known.
    seen.generation = state_.generation() + (changed ? 1 : 0);
    return changed;
  }));
  seen_ = std::move(seen);
  return seen_.view;
}

std::optional<EventView> Fleet::wait_event(std::uint64_t after, std::uint64_t mask, std::uint64_t gpus,
                                           std::chrono::milliseconds timeout) {
  // A driver sleeps until something happens; here the longer nothing does, the more seldom it is looked for.
  using std::chrono::nanoseconds;
  constexpr nanoseconds kShortest = std::chrono::milliseconds(5);
  constexpr nanoseconds kLongest = std::chrono::milliseconds(25);
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + timeout;
  for (;;) {
    if (const auto now = view()) {
      for (const EventView& event : (*now)->events) {
        if (event.number > after && (event.type & mask) != 0 && (gpus >> event.gpu & 1U) != 0) return event;
      }
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return std::nullopt;
    std::this_thread::sleep_for(
        std::min<nanoseconds>(end - now, std::clamp<nanoseconds>((now - begin) / 8, kShortest, kLongest)));
  }
}

Result<void> Fleet::declare(std::int32_t pid, const std::vector<Place>& places, std::uint64_t memory_bytes,
                            std::uint32_t utilization, bool graphics) {
  const std::uint64_t start_time = process_start_time(pid);
  if (start_time == 0) return fail(ErrorCode::not_found, fmt::format("there is no process {}", pid));
  for (const Place& place : places) {
    if (place.gpu >= spec_.gpus.size()) {
      return fail(ErrorCode::invalid_argument, fmt::format("the fleet has no GPU {}", place.gpu));
    }
  }
  bool full = false;
  const std::int64_t now = monotonic_ns();
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    drop_dead(body);
    advance(body, spec_, now);
    full = body.process_count + places.size() > kMaxProcesses;
    for (const Place& place : places) {
      if (full) break;
      body.processes[body.process_count++] = {
          pid, place.gpu, start_time, memory_bytes, std::min(utilization, 100U), graphics ? 1U : 0U, place.gpu_instance,
          0};
    }
    record_processes(body, spec_);
    return true;
  }));
  if (full) return fail(ErrorCode::failed, "the fleet's process table is full");
  return {};
}

Result<void> Fleet::undeclare(std::int32_t pid) {
  return state_.update([&](Body& body) {
    auto* const end = std::remove_if(body.processes, body.processes + body.process_count,
                                     [&](const DeclaredProcess& process) { return process.pid == pid; });
    body.process_count = static_cast<std::uint32_t>(end - body.processes);
    return true;
  });
}

Result<void> Fleet::inject(std::uint32_t gpu, const Fault& fault) {
  const bool fleet_wide = fault.kind == FaultKind::mismatch || fault.kind == FaultKind::driver_not_loaded ||
                          fault.kind == FaultKind::hang_init;
  if (!fleet_wide) {
    GPUWARDEN_CHECK(check_gpu(spec_, gpu));
    GPUWARDEN_CHECK(check_link(spec_, gpu, fault));
  }
  const std::int64_t now = monotonic_ns();
  bool full = false;
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    advance(body, spec_, now);
    full = body.fault_count + 2 > kMaxFaults;
    if (!full) inject_now(body, fault, fleet_wide ? kWholeFleet : gpu);
    return true;
  }));
  if (full) return fail(ErrorCode::failed, "the fleet's fault table is full");
  if (fault.kind == FaultKind::driver_not_loaded) write_driver_version(folder(), spec_.driver, false);
  if (fault.kind == FaultKind::mismatch) write_driver_version(folder(), kernel_module_of(spec_, true), true);
  return {};
}

Result<void> Fleet::clear_faults(std::uint32_t gpu) {
  write_driver_version(folder(), kernel_module_of(spec_, false), true);
  return state_.update([&](Body& body) {
    auto* const end = std::remove_if(body.faults, body.faults + body.fault_count,
                                     [&](const SharedFault& fault) { return gpu == kWholeFleet || fault.gpu == gpu; });
    body.fault_count = static_cast<std::uint32_t>(end - body.faults);
    return true;
  });
}

Result<void> Fleet::set(std::uint32_t gpu, Field field, std::optional<double> value) {
  GPUWARDEN_CHECK(check_gpu(spec_, gpu));
  if (value && !is_possible(field, *value)) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is impossible for {}", *value, to_string(field)));
  }
  bool full = false;
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    full = !pin(body, gpu, field, value);
    return !full;
  }));
  if (full) return fail(ErrorCode::failed, "too many pinned readings");
  return {};
}

Result<void> Fleet::update(const std::function<bool(Body&, const FleetSpec&)>& change) {
  const std::int64_t now = monotonic_ns();
  return state_.update([&](Body& body) {
    drop_dead(body);
    advance(body, spec_, now);
    return change(body, spec_);
  });
}

Result<void> Fleet::change_clock(const ClockChange& change) {
  if (change.speed && !(*change.speed > 0 && *change.speed <= 100000)) {
    return fail(ErrorCode::invalid_argument, "a clock's speed is above 0 and at most 100000");
  }
  const double step = change.advance_seconds.value_or(0);
  if (step < 0 || step > 1e7) return fail(ErrorCode::invalid_argument, "a clock advances by 0 to 10000000 seconds");
  const std::int64_t now = monotonic_ns();
  return state_.update([&](Body& body) {
    body.sim_origin_ns = fleet_time(body, now) + static_cast<std::int64_t>(step * 1e9);
    body.clock_origin_ns = now;
    body.frozen = change.frozen.value_or(body.frozen != 0) ? 1 : 0;
    body.speed = change.speed.value_or(body.speed);
    return true;
  });
}

}  // namespace gpuwarden::sim
