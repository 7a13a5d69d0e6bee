// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/compat/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/knowledge/forward_compatibility.hpp"

namespace gpuwarden::compat {
namespace {

using Json = nlohmann::json;
using knowledge::GpuModel;
using knowledge::OpenModule;

Json of(const Version& version) { return version ? Json(to_string(version)) : Json(); }
Json of(const std::optional<Version>& version) { return of(version.value_or(Version{})); }
Json of(std::string_view text) { return text.empty() ? Json() : Json(text); }
Json positive(double value) { return value > 0 ? Json(value) : Json(); }
Json branch(int number) { return number != 0 ? Json(number) : Json(); }

Json of(const std::optional<Forward>& forward) {
  if (!forward) return nullptr;
  return {{"package", knowledge::compat_package(forward->cuda)},
          {"folder", knowledge::compat_folder(forward->cuda)},
          {"certified_servers_only", forward->certified_only}};
}

Json of(const Wheel& wheel) {
  return {{"torch", three_numbers(wheel.build.torch)},
          {"build", wheel.build.build},
          {"default", wheel.build.is_default},
          {"runs", wheel.fit ? Json(knowledge::is_fit(*wheel.fit)) : Json()},
          {"why", wheel.fit ? Json(words_for(*wheel.fit)) : Json()},
          {"cuda_compat", of(wheel.forward)}};
}

Json of(const std::vector<Wheel>& wheels) {
  Json list = Json::array();
  for (const Wheel& wheel : wheels) list.push_back(of(wheel));
  return list;
}

Json of(const Recommendation& recommended) {
  Json json{{"driver", of(recommended.driver)}, {"torch", nullptr},
            {"torch_command", nullptr},         {"vllm", nullptr},
            {"vllm_command", nullptr},          {"other_builds", of(recommended.other_builds)}};
  if (recommended.torch != nullptr) {
    json["torch"] = wheel_name(*recommended.torch);
    json["torch_command"] = knowledge::pip_command(*recommended.torch);
  }
  if (recommended.vllm != nullptr) {
    json["vllm"] = three_numbers(recommended.vllm->first);
    json["vllm_command"] = recommended.vllm_command;
  }
  return json;
}

void add(const Frameworks& found, Json& json) {
  const auto name = [](const auto* build) { return build != nullptr ? Json(wheel_name(*build)) : Json(); };
  json["first_torch"] = name(found.first_torch);
  json["newest_torch"] = name(found.newest_torch);
  json["torch_command"] = found.newest_torch != nullptr ? Json(knowledge::pip_command(*found.newest_torch)) : Json();
  json["machine"] = found.machine;
  json["other_builds"] = of(found.board != nullptr ? found.board->builds : std::string_view());
  json["newest_vllm"] = found.newest_vllm != nullptr ? of(found.newest_vllm->first) : Json();
}

Json of(OpenModule module) {
  switch (module) {
    case OpenModule::required:
      return "required";
    case OpenModule::supported:
      return "supported";
    case OpenModule::unsupported:
      return "unsupported";
    case OpenModule::unknown:
      break;
  }
  return nullptr;
}

Json of(const CudaAnswer::Here& here) {
  const auto builds = here.builds();
  return {{"runs", here.runs ? Json(words_for(*here.runs)) : Json()},
          {"builds_for_gpus", builds ? Json(*builds) : Json()}};
}

Json of(const MatrixRow& row) {
  return {{"gpu", row.model->name},
          {"cuda", of(row.cuda)},
          {"minimum", of(row.needs.minimum)},
          {"required", of(row.needs.required)},
          {"recommended", of(row.needs.recommended)},
          {"optimal", of(row.needs.optimal)},
          {"last_branch", branch(row.needs.last_branch)},
          {"runs", row.dropped ? Json(words_for(knowledge::RunsOn::not_at_all)) : Json()},
          {"standing", row.standing ? Json(to_string(*row.standing)) : Json()}};
}

Json of(const knowledge::PackageNeeds& row, const std::optional<Version>& driver) {
  const auto capability = [](int number) { return number != 0 ? Json(capability_text(number)) : Json(); };
  return {{"first", to_string(row.first)},
          {"last", of(row.last)},
          {"min_compute_capability", capability(row.min_capability)},
          {"max_compute_capability", capability(row.max_capability)},
          {"min_driver", of(driver)},
          {"torch", of(row.torch)},
          {"install", row.install},
          {"note", of(row.note)}};
}

/// A wheel with all that its row says.
Json whole(const Wheel& wheel) {
  Json json = of(wheel);
  json["min_driver"] = of(wheel.build.min_driver);
  json["architectures"] = split(wheel.build.architectures, ';');
  json["python"] = {to_string(wheel.build.python_lowest), to_string(wheel.build.python_highest)};
  json["command"] = knowledge::pip_command(wheel.build);
  return json;
}

}  // namespace

Json to_json(const MachineAnswer& answer) {
  Json json{{"obstacles", Json::array()},
            {"toolkits", Json::array()},
            {"torch", of(answer.torch)},
            {"recommended", answer.recommended ? of(*answer.recommended) : Json()}};
  for (const Obstacle& one : answer.obstacles) json["obstacles"].push_back(one.gpu + ": " + one.why);
  for (const ToolkitRow& row : answer.toolkits)
    json["toolkits"].push_back({{"cuda", to_string(row.cuda)},
                                {"builds_for_gpus", row.builds},
                                {"runs", row.runs ? Json(words_for(*row.runs)) : Json()}});
  return json;
}

Json to_json(const CudaAnswer& answer) {
  const knowledge::CudaToolkit none;
  const knowledge::CudaToolkit& known = answer.toolkit != nullptr ? *answer.toolkit : none;
  Json json{{"cuda", to_string(release_of(answer.cuda))},
            {"toolkit", answer.toolkit != nullptr ? Json(known.name) : Json()},
            {"released", of(known.released)},
            {"newer_than_known", answer.newer_than_known},
            {"min_driver", of(answer.native)},
            {"min_driver_minor_version", of(answer.minor)},
            {"max_gcc", of(known.max_gcc)},
            {"max_clang", of(known.max_clang)},
            {"ptx", of(known.ptx)},
            {"torch", answer.torch},
            {"vllm", answer.vllm},
            {"here", answer.here ? of(*answer.here) : Json()},
            {"architectures", Json::array()}};
  for (const GenerationRow& row : answer.architectures)
    json["architectures"].push_back({{"architecture", row.architecture->number},
                                     {"generation", row.architecture->name},
                                     {"min_driver", of(row.all)},
                                     {"min_driver_minor_version", of(row.least)},
                                     {"last_driver_branch", branch(row.last_branch)}});
  return json;
}

Json to_json(const TorchAnswer& answer) {
  Json json{{"package", "torch"}};
  if (answer.instead) json["recommended"] = of(*answer.instead);
  if (!answer.version) {
    json["torch"] = of(answer.all);
    return json;
  }
  json["version"] = answer.known ? three_numbers(*answer.version) : to_string(*answer.version);
  json["newer_than_known"] = answer.newer_than_known;
  json["uses_gpu"] = answer.uses_gpu;
  json["companions"] = Json::array();
  for (const auto* one : answer.companions)
    json["companions"].push_back({{"package", one->package}, {"version", one->version}});
  if (!answer.uses_gpu) {
    json.update({{"wheels", Json::array()}, {"min_driver", nullptr}, {"command", cpu_command(*answer.version)}});
    return json;
  }
  json["wheels"] = Json::array();
  for (const Wheel& wheel : answer.wheels) json["wheels"].push_back(whole(wheel));
  if (answer.known)
    json["released"] = of(answer.wheels[0].build.released);
  else
    json["min_driver"] = of(answer.min_driver);
  return json;
}

Json to_json(const VllmAnswer& answer) {
  Json json{{"package", "vllm"}, {"version", answer.version ? Json(three_numbers(*answer.version)) : Json()}};
  if (answer.instead) json["recommended"] = of(*answer.instead);
  if (answer.row == nullptr) return json;
  json.update({{"estimated", answer.estimated},
               {"torch", three_numbers(answer.row->torch)},
               {"cuda", to_string(answer.row->cuda)},
               {"min_compute_capability", capability_text(answer.row->min_capability)},
               {"min_driver", of(answer.min_driver)},
               {"command", answer.command},
               {"here", nullptr}});
  if (answer.obstacle) json["here"] = {{"runs", answer.obstacle->empty()}, {"why", *answer.obstacle}};
  json["cuda_compat"] = of(answer.forward);
  return json;
}

Json to_json(const ComponentAnswer& answer) {
  Json json{{"component", answer.name}, {"version", of(answer.version)}, {"releases", Json::array()}};
  for (const auto* row : answer.rows)
    json["releases"].push_back({{"version", row->version},
                                {"needs", row->needs},
                                {"capability", row->capability},
                                {"driver_or_other", row->driver_or_other}});
  json["needs"] = answer.needs != nullptr ? of(*answer.needs, answer.min_driver) : Json();
  json["here"] = nullptr;
  if (answer.obstacle) json["here"] = {{"runs", answer.obstacle->empty()}, {"why", *answer.obstacle}};
  if (!answer.not_judged.empty()) json["here"] = {{"runs", nullptr}, {"why", answer.not_judged}};
  return json;
}

Json to_json(const GpuAnswer& answer) {
  const GpuModel& model = *answer.model;
  Json json{{"name", model.name},
            {"generation", model.architecture},
            {"compute_capability", capability_text(knowledge::architecture_of(model))},
            {"memory_gb", positive(model.memory_gb)},
            {"memory_bandwidth_gb_s", positive(model.memory_bandwidth_gb_s)},
            {"multiprocessors", positive(model.multiprocessors)},
            {"cuda_cores", positive(model.cuda_cores)},
            {"tdp_watts", positive(model.tdp_watts)},
            {"nvlink_gb_s", positive(model.nvlink_gb_s)},
            {"mig_max_instances", model.mig_max_instances},
            {"first_cuda", of(model.first_cuda)},
            {"last_cuda", of(model.last_cuda)},
            {"min_driver", of(answer.needs.minimum)},
            {"recommended_driver", of(answer.needs.recommended)},
            {"last_driver_branch", branch(answer.needs.last_branch)},
            {"open_kernel_module", of(model.open_module)},
            {"derived_from",
             answer.use != nullptr && !answer.use->derived_from.empty() ? Json(answer.use->derived_from) : Json()},
            {"good_for", answer.use != nullptr ? Json(answer.use->good_for) : Json()},
            {"also", answer.also}};
  for (const Rate& rate : rates()) json[rate.key] = positive(model.*rate.value);
  add(answer.frameworks, json);
  return json;
}

Json to_json(const ArchitectureAnswer& answer) {
  const auto* row = answer.row;
  Json json{{"architecture", answer.architecture},
            {"generation", row != nullptr ? Json(row->name) : Json()},
            {"first_cuda", row != nullptr ? of(row->first_cuda) : Json()},
            {"last_cuda", row != nullptr ? of(row->last_cuda) : Json()},
            {"min_driver", answer.first_branch != 0 ? Json(std::to_string(answer.first_branch)) : Json()},
            {"last_driver_branch", branch(answer.last_branch)},
            {"gpus", answer.gpus}};
  if (answer.frameworks) add(*answer.frameworks, json);
  return json;
}

Json to_json(const XidAnswer& answer) {
  Json json{{"xid", answer.code}, {"known", answer.row != nullptr}};
  if (const auto* row = answer.row)
    json.update({{"mnemonic", row->mnemonic},
                 {"description", row->description},
                 {"severity", row->severity},
                 {"cause", row->cause},
                 {"action", row->action},
                 {"action_plain", row->action_plain},
                 {"investigate", row->investigate}});
  if (const auto* older = answer.before_ampere)
    json["before_ampere"] = {
        {"description", older->description}, {"severity", older->severity}, {"action_plain", older->action_plain}};
  return json;
}

Json to_json(const JobAnswer& answer) {
  const bool training = answer.job.settings.trains();
  Json json{{"training", training},
            {"model", answer.job.model.name},
            {"parameters", answer.parameters},
            {"bytes_needed", answer.bytes_needed},
            {"rule", answer.rule},
            {"here", nullptr},
            {"ranking", Json::array()}};
  if (answer.here)
    json["here"] = {
        {"gpu", answer.here->model->name}, {"needed", answer.here->needed}, {"present", answer.here->present}};
  for (const Suggestion& one : answer.ranking)
    json["ranking"].push_back({{"gpu", one.model->name},
                               {"gpus", one.gpus},
                               {"memory_gb", one.model->memory_gb},
                               {"rate", one.rate},
                               {"rate_unit", training ? "TFLOPS" : "GB/s"},
                               {"remark", one.remark}});
  return json;
}

Json to_json(const MatrixAnswer& answer) {
  Json json{{"matrix", Json::array()}};
  for (const MatrixRow& row : answer.rows) json["matrix"].push_back(of(row));
  return json;
}

Json to_json(const Place& place) {
  if (place.is_empty()) return nullptr;
  Json gpus = Json::array();
  for (const PlaceGpu& gpu : place.gpus)
    gpus.push_back({{"name", gpu.name},
                    {"count", gpu.count},
                    {"compute_capability", gpu.architecture ? Json(capability_text(*gpu.architecture)) : Json()},
                    {"known", gpu.model != nullptr}});
  Json torches = Json::array();
  for (const InstalledTorch& torch : place.torches)
    torches.push_back({{"version", torch.version}, {"cuda", of(torch.cuda)}, {"architectures", torch.architectures}});
  return {{"origin", place.origin},
          {"driver", of(place.driver)},
          {"cuda", of(place.cuda)},
          {"gpus", std::move(gpus)},
          {"torch", std::move(torches)}};
}

Json to_json(const Asked& asked, const Question& question, const Answer& answer) {
  return {{"schema", facts::kJsonSchema},
          {"simulated", asked.place.simulated},
          {"question", of(question.text)},
          {"kind", question.kind},
          {"place", to_json(asked.place)},
          {"answer", std::visit([](const auto& one) { return to_json(one); }, answer)},
          {"knowledge",
           {{"newest_cuda", to_string(asked.knowledge.newest_toolkit())},
            {"newest_driver_branch", asked.knowledge.newest_branch()},
            {"newest_torch", to_string(asked.knowledge.newest_torch())},
            {"overlays", asked.knowledge.overlays()}}},
          {"sources", verdict_of(answer).sources}};
}

}  // namespace gpuwarden::compat
