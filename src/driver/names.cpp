// SPDX-License-Identifier: Apache-2.0
// The names of the driver room's words, as commands and JSON have them.
#include <algorithm>
#include <array>
#include <utility>

#include "driver/words.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/driver.hpp"
#include "gpuwarden/driver/run.hpp"

namespace gpuwarden::driver {

namespace {

constexpr auto kPackagings =
    std::to_array<std::pair<Packaging, std::string_view>>({{Packaging::distribution, "distribution"},
                                                           {Packaging::cuda_repository, "cuda-repository"},
                                                           {Packaging::runfile, "runfile"}});
constexpr auto kStepStates =
    std::to_array<std::pair<StepState, std::string_view>>({{StepState::pending, "pending"},
                                                           {StepState::started, "started"},
                                                           {StepState::done, "done"},
                                                           {StepState::failed, "failed"},
                                                           {StepState::undoing, "undoing"},
                                                           {StepState::undone, "undone"},
                                                           {StepState::undo_failed, "undo_failed"}});
constexpr auto kRunStates =
    std::to_array<std::pair<RunState, std::string_view>>({{RunState::in_progress, "in_progress"},
                                                          {RunState::failed, "failed"},
                                                          {RunState::waiting_for_reboot, "waiting_for_reboot"},
                                                          {RunState::rolling_back, "rolling_back"},
                                                          {RunState::completed, "completed"},
                                                          {RunState::rolled_back, "rolled_back"}});

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  const auto found = std::ranges::find(table, value, &Table::value_type::first);
  return found == table.end() ? "" : found->second;
}

template <class Value, class Table>
std::optional<Value> value_in(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Table::value_type::second);
  return found == table.end() ? std::nullopt : std::optional<Value>(found->first);
}

}  // namespace

std::string_view to_string(Packaging packaging) { return name_in(kPackagings, packaging); }
std::optional<Packaging> packaging_from(std::string_view name) { return value_in<Packaging>(kPackagings, name); }
std::string_view to_string(StepState state) { return name_in(kStepStates, state); }
std::optional<StepState> step_state_from(std::string_view name) { return value_in<StepState>(kStepStates, name); }
std::string_view to_string(RunState state) { return name_in(kRunStates, state); }
std::optional<RunState> run_state_from(std::string_view name) { return value_in<RunState>(kRunStates, name); }
bool is_over(RunState state) { return state == RunState::completed || state == RunState::rolled_back; }

std::string_view to_string(PackageManager manager) {
  switch (manager) {
    case PackageManager::apt:
      return "apt";
    case PackageManager::dnf:
      return "dnf";
    case PackageManager::zypper:
      return "zypper";
    case PackageManager::none:
      break;
  }
  return "none";
}

std::string_view to_string(PreCheck::State state) {
  switch (state) {
    case PreCheck::State::ok:
      return "ok";
    case PreCheck::State::warning:
      return "warning";
    case PreCheck::State::failed:
      return "failed";
    case PreCheck::State::unknown:
      break;
  }
  return "unknown";
}

std::string_view words_of(facts::ModuleFlavour flavour) {
  return flavour == facts::ModuleFlavour::open ? "open module" : "proprietary module";
}

std::string_view words_of(Packaging packaging) {
  switch (packaging) {
    case Packaging::distribution:
      return "the distribution's packages";
    case Packaging::cuda_repository:
      return "NVIDIA's package repository";
    case Packaging::runfile:
      return "NVIDIA's .run installer";
  }
  return "";
}

std::string version_of_runfile(const std::filesystem::path& runfile) {
  const std::string name = runfile.stem();
  for (const auto part : split(name, '-')) {
    if (part.contains('.') && part.find_first_not_of("0123456789.") == std::string_view::npos) return std::string(part);
  }
  return "";
}

}  // namespace gpuwarden::driver
