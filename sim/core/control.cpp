// SPDX-License-Identifier: Apache-2.0
#include "sim/core/control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "sim/core/settings.hpp"

namespace gpuwarden::sim {
namespace {

using Json = nlohmann::json;
using FleetPtr = std::shared_ptr<Fleet>;

Result<std::string> text_of(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_string()) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is missing", key));
  }
  return found->get<std::string>();
}

Result<std::int64_t> integer_of(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_number_integer()) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' should be a whole number", key));
  }
  return found->get<std::int64_t>();
}

Json introduce(const Fleet& fleet) {
  const FleetSpec& spec = fleet.spec();
  return {{"folder", fleet.folder().string()},
          {"id", fleet.id()},
          {"name", spec.name},
          {"driver", spec.driver},
          {"library_profile", library_profile(spec.driver)},
          {"sys_root", (fleet.folder() / "sys").string()},
          {"proc_root", (fleet.folder() / "proc").string()},
          {"gpus", spec.gpus.size()}};
}

Result<Json> attach(const Json& request, FleetPtr& fleet) {
  GPUWARDEN_TRY(const std::string spec, text_of(request, "spec"));
  GPUWARDEN_TRY(fleet, Fleet::attach(spec));
  return introduce(*fleet);
}

Result<Json> start(const Json& request, FleetPtr& fleet) {
  GPUWARDEN_TRY(const std::string name, text_of(request, "name"));
  GPUWARDEN_TRY(const std::string spec, text_of(request, "spec"));
  GPUWARDEN_TRY(fleet, Fleet::start(name, spec));
  return introduce(*fleet);
}

Result<Json> detach(const Json&, FleetPtr& fleet) {
  fleet.reset();
  return Json::object();
}

Result<Json> list(const Json&, FleetPtr&) {
  return Json{{"fleets", live_fleets(default_root())}, {"root", default_root().string()}};
}

Result<Json> presets(const Json&, FleetPtr&) {
  Json result = Json::array();
  for (const std::string& name : preset_names()) {
    const auto spec = parse_fleet(*preset(name), name, name);
    if (!spec) return std::unexpected(spec.error());
    Json models = Json::array();
    for (const GpuSpec& gpu : spec->gpus) models.push_back(gpu.name);
    result.push_back({{"name", name}, {"driver", spec->driver}, {"cuda", spec->cuda}, {"gpus", models}});
  }
  return Json{{"presets", result}};
}

Result<Json> parse(const Json& request, FleetPtr&) {
  GPUWARDEN_TRY(const std::string yaml, text_of(request, "yaml"));
  GPUWARDEN_TRY(const std::string name, text_of(request, "name"));
  GPUWARDEN_TRY(const FleetSpec spec, parse_fleet(yaml, name, name));
  return Json{{"gpus", spec.gpus.size()}};
}

Json show_gpu(const GpuView& gpu, std::size_t index) {
  Json readings = Json::object();
  for (std::size_t i = 0; i < kFieldCount; ++i) {
    if (gpu.readings[i]) readings[std::string(to_string(static_cast<Field>(i)))] = *gpu.readings[i];
  }
  Json processes = Json::array();
  for (const ProcessView& process : gpu.processes) {
    processes.push_back({{"pid", process.pid},
                         {"memory_bytes", process.memory_bytes ? Json(*process.memory_bytes) : Json()},
                         {"utilization_percent", process.utilization}});
  }
  Json instances = Json::array();
  for (const MigInstance& instance : gpu.instances) {
    instances.push_back({{"uuid", instance.uuid}, {"profile", instance.profile}});
  }
  return {{"index", index},
          {"uuid", gpu.spec->uuid},
          {"name", gpu.spec->name},
          {"bus_id", gpu.spec->bus_id},
          {"readings", readings},
          {"processes", processes},
          {"mig", instances},
          {"lost", gpu.lost},
          {"reset_required", gpu.reset_required}};
}

Result<Json> show(const Json&, FleetPtr& fleet) {
  GPUWARDEN_TRY(const auto seen, fleet->view());
  const FleetView& view = *seen;
  Json result = introduce(*fleet);
  result["simulated"] = true;
  result["time_ms"] = view.time.count();
  result["devices"] = Json::array();
  for (std::size_t i = 0; i < view.gpus.size(); ++i) result["devices"].push_back(show_gpu(view.gpus[i], i));
  return result;
}

/// The GPUs and MIG instances behind UUIDs.
Result<std::vector<Fleet::Place>> places_of(const Json& request, Fleet& fleet) {
  std::vector<Fleet::Place> result;
  GPUWARDEN_TRY(const auto view, fleet.view());
  const auto& gpus = view->gpus;
  for (const Json& entry : request.value("gpus", Json::array())) {
    const std::string uuid = entry.is_string() ? entry.get<std::string>() : "";
    std::optional<Fleet::Place> place;
    for (std::uint32_t i = 0; i < gpus.size(); ++i) {
      if (gpus[i].spec->uuid == uuid) place = {i, kNoInstance};
      const auto mig = std::ranges::find(gpus[i].instances, uuid, &MigInstance::uuid);
      if (mig != gpus[i].instances.end()) place = {i, mig->gpu_instance};
    }
    if (!place) return fail(ErrorCode::not_found, fmt::format("the fleet has no GPU '{}'", printable(uuid)));
    result.push_back(*place);
  }
  return result;
}

Result<Json> declare(const Json& request, FleetPtr& fleet) {
  GPUWARDEN_TRY(const std::int64_t pid, integer_of(request, "pid"));
  GPUWARDEN_TRY(const auto places, places_of(request, *fleet));
  const auto memory = request.value("memory_bytes", std::uint64_t{0});
  const auto utilization = request.value("utilization_percent", std::uint32_t{0});
  const bool graphics = request.value("type", std::string("C")) == "G";
  GPUWARDEN_CHECK(fleet->declare(static_cast<std::int32_t>(pid), places, memory, utilization, graphics));
  return Json::object();
}

