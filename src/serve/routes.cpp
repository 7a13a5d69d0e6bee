// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/routes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <exception>

#include "gpuwarden/base/text.hpp"
#include "serve/call.hpp"
#include "serve/encoding.hpp"

namespace gpuwarden::serve {
namespace {

constexpr auto kGpuPath =
    std::to_array<Parameter>({{"gpu", "string", "the GPU's index, UUID or its beginning, or PCI bus id", true}});
constexpr auto kIdPath = std::to_array<Parameter>({{"id", "integer", "the alert's id", true}});
constexpr auto kPidPath = std::to_array<Parameter>({{"pid", "integer", "the process's id", true}});
constexpr auto kSampleParameters = std::to_array<Parameter>({
    {"metrics", "string",
     "ids or aliases of metrics, or their names for Prometheus or DCGM, with commas between; \"all\" for all; else "
     "the ones that are looked at most"},
    {"node", "string", "this machine alone"},
});
constexpr auto kNodeParameters = std::to_array<Parameter>({
    {"own", "boolean", "true: the server's own machine alone"},
    {"brief", "boolean", "true: of each GPU what an overview shows, a tenth of all"},
    {"gpu", "string", "the UUID of a GPU that a brief answer tells all about"},
});
constexpr auto kHistoryParameters = std::to_array<Parameter>({
    {"gpu", "string", "the GPU's index, UUID or its beginning, or PCI bus id", true},
    {"metric", "string", "the metric's id, an alias (temp), or its name for Prometheus or DCGM", true},
    {"from", "string", "seconds since 1970, 2026-11-23T13:04:05Z, or -15m (15 minutes ago, which is the default)"},
    {"to", "string", "likewise; now"},
    {"step", "string", "10s, 5m, 90: at least so long; as long as it takes for 500 points"},
});
constexpr auto kWindowParameters = std::to_array<Parameter>({
    {"from", "string", "seconds since 1970, 2026-11-23T13:04:05Z, or -1h (an hour ago, which is the default)"},
    {"to", "string", "likewise; now"},
    {"by", "string", "user, job or process: adds up"},
});
constexpr auto kHappeningParameters = std::to_array<Parameter>({
    {"from", "string", "seconds since 1970, 2026-11-23T13:04:05Z, or -24h (which is the default)"},
    {"to", "string", "likewise; now"},
});

constexpr std::string_view kApi = "application/json";
constexpr auto kRoutes = std::to_array<Route>({
    {Method::get,
     "/metrics",
     "metrics for Prometheus; OpenMetrics where Accept asks for it",
     get_metrics,
     false,
     false,
     {},
     "text/plain"},
    {Method::get,
     "/healthz",
     "200 while the GPUs are read and the driver answers, else 503 with the reason",
     get_health_of_server,
     false,
     true,
     {},
     "text/plain"},
    {Method::get, "/-/healthy", "as /healthz", get_health_of_server, false, true, {}, "text/plain"},
    {Method::get,
     "/-/ready",
     "200 when the GPUs were read and the driver answers, else 503 with the reason",
     get_ready,
     false,
     true,
     {},
     "text/plain"},
    {Method::get, "/api/v1/openapi.json", "this description", get_openapi, false, true, {}, kApi, "OpenApi"},
    {Method::get, "/api/v1/session", "what this caller may do", get_session, false, true, {}, kApi, "Session"},
    {Method::post, "/api/v1/login", "a cookie for the token", post_login, false, true, {}, kApi, "Done", "Login"},
    {Method::post,
     "/api/v1/logout",
     "ends the cookie's session",
     post_logout,
     false,
     true,
     {},
     kApi,
     "Done",
     "Nothing"},
    {Method::get, "/api/v1/nodes", "everything about all machines: GPUs, health, alerts, leases", get_nodes, false,
     false, kNodeParameters, kApi, "Nodes", "", true},
    {Method::get,
     "/api/v1/inventory",
     "this machine's GPUs, as `gpuwarden list --json` has them",
     get_inventory,
     false,
     false,
     {},
     kApi,
     "Snapshot"},
    {Method::get, "/api/v1/samples", "the last values of metrics of all GPUs", get_samples, false, false,
     kSampleParameters, kApi, "Samples"},
    {Method::get, "/api/v1/history", "a metric of a GPU over time", get_history, false, false, kHistoryParameters, kApi,
     "History", "", true},
    {Method::get, "/api/v1/processes", "who uses the GPUs", get_processes, false, false, {}, kApi, "Processes"},
    {Method::get, "/api/v1/leases", "who has reserved GPUs", get_leases, false, false, {}, kApi, "Leases"},
    {Method::get, "/api/v1/health", "how fit the GPUs are", get_health, false, false, {}, kApi, "Healths"},
    {Method::get, "/api/v1/usage", "who used the GPUs, how long and how well", get_usage, false, false,
     kWindowParameters, kApi, "Uses", "", true},
    {Method::get, "/api/v1/happenings", "events and changes that were kept", get_happenings, false, false,
     kHappeningParameters, kApi, "Happenings", "", true},
    {Method::get,
     "/api/v1/events",
     "readings, alerts and health as they come (server-sent events)",
     get_events,
     false,
     false,
     {},
     "text/event-stream"},
    {Method::get,
     "/api/v1/alerts",
     "alerts that last, and their last changes",
     get_alerts,
     false,
     false,
     {},
     kApi,
     "Alerts"},
    {Method::post, "/api/v1/alerts/{id}/acknowledge", "an alert is not repeated any more", post_acknowledge, true,
     false, kIdPath, kApi, "Done", "Nothing", true},
    {Method::get,
     "/api/v1/silences",
     "for whom alerts are silent, and until when",
     get_silences,
     false,
     false,
     {},
     kApi,
     "Silences"},
    {Method::post,
     "/api/v1/silences",
     "alerts that match are not told for a time",
     post_silence,
     true,
     false,
     {},
     kApi,
     "Done",
     "Silence",
     true},
    {Method::post,
     "/api/v1/silences/end",
     "ends the silences of a rule and a GPU, as they were made",
     post_end_silence,
     true,
     false,
     {},
     kApi,
     "Done",
     "EndSilence",
     true},
    {Method::post, "/api/v1/processes/{pid}/signal", "sends a signal to a process on a GPU", post_signal, true, false,
     kPidPath, kApi, "Done", "Signal", true},
    {Method::post, "/api/v1/gpus/{gpu}/disable", "takes a GPU out of use", post_disable, true, false, kGpuPath, kApi,
     "Disabled", "Disable", true},
    {Method::post, "/api/v1/gpus/{gpu}/enable", "gives a GPU back to use", post_enable, true, false, kGpuPath, kApi,
     "Done", "Nothing", true},
    {Method::post, "/api/v1/gpus/{gpu}/power-limit", "sets a GPU's power limit, within the GPU's own range",
     post_power_limit, true, false, kGpuPath, kApi, "PowerLimitSet", "PowerLimit", true},
});

/// The parameters in the path; nothing where it does not fit.
std::optional<Fields> match(std::string_view pattern, std::string_view path) {
  const auto wanted = split(pattern, '/');
  const auto given = split(path, '/');
  if (wanted.size() != given.size()) return std::nullopt;
  Fields parameters;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].starts_with('{')) {
      if (given[i].empty()) return std::nullopt;
      parameters.emplace_back(wanted[i].substr(1, wanted[i].size() - 2), given[i]);
    } else if (wanted[i] != given[i]) {
      return std::nullopt;
    }
  }
  return parameters;
}

