// SPDX-License-Identifier: Apache-2.0
// Redaction on any bytes: a known secret is gone whatever stands around it, and texts do not grow without bounds.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gpuwarden/redact/redact.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden::redact;
  const std::string secret = "Zq8vN2kLr5Tx";
  const std::string_view given(reinterpret_cast<const char*>(data), size);
  const std::string text = std::string(given) + secret + std::string(given.substr(given.size() / 2));
  const Redacted result = redact_secrets(text, std::span(&secret, 1));
  if (result.text.contains(secret)) std::abort();
  const Identities names{
      .users = {"jane"}, .hosts = {"node7.lab.example"}, .uuids = {"GPU-5fd4a1c2-3b7e-4c1d-9e8f-0123456789ab"}};
  Redactor redactor({secret}, &names);
  redactor.learn(text);
  Removals removed;
  const std::string anonymous = redactor.redact(text, removed);
  if (anonymous.contains(secret)) std::abort();
  std::size_t count = 0;
  for (const auto& [kind, number] : removed) count += number;
  if (anonymous.size() > text.size() + count * 64) std::abort();
  return 0;
}
