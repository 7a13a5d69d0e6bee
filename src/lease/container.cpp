// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/lease/lease_store.hpp"

namespace gpuwarden::lease {

std::optional<std::string> container_warning(const std::filesystem::path& lease_directory) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string init_groups = read_file("/proc/1/cgroup").value_or("");
  const bool named = init_groups.contains("docker") || init_groups.contains("kubepods") || init_groups.contains("lxc");
  const bool container = named || fs::exists("/.dockerenv", ignored) || fs::exists("/run/.containerenv", ignored);
  if (!container) return std::nullopt;
  struct stat own{};
  struct stat parent{};
  const bool readable =
      ::stat(lease_directory.c_str(), &own) == 0 && ::stat(lease_directory.parent_path().c_str(), &parent) == 0;
  if (readable && own.st_dev != parent.st_dev) return std::nullopt;  // mounted from outside
  return fmt::format(
      "not reserved against other containers: this container has a lease directory of its own (mount the host's: "
      "-v {0}:{0})",
      lease_directory.string());
}

}  // namespace gpuwarden::lease
