// SPDX-License-Identifier: Apache-2.0
// A request's target from anywhere: it is taken apart or refused, and what comes out has nothing in it that a path or a
// header must not have.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gpuwarden/serve/access.hpp"
#include "gpuwarden/serve/http.hpp"

namespace {

bool is_clean(const std::string& text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden::serve;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto target = parse_target(text)) {
    if (!target->path.starts_with('/') || !is_clean(target->path)) std::abort();
    if (target->path.find("/../") != std::string::npos || target->path.ends_with("/..")) std::abort();
    for (const auto& [name, value] : target->query) {
      if (!is_clean(name) || !is_clean(value)) std::abort();
    }
  }
  const Access near{.address = {.host = "127.0.0.1", .port = 1, .loopback = true}};
  if (host_is_own(text, near) && text.find("evil") != std::string::npos) std::abort();
  const std::chrono::system_clock::time_point now(std::chrono::seconds(1'700'000'000));
  if (const auto moment = parse_moment(text, now); moment && *moment > now + std::chrono::hours(24 * 365 * 100))
    std::abort();
  if (const auto address = parse_address(text); address && !parse_address(to_string(*address))) std::abort();
  return 0;
}
