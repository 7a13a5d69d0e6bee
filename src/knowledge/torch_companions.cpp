// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/torch_companions.hpp"

#include <algorithm>
#include <iterator>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr TorchCompanion kCompanions[] = {
#include "knowledge/torch_companions.inc"
};

std::string_view without_local(std::string_view version) { return version.substr(0, version.find('+')); }

/// "0.20" speaks of 0.20.1, "0.0.28" not of 0.0.28.post1, which is made for another PyTorch.
bool speaks_of(const TorchCompanion& row, std::string_view version) {
  if (!version.starts_with(row.version)) return false;
  const std::string_view rest = version.substr(row.version.size());
  return rest.empty() || (rest.starts_with('.') && rest.find_first_not_of(".0123456789") == std::string_view::npos);
}

std::string_view digits_at(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

/// 2.6 of "26", 2.10 of "210", 1.13 of "113".
std::optional<Version> torch_of_digits(std::string_view digits) {
  const auto minor = digits.size() < 2 ? std::nullopt : parse_integer(digits.substr(1));
  return minor ? std::optional(Version{digits.front() - '0', static_cast<int>(*minor)}) : std::nullopt;
}

}  // namespace

std::span<const TorchCompanion> torch_companions() { return kCompanions; }

const TorchCompanion* torch_companion(std::string_view package, std::string_view version) {
  const auto* const found = std::ranges::find_if(kCompanions, [&](const TorchCompanion& row) {
    return row.package == package && speaks_of(row, without_local(version));
  });
  return found == std::end(kCompanions) ? nullptr : found;
}

bool is_torch_companion(std::string_view package) {
  return std::ranges::find(kCompanions, package, &TorchCompanion::package) != std::end(kCompanions);
}

bool goes_with(const TorchCompanion& companion, const Version& torch) {
  const Version wanted = Version::parse(companion.torch).value_or(Version{});
  if (companion.or_newer) return torch >= wanted;
  const bool exact = std::ranges::count(companion.torch, '.') == 2;
  return exact ? wanted == torch : release_of(wanted) == release_of(torch);
}

std::vector<const TorchCompanion*> companions_of(const Version& torch) {
  std::vector<const TorchCompanion*> result;
  for (const TorchCompanion& row : kCompanions) {
    if (!goes_with(row, torch)) continue;
    if (!result.empty() && result.back()->package == row.package) result.pop_back();
    result.push_back(&row);
  }
  return result;
}

BuiltFor built_for(std::string_view version) {
  BuiltFor built;
  const std::size_t plus = version.find('+');
  if (plus == std::string_view::npos) return built;
  const std::string local = to_lower(version.substr(plus + 1));
  const auto behind = [&](std::string_view word) {
    const std::size_t at = local.find(word);
    return at == std::string::npos ? std::string_view() : std::string_view(local).substr(at + word.size());
  };
  if (const auto cuda = digits_at(behind("cu")); !cuda.empty()) built.cuda = "cu" + std::string(cuda);
  built.torch = Version::parse(behind("torch"));
  if (!built.torch) built.torch = torch_of_digits(digits_at(behind("pt")));
  return built;
}

bool is_same_cuda(std::string_view build, std::string_view other) {
  return build.starts_with(other) || other.starts_with(build);
}

}  // namespace gpuwarden::knowledge
