// SPDX-License-Identifier: Apache-2.0
#include "serve/helper_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "serve/connections.hpp"

namespace gpuwarden::serve {
namespace {

constexpr std::size_t kLongestUuid = 96;
constexpr std::size_t kLongestReason = 1024;
constexpr std::size_t kLongestName = 64;
/// No board takes so much; the GPU's own range is asked for later.
constexpr std::int64_t kMostMilliwatts = 10'000'000;

using Words = std::vector<std::string_view>;

std::unexpected<Error> refused(std::string_view what) {
  return fail(ErrorCode::invalid_argument, fmt::format("the helper was asked for what is no {}", what));
}

std::unexpected<Error> not_kept(std::string_view right) {
  return fail(ErrorCode::permission_denied, fmt::format("the helper has no right to {}", right),
              "gpuwarden serve --keep gives it");
}

Result<Uuid> uuid_of(std::string_view word) {
  const bool plain = std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '/' ||
           c == ':' || c == '.';
  });
  if (word.empty() || word.size() > kLongestUuid || !plain) return refused("name of a GPU");
  return Uuid(std::string(word));
}

/// Text that people wrote: nothing of it can be anything else.
Result<std::string> text_of(std::string_view word, std::size_t longest) {
  if (word.empty() || word.size() > longest || printable(word) != word) return refused("printable text");
  return std::string(word);
}

Result<HelperRequest> power_of(const Words& words) {
  GPUWARDEN_TRY(const Uuid gpu, uuid_of(words[1]));
  const auto limit = parse_integer(words[2]);
  if (!limit || *limit <= 0 || *limit > kMostMilliwatts) return refused("power limit");
  return PowerLimitRequest{gpu, Milliwatts(*limit)};
}

Result<HelperRequest> signal_of(const Words& words) {
  const auto pid = parse_integer(words[1]);
  const auto* const known = std::ranges::find(kSignals, words[2], &SignalName::name);
  if (!pid || *pid <= 1 || *pid > INT32_MAX) return refused("process");
  if (known == kSignals.end()) return refused("signal");
  return SignalRequest{Pid{static_cast<std::int32_t>(*pid)}, known->number};
}

Result<HelperRequest> disable_of(const Words& words) {
  GPUWARDEN_TRY(const Uuid gpu, uuid_of(words[1]));
  GPUWARDEN_TRY(const std::string reason, text_of(words[2], kLongestReason));
  GPUWARDEN_TRY(const std::string by, text_of(words[3], kLongestName));
  return DisableRequest{gpu, reason, by};
}

Result<HelperRequest> enable_of(const Words& words) {
  GPUWARDEN_TRY(const Uuid gpu, uuid_of(words[1]));
  return EnableRequest{gpu};
}

/// What can be asked for, and how many words it has.
struct Verb {
  std::string_view name;
  std::size_t words;
  Result<HelperRequest> (*read)(const Words&);
};
constexpr auto kVerbs = std::to_array<Verb>(
    {{"power", 3, power_of}, {"signal", 3, signal_of}, {"disable", 4, disable_of}, {"enable", 2, enable_of}});

struct Packet {
  std::string operator()(const PowerLimitRequest& r) const {
    return fmt::format("power\n{}\n{}", r.gpu.value, r.limit.value);
  }
  std::string operator()(const SignalRequest& r) const {
    const auto* const known = std::ranges::find(kSignals, r.signal, &SignalName::number);
    return fmt::format("signal\n{}\n{}", r.pid.value, known == kSignals.end() ? "?" : known->name);
  }
  std::string operator()(const DisableRequest& r) const {
    return fmt::format("disable\n{}\n{}\n{}", r.gpu.value, r.reason, r.by);
  }
  std::string operator()(const EnableRequest& r) const { return fmt::format("enable\n{}", r.gpu.value); }
};

/// Does it, with these rights, for the user behind this connection.
struct Obey {
  const HelperRights& rights;
  int connection;

  Result<std::string> operator()(const PowerLimitRequest& r) const {
    if (!rights.set_power_limit) return not_kept("set power limits");
    GPUWARDEN_TRY(const Milliwatts limit, rights.set_power_limit(r.gpu, r.limit));
    return std::to_string(limit.value);
  }
  Result<std::string> operator()(const SignalRequest& r) const {
    if (!rights.signals) return not_kept("send signals");
    const auto user = user_behind(connection);
    if (!user)
      return fail(ErrorCode::permission_denied, "whose request it is cannot be told: no signal is sent",
                  "ask from this machine itself, over loopback");
    if (*user == 0)
      return fail(ErrorCode::permission_denied, "no signal is sent for root through the server", "use kill");
    GPUWARDEN_CHECK(signal_as(*user, r.pid, r.signal));
    return std::string();
  }
  Result<std::string> operator()(const DisableRequest& r) const {
    if (!rights.disable) return not_kept("disable GPUs");
    GPUWARDEN_CHECK(rights.disable({.uuid = r.gpu, .reason = r.reason, .by = r.by}));
    return std::string();
  }
  Result<std::string> operator()(const EnableRequest& r) const {
    if (!rights.enable) return not_kept("enable GPUs");
    GPUWARDEN_CHECK(rights.enable(r.gpu));
    return std::string();
  }
};

}  // namespace

std::string to_packet(const HelperRequest& request) { return std::visit(Packet(), request); }

Result<HelperRequest> parse_helper_request(std::string_view packet) {
  if (packet.size() > kLongestPacket) return refused("request");
  const Words words = split(packet, '\n');
  const auto* const verb = std::ranges::find(kVerbs, words.empty() ? "" : words[0], &Verb::name);
  if (verb == kVerbs.end() || words.size() != verb->words) return refused("request");
  return verb->read(words);
}

Result<std::string> obey(std::string_view packet, int connection, const HelperRights& rights) {
  GPUWARDEN_TRY(const HelperRequest request, parse_helper_request(packet));
  return std::visit(Obey{rights, connection}, request);
}

std::string answer_packet(const Result<std::string>& answer) {
  std::string text = answer ? fmt::format("ok\n{}", *answer)
                            : fmt::format("no\n{}\n{}\n{}", static_cast<int>(answer.error().code),
                                          printable(answer.error().message), printable(answer.error().hint));
  // The number of the request stands before it.
  text.resize(std::min(text.size(), kLongestPacket - 32));
  return text;
}

Result<std::string> parse_answer(std::string_view packet) {
  const Words words = split(packet, '\n');
  if (words.size() == 2 && words[0] == "ok") return std::string(words[1]);
  const auto code = words.size() > 1 ? parse_integer(words[1]) : std::nullopt;
  if (words.size() < 3 || !code || *code < 0 || *code > static_cast<int>(ErrorCode::failed))
    return fail(ErrorCode::corrupt, "the helper of the server answers what is no answer");
  return fail(static_cast<ErrorCode>(*code), std::string(words[2]), words.size() > 3 ? std::string(words[3]) : "");
}

}  // namespace gpuwarden::serve
