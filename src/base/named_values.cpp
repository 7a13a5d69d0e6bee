// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/named_values.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden {

std::optional<std::string> NamedValues::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.empty() ? "" : found->second.front();
}

std::vector<std::string> NamedValues::list(const std::string& name) const {
  std::vector<std::string> result;
  for (const std::string& value : all(name)) {
    for (const auto piece : split(value, ',')) result.emplace_back(trim(piece));
  }
  return result;
}

std::vector<std::string> NamedValues::all(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

void NamedValues::fall_back_to(const NamedValues& other) {
  for (const auto& [name, values] : other.values_) {
    if (!values_.try_emplace(name, values).second) continue;
    if (const auto source = other.sources_.find(name); source != other.sources_.end()) sources_.insert(*source);
  }
}

std::string NamedValues::spelled(std::string_view text) const {
  if (prefix_ == "--") return std::string(text);
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins_name = text.substr(i).starts_with("--") && (i == 0 || text[i - 1] != '-') &&
                             i + 2 < text.size() && text[i + 2] >= 'a' && text[i + 2] <= 'z';
    if (begins_name) {
      result += prefix_;
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::unexpected<Error> NamedValues::refuse(std::string_view what, std::string_view hint) const {
  return fail(ErrorCode::invalid_argument, spelled(what), spelled(hint));
}

Error NamedValues::about(std::string_view name, const Error& error) const {
  const auto source = sources_.find(std::string(name));
  const std::string given = source != sources_.end() ? source->second : fmt::format("{}{}", prefix_, name);
  return {ErrorCode::invalid_argument, fmt::format("{}: {}", given, error.message), spelled(error.hint)};
}

Result<std::optional<std::uint32_t>> count_option(const NamedValues& values, const std::string& name,
                                                  std::uint32_t most) {
  return read_option(values, name, [most](const std::string& text) { return parse_count(text, most); });
}

Result<std::optional<CountRange>> range_option(const NamedValues& values, const std::string& name, std::uint32_t most) {
  return read_option(values, name, [most](const std::string& text) { return parse_count_range(text, most); });
}

Result<std::optional<Bytes>> size_option(const NamedValues& values, const std::string& name) {
  return read_option(values, name, parse_meant_size);
}

Result<std::optional<std::chrono::milliseconds>> duration_option(const NamedValues& values, const std::string& name) {
  if (values.text(name) == "") return std::nullopt;
  return read_option(values, name, [](const std::string& text) { return parse_duration(text); });
}

Error unknown_value(std::string_view kind, std::string_view text, std::string_view hint) {
  return {ErrorCode::invalid_argument, fmt::format("unknown {} '{}'", kind, printable(text)), std::string(hint)};
}

Result<void> check_clashes(const NamedValues& values, std::span<const Clash> clashes) {
  for (const Clash& clash : clashes) {
    if (values.has(clash.one) && values.has(clash.other))
      return values.refuse(fmt::format("--{} and --{} cannot be used together", clash.one, clash.other), clash.hint);
  }
  return {};
}

}  // namespace gpuwarden