Response page_file(const Sources& sources, const Request& request) {
  const auto found = std::ranges::find(sources.page, std::string_view(request.path), &PageFile::path);
  if (found != sources.page.end()) {
    Response response;
    response.type = found->content_type;
    response.headers = {{"ETag", std::string(found->etag)}, {"Cache-Control", "no-cache"}};
    if (request.header("if-none-match") == found->etag) {
      response.status = 304;
    } else {
      response.body = found->bytes;
    }
    return response;
  }
  if (request.path == "/")
    return text_answer(200,
                       "gpuwarden serve: this build has no page.\n/metrics is for Prometheus, /api/v1/openapi.json "
                       "describes the API, /-/ready tells whether the GPUs are read.\n");
  return error_answer({ErrorCode::not_found, fmt::format("there is nothing at {}", printable(request.path)),
                       "/api/v1/openapi.json lists what there is"});
}

Response refuse_reading(const Sources& sources) {
  Response response = error_answer({ErrorCode::permission_denied, "this needs the server's token",
                                    "send it as `Authorization: Bearer TOKEN`, or log in on the page"},
                                   401);
  response.headers.emplace_back("WWW-Authenticate", fmt::format("Bearer realm=\"gpuwarden on {}\"", sources.host));
  return response;
}

/// Why this caller may not have this route changed something; nothing where he may.
std::optional<Response> refuse_change(const Call& call) {
  if (!call.sources.access->allow_actions)
    return error_answer({ErrorCode::permission_denied, "this server changes nothing",
                         "start it with --allow-actions and --token-file"});
  if (!call.caller.has_token) return refuse_reading(call.sources);
  // A form of another site cannot send JSON, nor this origin.
  const std::string type = to_lower(call.request.header("content-type"));
  if (!call.request.body.empty() && !type.starts_with("application/json"))
    return error_answer({ErrorCode::invalid_argument, "what is posted must be application/json", ""});
  return std::nullopt;
}

