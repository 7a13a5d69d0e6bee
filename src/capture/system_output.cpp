// SPDX-License-Identifier: Apache-2.0
#include "capture/system_output.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "capture/system_lines.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

using facts::Environment;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// "Linux box 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023 x86_64 x86_64 x86_64 GNU/Linux".
bool take_uname(std::string_view line, Environment& environment) {
  if (!line.starts_with("Linux ")) return false;
  const auto words = split_words(line);
  if (words.size() < 6 || !begins_with_digit(words[2]) || !words[3].starts_with('#')) return false;
  if (!words[2].contains('.')) return false;
  keep(environment.host.kernel, words[2]);
  if (!environment.host.wsl) environment.host.wsl = contains_ignoring_case(words[2], "microsoft") ? 2 : 0;
  for (const std::string_view machine : {"x86_64", "aarch64", "ppc64le"}) {
    if (std::ranges::find(words, machine) != words.end()) keep(environment.host.machine, machine);
  }
  return true;
}

struct ReleaseKey {
  std::string_view key;
  std::optional<std::string> facts::Host::* field;
};

/// source: os-release(5)
constexpr auto kReleaseKeys = std::to_array<ReleaseKey>({{"ID=", &facts::Host::distribution},
                                                         {"VERSION_ID=", &facts::Host::distribution_version},
                                                         {"PRETTY_NAME=", &facts::Host::distribution_name}});

bool take_release(std::string_view line, Environment& environment) {
  for (const auto& [key, field] : kReleaseKeys) {
    if (!line.starts_with(key)) continue;
    const std::string_view value = unquoted(line.substr(key.size()));
    // ID and VERSION_ID are single words; another program's ID=... is mostly none of a distribution.
    if (key != "PRETTY_NAME=" && (value.contains(' ') || value.size() > 24)) return false;
    keep(environment.host.*field, value);
    return true;
  }
  return false;
}

bool take_lsb_release(std::string_view line, Environment& environment) {
  if (const auto name = value_of(line, "Distributor ID")) {
    keep(environment.host.distribution, to_lower(*name));
    return true;
  }
  const auto release = value_of(line, "Release");
  if (!release || !begins_with_digit(*release) || release->contains(' ')) return false;
  keep(environment.host.distribution_version, *release);
  return true;
}

/// Of lscpu, whose labels stand at the left edge.
bool take_processor(std::string_view line, Environment& environment) {
  facts::Host& host = environment.host;
  if (const auto machine = value_of(line, "Architecture")) {
    if (*machine != "x86_64" && *machine != "aarch64" && *machine != "ppc64le") return false;
    keep(host.machine, *machine);
    return true;
  }
  if (const auto model = value_of(line, "Model name"); model && line.contains("  ")) {
    keep(host.cpu_model, *model);
    return true;
  }
  constexpr auto kCounts = std::to_array<std::pair<std::string_view, std::optional<int> facts::Host::*>>(
      {{"CPU(s)", &facts::Host::cpus},
       {"Socket(s)", &facts::Host::sockets},
       {"NUMA node(s)", &facts::Host::numa_nodes}});
  for (const auto& [label, field] : kCounts) {
    const auto value = value_of(line, label);
    const auto number = value ? parse_integer(*value) : std::nullopt;
    if (!number || *number < 1 || *number > 100'000) continue;
    if (!(host.*field)) host.*field = static_cast<int>(*number);
    return true;
  }
  return false;
}

/// Of mokutil --sb-state.
bool take_secure_boot(std::string_view line, Environment& environment) {
  if (line != "SecureBoot enabled" && line != "SecureBoot disabled") return false;
  environment.host.secure_boot = line.ends_with("enabled");
  return true;
}

/// Of dkms status: "nvidia/580.119.02, 6.18.48-amd64, x86_64: installed", "nvidia-current, 535.183.01, 6.1.0-20-amd64,
/// x86_64: built"; "added" has no kernel.
bool take_dkms(std::string_view line, Environment& environment) {
  const std::size_t colon = line.rfind(": ");
  if (!line.starts_with("nvidia") || colon == std::string_view::npos) return false;
  const std::string_view state = split_words(line.substr(colon + 1)).empty() ? "" : split_words(line.substr(colon))[1];
  if (state != "installed" && state != "built" && state != "added") return false;
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(line.substr(0, colon), ',')) parts.push_back(trim(part));
  const std::size_t slash = parts[0].find('/');
  const bool old = slash == std::string_view::npos;
  if (old && parts.size() < 2) return false;
  const std::string_view version = old ? parts[1] : parts[0].substr(slash + 1);
  if (!begins_with_digit(version)) return false;
  keep(environment.driver.dkms_version, version);
  const std::size_t kernel = old ? 2 : 1;
  auto& built = environment.driver.dkms_built_for;
  constexpr std::size_t kMost = 100;
  if (state != "added" && kernel < parts.size() && built.size() < kMost) built.push_back(printable(parts[kernel]));
  return true;
}

/// "nvidia_uvm           1527808  2 nvidia": module, size, users.
bool take_module(std::string_view line, Environment& environment) {
  constexpr auto kModules = std::to_array<std::string_view>({"nvidia", "nouveau", "gdrdrv", "nv_peer_mem", "amdgpu"});
  if (std::ranges::none_of(kModules, [&](auto module) { return line.starts_with(module); })) return false;
  const auto words = split_words(line);
  if (words.size() < 3 || words.size() > 4 || !is_number(words[1]) || words[1].size() < 3) return false;
  if (!is_number(words[2].starts_with('-') ? words[2].substr(1) : words[2])) return false;
  auto& modules = environment.driver.loaded_modules;
  constexpr std::size_t kMost = 100;
  if (modules.size() < kMost && std::ranges::find(modules, words[0]) == modules.end())
    modules.push_back(printable(words[0]));
  return true;
}

