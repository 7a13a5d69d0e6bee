// SPDX-License-Identifier: Apache-2.0
// What callers may do: log in, and where it is allowed acknowledge, silence, signal, disable.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/users.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "serve/call.hpp"
#include "serve/helper_request.hpp"
#include "serve/names.hpp"

namespace gpuwarden::serve {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::hours kLongestSilence(24 * 30);

Response done() { return json_answer(facts::document({{"done", true}})); }
Response done_or(const Result<void>& result) { return result ? done() : error_answer(result.error()); }

std::string text_in(const Json& body, const char* key) {
  const auto found = body.find(key);
  return found != body.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

/// What is known of the one who acts beside that he has the token: the kernel tells whose a socket of this machine is.
std::string known_of(const Peer& peer) {
  if (peer.user) return "user " + name_of_user(*peer.user);
  return peer.address.empty() ? "" : "from " + peer.address;
}

/// Who acts: as he says, which is not more than his word, and as far as the server can tell.
std::string actor(const Call& call, const Json& body) {
  const std::string by = text_in(body, "by");
  const std::string known = known_of(call.request.peer);
  constexpr std::size_t kLongest = 64;
  std::size_t length = std::min(by.size(), kLongest);
  // Half a character would be no text, which cannot be kept.
  while (length < by.size() && (static_cast<unsigned char>(by[length]) & 0xC0U) == 0x80U) --length;
  if (by.empty()) return known.empty() ? "a holder of the token" : known;
  return known.empty() ? by.substr(0, length) : fmt::format("{} ({})", by.substr(0, length), known);
}

Result<void> acknowledge(const Call& call) {
  const auto id = parse_integer(call.parameter("id").value_or(""));
  if (!id || *id < 0) return fail(ErrorCode::invalid_argument, "the alert's id is not a number");
  GPUWARDEN_TRY(const Json body, call.body());
  return call.sources.watch->acknowledge(static_cast<std::uint64_t>(*id), actor(call, body));
}

Result<void> silence(const Call& call) {
  GPUWARDEN_TRY(const Json body, call.body());
  GPUWARDEN_TRY(const auto duration, parse_duration(text_in(body, "for")));
  if (duration.count() <= 0 || duration > kLongestSilence)
    return fail(ErrorCode::invalid_argument, "`for` must be greater than 0 and at most 30d", "for example \"1h\"");
  return call.sources.watch->silence({.rule = text_in(body, "rule"),
                                      .uuid = Uuid(text_in(body, "uuid")),
                                      .until = call.now() + duration,
                                      .by = actor(call, body),
                                      .comment = text_in(body, "comment")});
}

Result<void> end_silence(const Call& call) {
  GPUWARDEN_TRY(const Json body, call.body());
  if (!call.sources.watch->end_silence(text_in(body, "rule"), Uuid(text_in(body, "uuid"))))
    return fail(ErrorCode::not_found, "there is no silence of this rule and GPU", "/api/v1/silences lists them");
  return {};
}

bool is_on_gpu(const Call& call, std::int64_t pid) {
  const auto reading = call.sources.watch->latest();
  return reading && std::ranges::any_of(reading->snapshot.gpus, [&](const facts::GpuRecord& record) {
           return record.processes && std::ranges::any_of(*record.processes, [&](const facts::GpuProcess& process) {
                    return process.pid.value == pid;
                  });
         });
}

Result<void> signal(const Call& call) {
  if (!call.sources.actions.signal) return fail(ErrorCode::unavailable, "this server sends no signals");
  const auto pid = parse_integer(call.parameter("pid").value_or(""));
  GPUWARDEN_TRY(const Json body, call.body());
  std::string name = to_upper(text_in(body, "signal"));
  if (name.starts_with("SIG")) name.erase(0, 3);
  const auto* const row = std::ranges::find(kSignals, name, &SignalName::name);
  if (row == kSignals.end())
    return fail(ErrorCode::invalid_argument, fmt::format("unknown signal '{}'", name),
                "TERM, INT, KILL, HUP, USR1, USR2, STOP or CONT");
  // A pid of an old reading may be another process's by now.
  if (auto problem = not_fresh(call.sources)) return std::unexpected(std::move(*problem));
  if (!pid || *pid <= 1 || *pid > INT32_MAX || !is_on_gpu(call, *pid))
    return fail(ErrorCode::not_found, "no such process is on a GPU", "/api/v1/processes lists those that are");
  // So may that of a process that is only pretended.
  if (call.sources.watch->latest()->snapshot.simulated)
    return fail(ErrorCode::invalid_argument, fmt::format("process {} is on a simulated GPU: it gets no signals", *pid));
  return call.sources.actions.signal(Pid{static_cast<std::int32_t>(*pid)}, row->number, call.request.peer);
}

Result<Uuid> named_gpu(const Call& call) {
  const std::string name = call.parameter("gpu").value_or("");
  if (const auto reading = call.sources.watch->latest()) return gpu_named(name, reading->snapshot);
  return fail(ErrorCode::not_found, fmt::format("there is no GPU '{}'", printable(name)),
              "/api/v1/inventory lists them");
}

Result<void> disable(const Call& call) {
  if (!call.sources.actions.disable) return fail(ErrorCode::unavailable, "this server disables no GPUs");
  GPUWARDEN_TRY(const Uuid uuid, named_gpu(call));
  GPUWARDEN_TRY(const Json body, call.body());
  const std::string reason = text_in(body, "reason");
  if (reason.empty())
    return fail(ErrorCode::invalid_argument, "`reason` is missing", "{\"reason\": \"what others should know\"}");
  return call.sources.actions.disable({.uuid = uuid, .reason = reason, .by = actor(call, body), .since = call.now()});
}

Result<void> enable(const Call& call) {
  if (!call.sources.actions.enable) return fail(ErrorCode::unavailable, "this server enables no GPUs");
  GPUWARDEN_TRY(const Uuid uuid, named_gpu(call));
  return call.sources.actions.enable(uuid);
}

Result<Milliwatts> set_power_limit(const Call& call) {
  if (!call.sources.actions.set_power_limit)
    return fail(ErrorCode::unavailable, "this server sets no power limits", "start it as root with --keep power");
  GPUWARDEN_TRY(const Uuid uuid, named_gpu(call));
  GPUWARDEN_TRY(const Json body, call.body());
  const auto watts = body.find("watts");
  constexpr double kMostWatts = 10'000;
  const double wanted = watts != body.end() && watts->is_number() ? watts->get<double>() : 0;
  if (!(wanted > 0 && wanted <= kMostWatts))
    return fail(ErrorCode::invalid_argument, "`watts` must be a number greater than 0", "{\"watts\": 300}");
  // An index may be another GPU's by now.
  if (auto problem = not_fresh(call.sources)) return std::unexpected(std::move(*problem));
  return call.sources.actions.set_power_limit(uuid, Milliwatts(std::llround(wanted * 1000)));
}

std::string cookie_of(const Call& call, std::string_view name, std::int64_t seconds) {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}",
                     session_cookie(call.sources.access->address.port), name, seconds,
                     call.sources.access->tls ? "; Secure" : "");
}

}  // namespace

