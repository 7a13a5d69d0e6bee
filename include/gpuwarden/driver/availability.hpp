// SPDX-License-Identifier: Apache-2.0
// Whether a package repository has the driver that a plan wants: asked over the network, or of the machine's own apt.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

/// A version of a package that a repository has.
struct OfferedPackage {
  std::string name;
  std::string version;  ///< "580.95.05", without the packaging's own revision
  bool operator==(const OfferedPackage&) const = default;
};

/// Reads an apt index: stanzas with Package and Version.
std::vector<OfferedPackage> read_apt_index(std::string_view text);
/// Reads the names of .rpm files in a listing of a folder: "nvidia-open-580.95.05-1.el9.noarch.rpm".
std::vector<OfferedPackage> read_rpm_listing(std::string_view text);
/// Reads what `apt-cache madison NAME...` prints.
std::vector<OfferedPackage> read_madison(std::string_view text);

/// How a repository is asked.
struct AskRepository {
  bool offline = false;
  std::string base;  ///< in place of NVIDIA's repositories, a mirror with their folders; empty: NVIDIA's own
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
};

/// Of "mirror" (a URL) and "offline", and GPUWARDEN_OFFLINE of the environment, which a mirror that is named overrides.
/// Fails with invalid_argument.
Result<AskRepository> read_asking(const NamedValues& values, const Environment& environment);

/// Whether the packages of the plan's target are there, as a check of the plan (id "repository"): ok, failed with the
/// newest that is there, or unknown with "not checked: " and the reason.
PreCheck check_repository(const DriverFacts& facts, const DriverRequest& request, const Recommendation& target,
                          const AskRepository& how, const std::stop_token& stop = {});

/// Whether the plan's branch may not exist at all: the tables do not have it, and no repository confirmed it.
bool is_in_doubt(const Plan& plan);

}  // namespace gpuwarden::driver
