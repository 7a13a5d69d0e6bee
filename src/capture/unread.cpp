// SPDX-License-Identifier: Apache-2.0
#include "capture/unread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/compression.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

struct Signature {
  std::string_view begins;
  std::string_view what;
};

constexpr auto kSignatures = std::to_array<Signature>({{"\x7f"
                                                        "ELF",
                                                        "a program"},
                                                       {"PK\x03\x04", "a ZIP archive"},
                                                       {"\x89PNG", "a picture"},
                                                       {"\xff\xd8\xff", "a picture"},
                                                       {"%PDF", "a PDF"}});

/// Control characters that no text has, in its first part.
bool is_binary(std::string_view text) {
  constexpr std::size_t kLooked = 4096;
  const std::string_view head = text.substr(0, kLooked);
  const auto odd = std::ranges::count_if(head, [](unsigned char c) {
    return c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\033' && c != '\f' && c != '\b';
  });
  return odd > 0 && static_cast<std::size_t>(odd) * 50 > head.size();
}

/// '{', or '[' before what a list holds: "[2025-10-20 07:33:15]" and "[INFO]" begin logs.
bool begins_as_json(std::string_view body) {
  if (body.front() == '{') return true;
  const std::string_view rest = body.front() == '[' ? trim(body.substr(1)) : std::string_view();
  return !rest.empty() && std::string_view("{[\"]").contains(rest.front());
}

std::string describe_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return "it begins as JSON, but is cut or damaged";
  return "it is JSON, but not of gpuwarden snapshot, rocm-smi, amd-smi or xpu-smi";
}

std::string describe_xml(std::string_view text) {
  if (text.contains("nvidia_smi_log") || text.contains("nvsmi_device"))
    return "it begins as nvidia-smi's XML, but is cut before the first value";
  return "it is XML or HTML, but not of nvidia-smi -q -x";
}

}  // namespace

std::string describe_unread(std::string_view text) {
  const std::string_view body = trim(text);
  if (body.empty()) return "it is empty";
  for (const Signature& signature : kSignatures) {
    if (text.starts_with(signature.begins)) return fmt::format("it is {}", signature.what);
  }
  if (const auto packed = compression_of(text); !packed.empty()) return fmt::format("it is compressed with {}", packed);
  if (is_binary(text)) return "it is binary";
  if (body.front() == '<') return describe_xml(body);
  if (begins_as_json(body)) return describe_json(body);
  const auto lines = std::ranges::count(body, '\n') + 1;
  return fmt::format("{} of text, nothing in it is output of nvidia-smi or another tool known here",
                     lines == 1 ? "a line" : fmt::format("{} lines", lines));
}

}  // namespace gpuwarden::capture
