// SPDX-License-Identifier: Apache-2.0
// The software of a system in its tools' lines: dpkg -l, gcc --version, docker info, systemctl status.
#include <algorithm>
#include <array>
#include <cctype>

#include "capture/system_lines.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

using facts::Environment;

/// "ii  nvidia-driver-535   535.183.01-0ubuntu1  amd64  NVIDIA driver metapackage".
bool take_package(std::string_view line, Environment& environment) {
  if (!line.starts_with("ii ")) return false;
  const auto words = split_words(line);
  if (words.size() < 4 || !begins_with_digit(words[2])) return false;
  const std::string_view name = words[1].substr(0, words[1].find(':'));
  if (name.starts_with("nvidia-driver") && !name.contains("-libs"))
    keep(environment.driver.package, std::string(name) + " " + std::string(words[2]));
  if (name == "nvidia-container-toolkit") keep(environment.containers.toolkit_version, words[2]);
  constexpr auto kBeginnings = std::to_array<std::string_view>(
      {"nvidia-", "libnvidia-", "cuda", "libcu", "libnccl", "libnv", "linux-modules-nvidia"});
  return std::ranges::any_of(kBeginnings, [&](auto beginning) { return name.starts_with(beginning); });
}

/// "12.2.0" of "gcc (Debian 12.2.0-14) 12.2.0 20220819": the first number behind the bracket.
std::string_view gnu_version(std::string_view line) {
  const std::size_t close = line.find(") ");
  return close == std::string_view::npos ? std::string_view() : split_words(line.substr(close + 1))[0];
}

/// "14.0.0" of "Ubuntu clang version 14.0.0-1ubuntu1".
std::string_view clang_version(std::string_view line) {
  const std::size_t at = line.find("clang version ");
  const auto words = split_words(line.substr(at + 14));
  // A distribution's name may stand before it, a sentence may not.
  const bool sentence = split_words(line.substr(0, at)).size() > 1;
  return words.empty() || sentence ? std::string_view() : words[0].substr(0, words[0].find('-'));
}

bool take_compiler(std::string_view line, Environment& environment) {
  std::string_view name;
  std::string_view version;
  if (line.starts_with("gcc (") || line.starts_with("g++ (")) {
    name = line.substr(0, 3);
    version = gnu_version(line);
  } else if (line.contains("clang version ")) {
    name = "clang";
    version = clang_version(line);
  }
  if (!begins_with_digit(version) || !version.contains('.')) return false;
  auto& compilers = environment.compilers;
  const bool known = std::ranges::find(compilers, name, &facts::Compiler::name) != compilers.end();
  if (!known) compilers.push_back({std::string(name), printable(version), ""});
  return true;
}

/// "Docker version 26.1.0, build 9714adc", "NVIDIA Container Toolkit CLI version 1.14.3".
bool take_engine(std::string_view line, Environment& environment) {
  constexpr std::string_view kDocker = "Docker version ";
  constexpr std::string_view kToolkit = "NVIDIA Container Toolkit CLI version ";
  const bool docker = line.starts_with(kDocker);
  if (!docker && !line.starts_with(kToolkit)) return false;
  const std::string_view rest = line.substr(docker ? kDocker.size() : kToolkit.size());
  const std::string version = printable(rest.substr(0, rest.find_first_of(", ")));
  if (!begins_with_digit(version)) return false;
  auto& engines = environment.containers.engines;
  if (!docker) keep(environment.containers.toolkit_version, version);
  const std::string engine = "docker " + version;
  constexpr std::size_t kMost = 20;
  if (docker && engines.size() < kMost && std::ranges::find(engines, engine) == engines.end())
    engines.push_back(engine);
  return true;
}

/// Of docker info: " Runtimes: io.containerd.runc.v2 nvidia runc", " Default Runtime: runc".
bool take_docker(std::string_view line, Environment& environment) {
  if (const auto runtime = value_of(line, "Default Runtime")) {
    keep(environment.containers.default_runtime, *runtime);
    return true;
  }
  const auto runtimes = value_of(line, "Runtimes");
  if (!runtimes || !runtimes->contains("runc") || !environment.containers.runtimes.empty()) return false;
  for (const std::string_view name : split_words(*runtimes)) environment.containers.runtimes.push_back(printable(name));
  return true;
}

}  // namespace

bool begins_with_digit(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
}

std::optional<std::string_view> value_of(std::string_view line, std::string_view label) {
  if (!line.starts_with(label)) return std::nullopt;
  const std::string_view rest = trim(line.substr(label.size()));
  return rest.starts_with(':') ? std::optional(trim(rest.substr(1))) : std::nullopt;
}

void keep(std::optional<std::string>& field, std::string_view value) {
  if (!field && !value.empty()) field = printable(value);
}

bool take_software(std::string_view line, Environment& environment) {
  return take_package(line, environment) || take_compiler(line, environment) || take_engine(line, environment) ||
         take_docker(line, environment);
}

bool ServiceStatus::take(std::string_view line, facts::Environment& environment) {
  if (line.empty() || (name_.empty() && !line.contains(".service"))) return false;
  const auto words = split_words(line);
  const auto unit = std::ranges::find_if(words, [](std::string_view word) { return word.ends_with(".service"); });
  if (unit != words.end() && unit - words.begin() <= 1 && words.end() - unit >= 2 && *(unit + 1) == "-") {
    name_ = unit->substr(0, unit->size() - 8);
    return true;
  }
  const auto active = name_.empty() ? std::nullopt : value_of(line, "Active");
  if (!active) return false;
  const bool known = facts::find_service(environment, name_) != nullptr;
  const std::string_view state = active->starts_with("active (running)")  ? "running"
                                 : active->starts_with("failed")          ? "failed"
                                 : active->starts_with("inactive (dead)") ? "stopped"
                                                                          : "";
  constexpr std::size_t kMost = 500;
  if (!known && !state.empty() && environment.services.size() < kMost)
    environment.services.push_back({printable(name_), std::string(state), std::nullopt});
  name_.clear();
  return true;
}

}  // namespace gpuwarden::capture
