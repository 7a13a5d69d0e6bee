// SPDX-License-Identifier: Apache-2.0
// The API described by its own rows: OpenAPI 3.1, whose schemas are JSON Schema.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "gpuwarden/serve/routes.hpp"

namespace gpuwarden::serve {
namespace {

using Json = nlohmann::json;

// What keys every answer has. More may be there: keys are added, never renamed. Facts that are told at length in
// docs/json.md are given by the keys that nobody can do without.
constexpr const char* kSchemas = R"json({
"Error": {"type":"object","required":["schema","error"],"properties":{"schema":{"type":"integer"},
  "error":{"type":"object","required":["code","message","hint"],"properties":{"code":{"type":"string"},"message":{"type":"string"},"hint":{"type":"string"}}}}},
"Problem": {"type":["object","null"],"required":["code","message","hint"],"properties":{"code":{"type":"string"},"message":{"type":"string"},"hint":{"type":"string"}}},
"Done": {"type":"object","required":["schema","done"],"properties":{"schema":{"type":"integer"},"done":{"type":"boolean"}}},
"Nothing": {"type":"object","properties":{"by":{"type":"string"}}},
"Login": {"type":"object","required":["token"],"properties":{"token":{"type":"string"}}},
"Silence": {"type":"object","required":["for"],"properties":{"rule":{"type":"string"},"uuid":{"type":"string"},"for":{"type":"string"},"by":{"type":"string"},"comment":{"type":"string"}}},
"EndSilence": {"type":"object","properties":{"rule":{"type":"string"},"uuid":{"type":"string"}}},
"Silences": {"type":"object","required":["schema","silences"],"properties":{"schema":{"type":"integer"},"silences":{"type":"array","items":{"type":"object","required":["rule","uuid","until_unix_ms","by","comment"],
  "properties":{"rule":{"type":"string"},"uuid":{"type":"string"},"until_unix_ms":{"type":"integer"},"by":{"type":"string"},"comment":{"type":"string"}}}}}},
"PowerLimit": {"type":"object","required":["watts"],"properties":{"watts":{"type":"number"}}},
"PowerLimitSet": {"type":"object","required":["schema","done","power_limit_watts"],"properties":{"schema":{"type":"integer"},"done":{"type":"boolean"},"power_limit_watts":{"type":"number"}}},
"Disabled": {"type":"object","required":["schema","done","for_everybody","note"],"properties":{"schema":{"type":"integer"},"done":{"type":"boolean"},"for_everybody":{"type":"boolean"},"note":{"type":"string"}}},
"Signal": {"type":"object","required":["signal"],"properties":{"signal":{"enum":["TERM","INT","KILL","HUP","USR1","USR2","STOP","CONT"]}}},
"Disable": {"type":"object","required":["reason"],"properties":{"reason":{"type":"string"},"by":{"type":"string"}}},
"OpenApi": {"type":"object","required":["openapi","info","paths","components"],"properties":{"openapi":{"type":"string"}}},
"Session": {"type":"object","required":["schema","host","version","logged_in","sees_commands","actions_allowed","actions_possible","token_needed"],
  "properties":{"schema":{"type":"integer"},"host":{"type":"string"},"version":{"type":"string"},"logged_in":{"type":"boolean"},"sees_commands":{"type":"boolean"},
  "actions_allowed":{"type":"boolean"},"actions_possible":{"type":"boolean"},"token_needed":{"type":"boolean"}}},
"Gpu": {"type":"object","required":["index","uuid","name","pci_bus_id","state","memory","utilization"],"properties":{"index":{"type":"integer"},"uuid":{"type":"string"},
  "name":{"type":"string"},"pci_bus_id":{"type":"string"},"state":{"enum":["available","busy","lost","needs_reset","not_answering","no_permission","suspended","disabled","faulty"]},
  "use":{"enum":["unusable","mig_without_instances","busy","in_use","unknown","free"]},
  "memory":{"type":"object"},"utilization":{"type":"object"},"temperature_celsius":{"type":["number","null"]},"power_watts":{"type":["number","null"]},
  "processes":{"type":["array","null"],"items":{"type":"object","required":["pid","type"]}}}},
"Snapshot": {"type":"object","required":["schema","simulated","host","time_unix_ms","driver","problem","gpus"],"properties":{"schema":{"type":"integer"},"simulated":{"type":"boolean"},
  "host":{"type":"string"},"time_unix_ms":{"type":"integer"},"driver":{"type":["string","null"]},"problem":{"type":["object","null"]},"gpus":{"type":"array","items":{"$ref":"#/components/schemas/Gpu"}}}},
"Health": {"type":"object","required":["uuid","index","state","reason"],"properties":{"uuid":{"type":"string"},"index":{"type":"integer"},
  "state":{"enum":["available","busy","error","disabled"]},"reason":{"type":"string"},"next_step":{"type":"string"},"node":{"type":"string"}}},
"Healths": {"type":"object","required":["schema","ready","problem","gpus"],"properties":{"schema":{"type":"integer"},"ready":{"type":"boolean"},"problem":{"$ref":"#/components/schemas/Problem"},
  "gpus":{"type":"array","items":{"$ref":"#/components/schemas/Health"}},"unknown":{"type":"array","items":{"type":"object","required":["node","problem"]}}}},
"Alert": {"type":"object","required":["id","rule","level","uuid","message"],"properties":{"id":{"type":"integer"},"rule":{"type":"string"},"level":{"type":"string"},
  "uuid":{"type":"string"},"message":{"type":"string"},"acknowledged_by":{"type":"string"},"node":{"type":"string"},"current":{"type":"boolean"},
  "part_of":{"type":["integer","null"]},"also":{"type":"array","items":{"type":"string"}}}},
"Alerts": {"type":"object","required":["schema","alerts","log"],"properties":{"schema":{"type":"integer"},"alerts":{"type":"array","items":{"$ref":"#/components/schemas/Alert"}},
  "log":{"type":"array","items":{"type":"object","required":["kind","alert","silenced"],"properties":{"kind":{"enum":["began","repeated","ended"]},"alert":{"$ref":"#/components/schemas/Alert"},"silenced":{"type":"boolean"}}}}}},
"Lease": {"type":"object","required":["uuid","shared","holders"],"properties":{"uuid":{"type":"string"},"shared":{"type":"boolean"},"idle":{"type":"boolean"},"holders":{"type":"array"},"node":{"type":"string"}}},
"Leases": {"type":"object","required":["schema","leases","unknown"],"properties":{"schema":{"type":"integer"},"leases":{"type":"array","items":{"$ref":"#/components/schemas/Lease"}},
  "unknown":{"type":"array","items":{"type":"object","required":["node","problem"],"properties":{"node":{"type":"string"},"problem":{"$ref":"#/components/schemas/Problem"}}}}}},
"Node": {"type":"object","required":["name","url","problem","seen_unix_ms","snapshot","leases","health","alerts"],"properties":{"name":{"type":"string"},"url":{"type":"string"},
  "problem":{"$ref":"#/components/schemas/Problem"},"seen_unix_ms":{"type":["integer","null"]},"expected":{"type":"integer"},
  "snapshot":{"anyOf":[{"type":"null"},{"$ref":"#/components/schemas/Snapshot"}]},
  "leases":{"type":["array","null"],"items":{"$ref":"#/components/schemas/Lease"}},"leases_problem":{"$ref":"#/components/schemas/Problem"},
  "health":{"type":["array","null"],"items":{"$ref":"#/components/schemas/Health"}},"health_problem":{"$ref":"#/components/schemas/Problem"},
  "alerts":{"type":"array","items":{"$ref":"#/components/schemas/Alert"}},
  "xids":{"type":"array","items":{"type":"object","required":["uuid","index","code","count","time_unix_ms"],"properties":{"uuid":{"type":"string"},"index":{"type":"integer"},"code":{"type":"integer"},"count":{"type":"integer"},"time_unix_ms":{"type":"integer"}}}}}},
"Nodes": {"type":"object","required":["schema","nodes"],"properties":{"schema":{"type":"integer"},"nodes":{"type":"array","items":{"$ref":"#/components/schemas/Node"}}}},
"Samples": {"type":"object","required":["schema","nodes"],"properties":{"schema":{"type":"integer"},"nodes":{"type":"array","items":{"type":"object","required":["name","problem","time_unix_ms","simulated","gpus"],
  "properties":{"name":{"type":"string"},"problem":{"$ref":"#/components/schemas/Problem"},"time_unix_ms":{"type":["integer","null"]},"simulated":{"type":"boolean"},
  "gpus":{"type":"array","items":{"type":"object","required":["index","uuid","state","health","values"],"properties":{"index":{"type":"integer"},"uuid":{"type":"string"},"state":{"type":"string"},
  "health":{"type":["string","null"]},"values":{"type":"object","additionalProperties":{"type":["number","null"]}}}}}}}}}},
"History": {"type":"object","required":["schema","uuid","metric","unit","step_seconds","points"],"properties":{"schema":{"type":"integer"},"uuid":{"type":"string"},"metric":{"type":"string"},
  "unit":{"type":"string"},"step_seconds":{"type":"number"},"points":{"type":"array","items":{"type":"array","items":{"type":"number"},"minItems":4,"maxItems":4}}}},
"Processes": {"type":"object","required":["schema","processes"],"properties":{"schema":{"type":"integer"},"processes":{"type":"array","items":{"type":"object","required":["pid","type","node","gpu","uuid"],
  "properties":{"pid":{"type":"integer"},"type":{"type":"string"},"node":{"type":"string"},"gpu":{"type":"integer"},"uuid":{"type":"string"},"memory_bytes":{"type":["integer","null"]}}}}}},
"Uses": {"type":"object","required":["schema","from_unix_ms","to_unix_ms","uses"],"properties":{"schema":{"type":"integer"},"from_unix_ms":{"type":"integer"},"to_unix_ms":{"type":"integer"},
  "uses":{"type":"array","items":{"type":"object","required":["user","job","pid","command","uuid","gpu","gpu_seconds","busy_seconds","mean_utilization","peak_memory_bytes"],
  "properties":{"user":{"type":"string"},"job":{"type":"string"},"pid":{"type":["integer","null"]},"command":{"type":"string"},"uuid":{"type":"string"},"gpu":{"type":["integer","null"]},
  "gpu_seconds":{"type":"number"},"busy_seconds":{"type":"number"},"mean_utilization":{"type":["number","null"]},"peak_memory_bytes":{"type":["integer","null"]}}}}}},
"Happenings": {"type":"object","required":["schema","happenings"],"properties":{"schema":{"type":"integer"},"happenings":{"type":"array","items":{"type":"object","required":["time_unix_ms","kind","uuid","text"],
  "properties":{"time_unix_ms":{"type":"integer"},"kind":{"type":"string"},"uuid":{"type":"string"},"text":{"type":"string"}}}}}}
})json";

