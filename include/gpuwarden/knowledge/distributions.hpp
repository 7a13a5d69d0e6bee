// SPDX-License-Identifier: Apache-2.0
// The distributions that NVIDIA packages drivers for, and the folders of its repositories. From
// knowledge/distributions.csv.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

struct Distribution {
  std::string_view id;        ///< of os-release
  std::string_view manager;   ///< apt, dnf, zypper or tdnf
  bool whole_number = false;  ///< of the release in a folder's name: all of it without dots, else the major number
  Version oldest;             ///< release that NVIDIA's current drivers are packaged for; 0: not known
  std::string_view oldest_name;
  Version newest;            ///< release that is known
  std::string_view example;  ///< a release that is served today
  std::string_view folders;  ///< "rhel8 rhel9 rhel10": of developer.download.nvidia.com/compute/cuda/repos
  std::string_view source;
  std::string_view as_of;  ///< "2026-11"
};

std::span<const Distribution> distributions();
/// nullptr where it is none of them.
const Distribution* find_distribution(std::string_view id);
/// "suse16" for release 16 of SLES: of the table, else as the newest one is named; "" where `release` is no number.
std::string repository_folder(const Distribution& distribution, std::string_view release);

}  // namespace gpuwarden::knowledge
