// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/activation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::toolkits {

namespace {

using facts::Toolkit;

constexpr const char* kToolkit = "GPUWARDEN_ENV_TOOLKIT";

struct Managed {
  const char* name;
  bool list;  ///< folders between colons
};
constexpr auto kManaged =
    std::to_array<Managed>({{"CUDA_HOME", false}, {"CUDA_PATH", false}, {"PATH", true}, {"LD_LIBRARY_PATH", true}});

/// What a variable was before, and what it was set to.
std::string old_name(const Managed& variable) { return fmt::format("GPUWARDEN_ENV_OLD_{}", variable.name); }
std::string new_name(const Managed& variable) { return fmt::format("GPUWARDEN_ENV_NEW_{}", variable.name); }

std::optional<std::string> value_of(const Environment& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::nullopt : std::optional(found->second);
}

void set(Environment& variables, const std::string& name, const std::optional<std::string>& value) {
  if (value)
    variables[name] = *value;
  else
    variables.erase(name);
}

/// "/a/" and "/a" are one folder; "/" stays.
std::string_view plain(std::string_view folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  return folder;
}

bool holds(const std::vector<std::string>& folders, std::string_view folder) {
  return std::ranges::any_of(folders, [&](const std::string& one) { return plain(one) == plain(folder); });
}

/// The folders of a list, each once; an empty one means the current folder and stays. No list: none.
std::vector<std::string> folders_in(const std::optional<std::string>& list) {
  std::vector<std::string> folders;
  if (!list || list->empty()) return folders;
  for (const auto folder : split(*list, ':')) {
    if (!holds(folders, folder)) folders.emplace_back(folder);
  }
  return folders;
}

/// What the list becomes without what was set: exactly the old one where nobody has changed it since, else the present
/// one less what came in, and with what went out at its end.
std::optional<std::string> restored_list(const std::optional<std::string>& now,
                                         const std::optional<std::string>& set_to,
                                         const std::optional<std::string>& before) {
  if (now == set_to) return before;
  const auto was = folders_in(before);
  const auto became = folders_in(set_to);
  auto folders = folders_in(now);
  std::erase_if(folders, [&](const std::string& folder) { return holds(became, folder) && !holds(was, folder); });
  for (const std::string& folder : was) {
    if (!holds(became, folder) && !holds(folders, folder)) folders.push_back(folder);
  }
  if (folders.empty() && !before) return std::nullopt;
  return join(folders, ":");
}

/// The environment as if activate() had never been called.
Environment restored(const Environment& variables) {
  Environment result = variables;
  for (const Managed& variable : kManaged) {
    const auto set_to = value_of(variables, new_name(variable));
    if (!set_to) continue;
    const auto now = value_of(variables, variable.name);
    const auto before = value_of(variables, old_name(variable));
    if (variable.list)
      set(result, variable.name, restored_list(now, set_to, before));
    else if (now == set_to)
      set(result, variable.name, before);
    result.erase(new_name(variable));
    result.erase(old_name(variable));
  }
  result.erase(kToolkit);
  return result;
}

/// From one environment to another, in the order in which people read it: first what counts, then what is kept.
std::vector<Change> changes_between(const Environment& from, const Environment& to, bool all_managed) {
  std::vector<Change> changes;
  const auto add = [&](const std::string& name, bool always) {
    const auto before = value_of(from, name);
    const auto after = value_of(to, name);
    if (before != after || (always && after)) changes.push_back({name, after});
  };
  for (const Managed& variable : kManaged) add(variable.name, all_managed);
  add(kToolkit, all_managed);
  for (const Managed& variable : kManaged) {
    add(old_name(variable), all_managed);
    add(new_name(variable), all_managed);
  }
  return changes;
}

bool is_of_system(std::string_view folder) {
  static constexpr auto kFolders = std::to_array<std::string_view>(
      {"/bin", "/usr/bin", "/usr/local/bin", "/usr/lib", "/usr/lib64", "/lib", "/usr/local/lib"});
  return std::ranges::find(kFolders, plain(folder)) != kFolders.end();
}

/// `first`, then what was there, without `out`.
std::optional<std::string> in_front(const std::vector<std::string>& first, const std::vector<std::string>& out,
                                    const std::optional<std::string>& list) {
  std::vector<std::string> folders = first;
  for (const std::string& folder : folders_in(list)) {
    if (!holds(folders, folder) && !holds(out, folder)) folders.push_back(folder);
  }
  if (folders.empty() && !list) return std::nullopt;
  return join(folders, ":");
}

}  // namespace

ToolkitFolders folders_of(const Toolkit& toolkit) {
  ToolkitFolders folders{toolkit.path, {}, {}};
  std::string programs = toolkit.path + "/bin";
  if (toolkit.nvcc) programs = toolkit.nvcc->substr(0, toolkit.nvcc->rfind('/'));
  if (!is_of_system(programs)) folders.programs.push_back(programs);
  if (toolkit.libraries && !is_of_system(*toolkit.libraries)) folders.libraries.push_back(*toolkit.libraries);
  return folders;
}

std::vector<Change> deactivate(const Environment& variables) {
  return changes_between(variables, restored(variables), false);
}

std::vector<Change> activate(const Toolkit& toolkit, std::span<const Toolkit> installed, const Environment& variables) {
  const ToolkitFolders folders = folders_of(toolkit);
  ToolkitFolders others;
  if (folders.programs.empty()) {
    for (const Toolkit& other : installed) {
      if (other.path == toolkit.path) continue;
      const ToolkitFolders its = folders_of(other);
      others.programs.insert(others.programs.end(), its.programs.begin(), its.programs.end());
      others.libraries.insert(others.libraries.end(), its.libraries.begin(), its.libraries.end());
    }
  }
  const Environment before = restored(variables);
  Environment after = before;
  after["CUDA_HOME"] = folders.home;
  after["CUDA_PATH"] = folders.home;
  set(after, "PATH", in_front(folders.programs, others.programs, value_of(before, "PATH")));
  set(after, "LD_LIBRARY_PATH", in_front(folders.libraries, others.libraries, value_of(before, "LD_LIBRARY_PATH")));
  for (const Managed& variable : kManaged) {
    set(after, old_name(variable), value_of(before, variable.name));
    set(after, new_name(variable), value_of(after, variable.name));
  }
  after[kToolkit] = toolkit.path;
  return changes_between(variables, after, true);
}

std::string activated(const Environment& variables) { return value_of(variables, kToolkit).value_or(""); }

}  // namespace gpuwarden::toolkits