Json reference(std::string_view schema) { return {{"$ref", "#/components/schemas/" + std::string(schema)}}; }

Json content(std::string_view type, std::string_view schema) {
  const Json described = schema.empty() ? Json{{"type", "string"}} : reference(schema);
  return {{std::string(type), {{"schema", described}}}};
}

Json parameter_json(const Route& route, const Parameter& parameter) {
  const bool in_path = route.path.find("{" + std::string(parameter.name) + "}") != std::string_view::npos;
  return {{"name", parameter.name},
          {"in", in_path ? "path" : "query"},
          {"description", parameter.help},
          {"required", parameter.required},
          {"schema", {{"type", parameter.type}}}};
}

Json operation(const Route& route) {
  Json parameters = Json::array();
  for (const Parameter& parameter : route.parameters) parameters.push_back(parameter_json(route, parameter));
  Json json{{"summary", route.help},
            {"parameters", std::move(parameters)},
            {"responses",
             {{"200", {{"description", "the answer"}, {"content", content(route.type, route.schema)}}},
              {"default", {{"description", "an error"}, {"content", content("application/json", "Error")}}}}}};
  if (!route.body.empty())
    json["requestBody"] = {{"required", route.body != "Nothing"}, {"content", content("application/json", route.body)}};
  if (!route.open) json["security"] = Json::array({{{"token", Json::array()}}, {{"session", Json::array()}}});
  return json;
}

}  // namespace

const Json& schemas() {
  static const Json kParsed = Json::parse(kSchemas);
  return kParsed;
}

Json openapi(std::string_view version, std::uint16_t port) {
  Json paths = Json::object();
  for (const Route& route : routes())
    paths[std::string(route.path)][route.method == Method::get ? "get" : "post"] = operation(route);
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "gpuwarden serve"},
            {"version", version},
            {"description",
             "Sizes are bytes, power watts, temperatures Celsius; what is unknown is null. Keys are "
             "added, never renamed."}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", schemas()},
            {"securitySchemes",
             {{"token", {{"type", "http"}, {"scheme", "bearer"}}},
              {"session", {{"type", "apiKey"}, {"in", "cookie"}, {"name", session_cookie(port)}}}}}}}};
}

}  // namespace gpuwarden::serve
