// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver on a machine: what is there and what is wrong with it, which one it should have, and the steps from
// here to there. Pure: facts and a request in, values out. What carries a plan out is in run.hpp.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::driver {

/// Who packaged a driver.
enum class Packaging {
  distribution,     ///< Debian's or Ubuntu's own archive
  cuda_repository,  ///< NVIDIA's package repository for the distribution
  runfile,          ///< NVIDIA-Linux-*.run
};
std::string_view to_string(Packaging packaging);
/// "NVIDIA's package repository".
std::string_view words_of(Packaging packaging);
std::optional<Packaging> packaging_from(std::string_view name);

enum class PackageManager { none, apt, dnf, zypper };
std::string_view to_string(PackageManager manager);

/// An installed package that belongs to the driver.
struct InstalledPackage {
  std::string name;
  std::string version;
  bool held = false;    ///< kept from upgrades by the administrator
  bool broken = false;  ///< unpacked, but not configured, or in need of a reinstallation
  bool operator==(const InstalledPackage&) const = default;
};

/// What a plan is made from. `snapshot.environment` holds what is known of the machine besides.
struct DriverFacts {
  facts::Snapshot snapshot;
  std::filesystem::path root = "/";  ///< below which packages and services were read
  PackageManager manager = PackageManager::none;
  std::vector<InstalledPackage> packages;      ///< of the driver alone
  std::optional<Packaging> packaging;          ///< of the installed driver; empty: none is installed, or not known
  std::optional<bool> cuda_repository;         ///< NVIDIA's repository is among the sources
  std::optional<std::string> display_manager;  ///< "gdm3"; empty string: none
  std::vector<std::string> sessions;           ///< people at work on a graphical screen: "ada on :0"
  std::optional<bool> dkms;                    ///< the program is installed
  std::optional<bool> machine_owner_key;       ///< DKMS's signing key is enrolled (matters under Secure Boot only)
  std::optional<bool> nvswitch;                ///< the machine has NVSwitches, so that it needs the fabric manager
  /// Of a capture or a simulated fleet alone: packages, sessions and the bus were not looked at.
  bool on_paper = false;
};

/// Whether a package belongs to NVIDIA's driver (and not to a toolkit or to the container toolkit).
bool is_driver_package(std::string_view name);

/// What an administrator asks for.
struct DriverRequest {
  int branch = 0;       ///< 0: the one that is recommended
  std::string version;  ///< exactly this one: "580.126.09"; empty: the newest of the branch
  std::optional<Packaging> packaging;
  std::optional<facts::ModuleFlavour> flavour;
  std::string runfile;                     ///< path of a .run file, as seen inside the root
  std::optional<knowledge::Version> cuda;  ///< programs of this CUDA version shall run
  std::optional<doctor::Purpose> purpose;
  bool compute_only = false;        ///< no graphics libraries, no X driver
  bool through_reboot = false;      ///< do not unload modules: reboot instead
  std::vector<std::string> forced;  ///< names of pre-checks whose "no" is not heeded
};

/// The driver to have, and why.
struct Recommendation {
  int branch = 0;
  bool branch_known = true;  ///< the tables have it; else it is newer than they are, or was never released
  facts::ModuleFlavour flavour = facts::ModuleFlavour::open;
  Packaging packaging = Packaging::cuda_repository;
  int lowest = 0;                     ///< branch that GPUs and purpose need; 0: any
  int highest = 0;                    ///< last branch for the GPUs; 0: any
  knowledge::Version at_least;        ///< exact lowest driver of the purpose; empty: any of the branch
  std::vector<std::string> reasons;   ///< sentences, the weightiest first
  std::vector<std::string> warnings;  ///< what remains amiss
};

/// Fails with unsatisfied where no driver can serve what is asked (GPUs of two worlds, a CUDA version beyond the last
/// branch), with invalid_argument where the request contradicts the GPUs.
Result<Recommendation> recommend_driver(const DriverFacts& facts, const DriverRequest& request,
                                        const knowledge::Knowledge& knowledge,
                                        std::chrono::system_clock::time_point now);

/// The driver as it is.
struct DriverStatus {
  std::optional<std::string> loaded;
  std::optional<std::string> on_disk;
  std::optional<std::string> library;
  std::optional<std::string> firmware;
  std::optional<std::string> fabric_manager;
  std::optional<facts::ModuleFlavour> flavour;
  std::optional<Packaging> packaging;
  std::optional<std::string> package;
  std::vector<std::string> dkms_built_for;
  std::vector<std::string> dkms_missing_for;  ///< installed kernels without a module
  std::optional<bool> secure_boot;
  int branch = 0;  ///< 0: no driver
  std::string branch_type;
  std::string end_of_life;  ///< "2028-06", "past"; empty: not known
  bool past_end_of_life = false;
  std::vector<std::string> problems;  ///< sentences: what is wrong
};
DriverStatus driver_status(const DriverFacts& facts, const knowledge::Knowledge& knowledge,
                           std::chrono::system_clock::time_point now);