/// The route of a request. Where the path fits with another method, `other` is one of that path.
struct Found {
  const Route* route = nullptr;
  const Route* other = nullptr;
  Fields parameters;
};
Found find_route(const Request& request) {
  Found found;
  for (const Route& route : kRoutes) {
    auto parameters = match(route.path, request.path);
    if (!parameters) continue;
    if (route.method == request.method) return {&route, nullptr, std::move(*parameters)};
    found.other = &route;
  }
  return found;
}

Response no_route(const Sources& sources, const Request& request, const Route* other) {
  if (other == nullptr) {
    return request.method == Method::get
               ? page_file(sources, request)
               : error_answer(
                     {ErrorCode::not_found, fmt::format("there is nothing at {}", printable(request.path)), ""});
  }
  Response response =
      error_answer({ErrorCode::invalid_argument,
                    fmt::format("{} takes {} only", printable(request.path), to_string(other->method)), ""},
                   405);
  response.headers.emplace_back("Allow", other->method == Method::get ? "GET, HEAD" : "POST");
  return response;
}

/// What is wrong with the query of an API's route: a key that it does not have, or what is neither true nor false.
std::optional<Error> wrong_query(const Route& route, const Request& request) {
  if (!route.path.starts_with("/api/")) return std::nullopt;
  std::vector<std::string> known;
  for (const Parameter& parameter : route.parameters) {
    if (route.path.find(fmt::format("{{{}}}", parameter.name)) == std::string_view::npos)
      known.emplace_back(parameter.name);
  }
  for (const auto& [name, value] : request.query) {
    const auto parameter = std::ranges::find(route.parameters, name, &Parameter::name);
    if (parameter == route.parameters.end() || std::ranges::find(known, name) == known.end()) {
      const std::string close = closest_match(name, known);
      const std::string all = known.empty() ? "it has none" : fmt::format("there are {}", fmt::join(known, ", "));
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} has no parameter '{}'", printable(request.path), printable(name)),
                   close.empty() ? all : fmt::format("did you mean '{}'?", close)};
    }
    if (parameter->type == "boolean" && value != "true" && value != "false")
      return Error{ErrorCode::invalid_argument, fmt::format("{}: '{}' is not true or false", name, printable(value)),
                   fmt::format("{}=true", name)};
  }
  return std::nullopt;
}

Response dispatch(const Sources& sources, const Request& request) {
  auto [found, other, parameters] = find_route(request);
  if (found == nullptr) return no_route(sources, request, other);
  const Call call{sources, request, caller_of(request, *sources.access, *sources.sessions, sources.clock->now()),
                  std::move(parameters)};
  if (sources.access->token_to_read && !found->open && !call.caller.has_token) return refuse_reading(sources);
  if (found->changes) {
    if (auto refusal = refuse_change(call)) return std::move(*refusal);
  }
  if (const auto wrong = wrong_query(*found, request)) return error_answer(*wrong);
  return found->answer(call);
}

Response checked(const Sources& sources, const Request& request) {
  if (!host_is_own(request.header("host"), *sources.access))
    return error_answer({ErrorCode::permission_denied,
                         fmt::format("'{}' is not a name of this server", printable(request.header("host"))),
                         "ask for its address, or start it with --allow-host NAME"},
                        421);
  if (request.method == Method::post && !origin_is_own(request))
    return error_answer({ErrorCode::permission_denied, "another site's page may not do that", ""});
  if (request.method == Method::other)
    return error_answer({ErrorCode::invalid_argument, "GET, HEAD and POST are answered", ""}, 405);
  return dispatch(sources, request);
}

/// What every answer says to browsers.
void add_headers(Response& response) {
  constexpr std::string_view kPolicy =
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
      "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
  response.headers.emplace_back("Content-Security-Policy", kPolicy);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("X-Frame-Options", "DENY");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  const bool cached = std::ranges::any_of(response.headers, [](const auto& h) { return h.first == "Cache-Control"; });
  if (!cached) response.headers.emplace_back("Cache-Control", "no-store");
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Response answer(const Sources& sources, const Request& request) {
  Response response;
  try {
    response = checked(sources, request);
  } catch (const std::exception& exception) {
    response = error_answer(
        {ErrorCode::failed, fmt::format("unexpected: {}", exception.what()), "this is a bug: please report it"});
  }
  make_readable(response, request);
  compress(response, request);
  add_headers(response);
  return response;
}

bool may_wait(const Request& request) {
  const Route* route = find_route(request).route;
  return route != nullptr && route->waits;
}

std::string NodeTexts::get(const std::string& node, const std::string& key, const std::function<std::string()>& make) {
  const std::scoped_lock lock(mutex_);
  Text& text = texts_[node];
  if (text.key != key || text.text.empty()) text = {key, make()};
  return text.text;
}

void NodeTexts::bound(std::size_t most) {
  const std::scoped_lock lock(mutex_);
  if (texts_.size() > most) texts_.clear();
}

}  // namespace gpuwarden::serve
