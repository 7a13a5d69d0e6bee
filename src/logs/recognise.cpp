// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/recognise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"
#include "gpuwarden/logs/findings.hpp"

namespace gpuwarden::logs {

namespace {

/// Whether it is Windows by nvidia-smi's driver model alone, which WSL may show as well.
bool is_by_driver_model(const facts::Snapshot& machine, const facts::Host& told) {
  return machine.source == "nvidia-smi" && told == facts::Host{.distribution = std::string(knowledge::kWindows)};
}

}  // namespace

void take_platform(knowledge::Platform platform, facts::Snapshot& machine) {
  using knowledge::Platform;
  const facts::Host told = machine.environment ? machine.environment->host : facts::Host{};
  const bool told_for_sure = (told.kernel || told.distribution || told.wsl) && !is_by_driver_model(machine, told);
  if (platform == Platform::linux_own || told_for_sure) return;
  if (!machine.environment) machine.environment.emplace();
  facts::Host& host = machine.environment->host;
  host.distribution.reset();
  if (platform == Platform::wsl)
    host.wsl = 2;
  else
    host.distribution = platform == Platform::macos ? knowledge::kMacos : knowledge::kWindows;
}

Recognised recognise(std::string_view text, const std::string& name) {
  auto capture = capture::read_capture(text, name);
  const diagnosis::Diagnosis diagnosis =
      diagnosis::diagnose(diagnosis::read_log(text, name), nullptr, capture ? &capture->snapshot : nullptr);
  Recognised result{.facts = {}, .unread = {}, .told = findings_of(diagnosis)};
  if (capture) {
    result.facts = std::move(*capture);
    take_platform(diagnosis.platform, result.facts->snapshot);
  } else {
    result.unread = std::move(capture.error());
  }
  return result;
}

Result<RecognisedTexts> recognise_all(std::span<const capture::NamedText> texts) {
  RecognisedTexts all;
  std::optional<Error> unread;
  for (const capture::NamedText& file : texts) {
    Recognised known = recognise(file.text, file.name);
    if (known.facts && all.facts.parts.empty())
      all.facts = std::move(*known.facts);
    else if (known.facts)
      capture::add_capture(all.facts, std::move(*known.facts));
    else if (known.told.empty())
      unread = std::move(known.unread);
    std::ranges::move(known.told, std::back_inserter(all.told));
  }
  if (unread) return std::unexpected(std::move(*unread));
  if (all.facts.parts.empty() && !texts.empty()) all.facts.snapshot.origin = texts.front().name + ": a log";
  return all;
}

Error without_facts(std::string_view text, const std::string& name) {
  Recognised known = recognise(text, name);
  Error unread = known.unread.value_or(Error{ErrorCode::corrupt, name + ": no facts of a machine", ""});
  if (known.told.empty()) return unread;
  const std::string file = name == "standard input" ? "-" : shell_word(name);
  return {ErrorCode::corrupt,
          fmt::format("{}: a log of a failure, without facts of a machine: {}", printable(name),
                      known.told.front().finding.title),
          fmt::format("gpuwarden diagnose {} says what to do", file)};
}

}  // namespace gpuwarden::logs