/// A question that must be answered before anything is changed.
struct PreCheck {
  enum class State { ok, warning, failed, unknown };
  std::string id;
  std::string title;
  State state = State::unknown;
  std::string found;          ///< what was found, a sentence
  std::string remedy;         ///< command or sentence; may be empty
  std::string command;        ///< POSIX shell that fails where the check does; empty: cannot be told by a script
  bool can_be_forced = true;  ///< by --force ID
};
std::string_view to_string(PreCheck::State state);

/// One step of a plan. All texts are POSIX shell, run with -eu behind the plan's prelude. A step may be run again after
/// it was cut off anywhere, and so may its undoing.
struct Step {
  std::string id;
  std::string title;
  std::string commands;
  std::string check;  ///< succeeds exactly where the step is done; empty: cannot be told
  std::string undo;   ///< leads back; empty: there is nothing to undo
  bool needs_root = true;
  bool reboot = false;  ///< after this step the machine must be rebooted before the next
  bool operator==(const Step&) const = default;
};

struct Plan {
  std::string id;  ///< names the folder of its records
  Recommendation target;
  std::string from;     ///< "535.183.01 (distribution)"; empty: no driver
  std::string to;       ///< "580, open module, NVIDIA's repository"
  std::string prelude;  ///< shell that every step needs
  std::vector<PreCheck> checks;
  std::vector<Step> steps;
  std::vector<std::string> notes;  ///< what a person should know or do besides
};

/// The steps for this machine. `id` names the run. Fails like recommend_driver, and with unsatisfied where this machine
/// can have no driver of its own (a container, WSL) or its distribution is not known.
Result<Plan> plan_driver(const DriverFacts& facts, const DriverRequest& request, const knowledge::Knowledge& knowledge,
                         std::chrono::system_clock::time_point now, const std::string& id);

/// What must hold before the way back ends people's sessions and takes the driver from programs.
std::vector<PreCheck> way_back_checks(const DriverFacts& facts);
/// The checks that forbid a plan, or a way back: failed, and not forced. They point into what is handed in.
std::vector<const PreCheck*> refusals(const std::vector<PreCheck>& checks, const DriverRequest& request);

/// Fails with invalid_argument where the request forces what cannot be forced: what is neither a check of these that
/// can be overruled nor one of `names`.
Result<void> check_forced(const std::vector<PreCheck>& checks, const DriverRequest& request,
                          std::vector<std::string> names);
/// "580.126.09" of "NVIDIA-Linux-x86_64-580.126.09.run"; empty where the name does not tell.
std::string version_of_runfile(const std::filesystem::path& runfile);

/// The plan as a script to review: `sh FILE` applies it, `sh FILE undo` leads back. Checks that the request overrules
/// are left out.
std::string script_of(const Plan& plan, const DriverRequest& request = {});

/// Where plans keep their records, inside the root.
inline constexpr std::string_view kDriverFolder = "/var/lib/gpuwarden/driver";

/// What is known of the driver on a surveyed machine. `root`: "/", or the folder of an image, of which only what lies
/// in it is read. `told`: the snapshot is of a capture or a simulated fleet; without an image nothing else is then
/// looked at, and `distribution` ("ubuntu:22.04"; may be empty) stands for what it does not tell. Fails as
/// name_distribution does.
Result<DriverFacts> gather_driver_facts(facts::Snapshot snapshot, const std::filesystem::path& root, bool told,
                                        std::string_view distribution);

/// Reads what a plan needs besides the GPUs and the survey: packages, services, sessions. `root`: of an image, "/" for
/// this machine.
void read_driver_facts(const std::filesystem::path& root, DriverFacts& facts);

/// For a machine of which only a capture is there: the package manager that its distribution uses, and whether its GPUs
/// sit on NVSwitches. Everything else stays unknown.
void assume_facts(DriverFacts& facts);

/// Takes "ubuntu:22.04", "Ubuntu 22.04", "rhel:9" as the machine's distribution. Fails with invalid_argument where it
/// is not known, or names no release.
Result<void> name_distribution(std::string_view text, facts::Host& host);

}  // namespace gpuwarden::driver