/// "ldd (Ubuntu GLIBC 2.35-0ubuntu3.6) 2.35", "ldd (GNU libc) 2.28".
bool take_libc(std::string_view line, Environment& environment) {
  if (!line.starts_with("ldd (")) return false;
  const auto words = split_words(line);
  if (words.size() < 3 || !begins_with_digit(words.back())) return false;
  keep(environment.host.libc, words.back());
  return true;
}

/// "max locked memory       (kbytes, -l) unlimited", of ulimit -a.
bool take_limit(std::string_view line, Environment& environment) {
  const bool locked = line.starts_with("max locked memory");
  if (!locked && !line.starts_with("open files ")) return false;
  const auto words = split_words(line);
  if (!line.contains("-l)") && !line.contains("-n)")) return false;
  const auto number = parse_integer(words.back());
  if (words.back() == "unlimited" && locked) environment.host.memlock_limit = Bytes{~std::uint64_t{0}};
  if (!number || *number < 0 || *number > (std::int64_t{1} << 50U)) return true;
  if (locked)
    environment.host.memlock_limit = Bytes{static_cast<std::uint64_t>(*number) * 1024};
  else
    environment.host.open_files_limit = static_cast<std::uint64_t>(*number);
  return true;
}

/// Of "/opt/lib:$LD_LIBRARY_PATH" the folders that are known here.
std::string known_folders(std::string_view value) {
  std::vector<std::string> folders;
  for (const std::string_view folder : split(value, ':')) {
    if (!folder.empty() && !folder.contains('$')) folders.emplace_back(folder);
  }
  return join(folders, ":");
}

/// NAME=value alone, and "export NAME=value". With a command behind the value it is that command's alone.
bool take_variable(std::string_view line, Environment& environment) {
  if (line.starts_with("$ ")) line.remove_prefix(2);
  if (line.starts_with("export ")) line = trim(line.substr(7));
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos || equals == 0 || line.substr(equals).starts_with("==")) return false;
  const std::string_view name = line.substr(0, equals);
  if (!facts::is_gathered_variable(name)) return false;
  const std::string_view written = line.substr(equals + 1);
  const bool quoted = unquoted(written).size() < written.size();
  std::string value(unquoted(written));
  if (value.contains(' ') && !quoted) return false;
  if (name == "LD_LIBRARY_PATH" || name == "LD_PRELOAD") value = known_folders(value);
  // What the shell would have to work out is not known here.
  if (value.contains('$') || value.contains('`')) return false;
  constexpr std::size_t kMost = 1000;  // more are a hostile file's
  if (environment.variables.size() < kMost && facts::find_variable(environment, name) == nullptr)
    environment.variables.push_back({printable(name), printable(value)});
  return true;
}

/// modinfo nvidia: its file comes first, then one label a line.
class Modinfo {
 public:
  bool take(std::string_view line, Environment& environment) {
    if (const auto file = value_of(line, "filename")) {
      const std::string_view name = file->substr(file->rfind('/') + 1);
      inside_ = name == "nvidia.ko" || name.starts_with("nvidia.ko.") || name == "nvidia-current.ko";
      return inside_;
    }
    if (!inside_) return false;
    facts::KernelDriver& driver = environment.driver;
    if (const auto version = value_of(line, "version"); version && begins_with_digit(*version))
      keep(driver.on_disk_version, *version);
    if (const auto signer = value_of(line, "signer")) keep(driver.signer, *signer);
    if (const auto licence = value_of(line, "license"); licence && !driver.flavour)
      driver.flavour = licence->contains("GPL") ? facts::ModuleFlavour::open : facts::ModuleFlavour::proprietary;
    if (line.empty()) inside_ = false;
    return true;
  }

 private:
  bool inside_ = false;
};

/// The kernel's release below "uname -r" ("6.11.0-17-generic"), which alone could be anything.
bool take_bare_release(std::string_view before, std::string_view line, Environment& environment) {
  if (!before.ends_with("uname -r") || line.contains(' ') || !begins_with_digit(line)) return false;
  if (std::ranges::count(line, '.') < 1 || !line.contains('-')) return false;
  keep(environment.host.kernel, line);
  return true;
}

}  // namespace

std::uint32_t read_system_output(std::span<const Line> lines, Environment& environment) {
  constexpr auto kTakers = std::to_array<bool (*)(std::string_view, Environment&)>(
      {take_uname, take_release, take_lsb_release, take_processor, take_secure_boot, take_dkms, take_module, take_libc,
       take_limit, take_software, take_variable});
  Modinfo modinfo;
  ServiceStatus status;
  std::uint32_t first = 0;
  std::string_view before;
  for (const Line& line : lines) {
    // What was cut may go on.
    if (!line.ended) continue;
    const std::string_view text = trim(line.text);
    const bool taken = take_bare_release(std::exchange(before, text), text, environment) ||
                       modinfo.take(text, environment) || status.take(text, environment) ||
                       std::ranges::any_of(kTakers, [&](auto take) { return take(text, environment); });
    if (taken && first == 0) first = line.number;
  }
  return first;
}

}  // namespace gpuwarden::capture