Result<Json> undeclare(const Json& request, FleetPtr& fleet) {
  GPUWARDEN_TRY(const std::int64_t pid, integer_of(request, "pid"));
  GPUWARDEN_CHECK(fleet->undeclare(static_cast<std::int32_t>(pid)));
  return Json::object();
}

std::uint32_t gpu_of(const Json& request) {
  return request.value("gpu", Json()).is_number() ? request["gpu"].get<std::uint32_t>() : kWholeFleet;
}

Result<Json> inject(const Json& request, FleetPtr& fleet) {
  GPUWARDEN_TRY(const std::string text, text_of(request, "fault"));
  GPUWARDEN_TRY(const Fault fault, parse_fault(text));
  GPUWARDEN_CHECK(fleet->inject(gpu_of(request), fault));
  return Json::object();
}

Result<Json> clear(const Json& request, FleetPtr& fleet) {
  GPUWARDEN_CHECK(fleet->clear_faults(gpu_of(request)));
  return Json::object();
}

/// As `nvidia-smi --gpu-reset`: nobody may be using the GPU, and it must be on the bus.
Result<Json> reset_gpu(const Json& request, FleetPtr& fleet) {
  const std::uint32_t gpu = gpu_of(request);
  if (gpu >= fleet->spec().gpus.size()) return fail(ErrorCode::invalid_argument, "there is no such GPU");
  GPUWARDEN_TRY(const auto view, fleet->view());
  if (view->gpus[gpu].lost)
    return fail(ErrorCode::failed, fmt::format("GPU {} is lost: a GPU that fell off the bus cannot be reset", gpu),
                fmt::format("the machine must be rebooted; here: gpuwarden sim clear NAME --gpu {}", gpu));
  if (!view->gpus[gpu].processes.empty())
    return fail(ErrorCode::failed, fmt::format("GPU {} is in use by another client", gpu), "end its processes first");
  GPUWARDEN_CHECK(fleet->update([&](Body& body, const FleetSpec& spec) {
    reset(body, spec, gpu);
    return true;
  }));
  return Json::object();
}

Result<Json> set(const Json& request, FleetPtr& fleet) {
  GPUWARDEN_TRY(const std::string name, text_of(request, "field"));
  const auto field = field_from(name);
  if (!field) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kFieldCount; ++i) names.emplace_back(to_string(static_cast<Field>(i)));
    const std::string close = closest_match(name, names);
    return fail(ErrorCode::invalid_argument, fmt::format("there is no reading '{}'", printable(name)),
                close.empty() ? "known: " + join(names, ", ") : fmt::format("did you mean '{}'?", close));
  }
  const Json value = request.value("value", Json());
  if (!value.is_number() && !value.is_null())
    return fail(ErrorCode::invalid_argument, "'value' should be a number or null");
  GPUWARDEN_CHECK(
      fleet->set(gpu_of(request), *field, value.is_null() ? std::nullopt : std::optional(value.get<double>())));
  return Json::object();
}

Result<Json> clock(const Json& request, FleetPtr& fleet) {
  Fleet::ClockChange change;
  if (request.contains("frozen")) change.frozen = request.value("frozen", false);
  if (request.contains("speed")) change.speed = request.value("speed", 1.0);
  if (request.contains("advance_seconds")) change.advance_seconds = request.value("advance_seconds", 0.0);
  GPUWARDEN_CHECK(fleet->change_clock(change));
  return Json::object();
}

Result<Json> bequeath(const Json& /*request*/, FleetPtr& fleet) {
  GPUWARDEN_CHECK(fleet->bequeath());
  return Json::object();
}

struct Operation {
  std::string_view name;
  bool needs_fleet;
  Result<Json> (*run)(const Json&, FleetPtr&);
};

constexpr std::array<Operation, 15> kOperations{{{"attach", false, attach},
                                                 {"start", false, start},
                                                 {"detach", false, detach},
                                                 {"bequeath", true, bequeath},
                                                 {"list", false, list},
                                                 {"presets", false, presets},
                                                 {"parse", false, parse},
                                                 {"show", true, show},
                                                 {"declare", true, declare},
                                                 {"undeclare", true, undeclare},
                                                 {"fault", true, inject},
                                                 {"clear_faults", true, clear},
                                                 {"reset", true, reset_gpu},
                                                 {"set", true, set},
                                                 {"clock", true, clock}}};

Result<Json> dispatch(std::string_view text, FleetPtr& fleet) try {
  const Json request = Json::parse(text, nullptr, false);
  if (!request.is_object()) return fail(ErrorCode::invalid_argument, "the request is no JSON object");
  GPUWARDEN_TRY(const std::string name, text_of(request, "op"));
  const auto* const found = std::ranges::find(kOperations, name, &Operation::name);
  if (found == kOperations.end())
    return fail(ErrorCode::invalid_argument, fmt::format("there is no operation '{}'", printable(name)));
  if (found->needs_fleet && !fleet) return fail(ErrorCode::invalid_argument, "attach to a fleet first");
  return found->run(request, fleet);
} catch (const Json::exception& exception) {
  return fail(ErrorCode::invalid_argument, fmt::format("a value has the wrong type: {}", exception.what()));
}

}  // namespace

std::string control(std::string_view request, FleetPtr& fleet) {
  const auto answer = dispatch(request, fleet);
  if (answer) return answer->dump();
  const Error& error = answer.error();
  return Json{{"error", error.message}, {"hint", error.hint}, {"code", to_string(error.code)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpuwarden::sim