Response get_session(const Call& call) {
  const Access& access = *call.sources.access;
  return json_answer(facts::document({{"host", call.sources.host},
                                      {"version", call.sources.metrics.version},
                                      {"logged_in", call.caller.has_token},
                                      {"sees_commands", call.caller.sees_commands},
                                      {"actions_allowed", access.allow_actions && call.caller.has_token},
                                      {"actions_possible", access.allow_actions},
                                      {"token_needed", access.token_to_read && !call.caller.has_token},
                                      {"actions",
                                       {{"signal", static_cast<bool>(call.sources.actions.signal)},
                                        {"disable", static_cast<bool>(call.sources.actions.disable)},
                                        {"disables_for_everybody", call.sources.actions.disables_for.empty()},
                                        {"power_limit", static_cast<bool>(call.sources.actions.set_power_limit)}}}}));
}

Response post_login(const Call& call) {
  const auto body = call.body();
  if (!body) return error_answer(body.error());
  const Access& access = *call.sources.access;
  if (access.token.empty())
    return error_answer(
        {ErrorCode::permission_denied, "this server has no token to log in with", "start it with --token-file"});
  const auto token = body->find("token");
  if (token == body->end() || !token->is_string() || !same_secret(token->get<std::string>(), access.token))
    return error_answer({ErrorCode::permission_denied, "that is not the server's token", ""}, 401);
  Response response = done();
  const std::string name = call.sources.sessions->open(call.sources.clock->now());
  const auto life = std::chrono::duration_cast<std::chrono::seconds>(Sessions::kLife).count();
  response.headers.emplace_back("Set-Cookie", cookie_of(call, name, life));
  return response;
}

Response post_logout(const Call& call) {
  if (call.caller.by_cookie) call.sources.sessions->close(call.caller.session);
  Response response = done();
  response.headers.emplace_back("Set-Cookie", cookie_of(call, "", 0));
  return response;
}

Response post_acknowledge(const Call& call) { return done_or(acknowledge(call)); }
Response post_silence(const Call& call) { return done_or(silence(call)); }
Response post_end_silence(const Call& call) { return done_or(end_silence(call)); }
Response post_signal(const Call& call) { return done_or(signal(call)); }

Response post_disable(const Call& call) {
  const auto done = disable(call);
  if (!done) return error_answer(done.error());
  const std::string& who = call.sources.actions.disables_for;
  return json_answer(
      facts::document({{"done", true},
                       {"for_everybody", who.empty()},
                       {"note", who.empty() ? "out of use for everybody"
                                            : fmt::format("out of use for jobs of user {} alone, as whom this server "
                                                          "runs: `sudo gpuwarden disable` counts for everybody",
                                                          who)}}));
}

Response post_power_limit(const Call& call) {
  const auto limit = set_power_limit(call);
  if (!limit) return error_answer(limit.error());
  return json_answer(
      facts::document({{"done", true}, {"power_limit_watts", static_cast<double>(limit->value) / 1000}}));
}

Response post_enable(const Call& call) { return done_or(enable(call)); }

}  // namespace gpuwarden::serve
