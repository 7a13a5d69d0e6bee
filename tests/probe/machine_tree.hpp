// SPDX-License-Identifier: Apache-2.0
// A machine made of files, to be surveyed as another root.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <string>

#include "gpuwarden/probe/survey.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {

class MachineTree {
 public:
  std::filesystem::path at(const std::string& path) const { return dir_.path() / path.substr(1); }
  void file(const std::string& path, std::string_view content = "") const { put(at(path), content); }
  void folder(const std::string& path) const { std::filesystem::create_directories(at(path)); }
  void program(const std::string& path, std::string_view content = "#!/bin/sh\n") const {
    file(path, content);
    std::filesystem::permissions(at(path), std::filesystem::perms::owner_all);
  }
  /// A link whose target is written as it is.
  void link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories(at(path).parent_path());
    std::filesystem::create_symlink(target, at(path));
  }
  void fifo(const std::string& path) const {
    std::filesystem::create_directories(at(path).parent_path());
    ASSERT_EQ(::mkfifo(at(path).c_str(), 0600), 0);
  }
  /// A package that pip has installed.
  void pip(const std::string& site, const std::string& name, const std::string& version) const {
    file(site + "/" + name + "-" + version + ".dist-info/METADATA", "Name: " + name + "\nVersion: " + version + "\n");
  }

  facts::Environment survey(Environment variables = {}, const std::string& here = "/root") const {
    return probe::survey(
        {.root = dir_.path(), .variables = std::move(variables), .working_directory = here, .deadline = kSoon});
  }
  const std::filesystem::path& root() const { return dir_.path(); }

 private:
  TempDir dir_;
};

}  // namespace gpuwarden::testing
