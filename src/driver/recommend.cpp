// SPDX-License-Identifier: Apache-2.0
// Which driver these GPUs should have: branch, flavour of the kernel module, packaging, each with its reason.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "driver/distributions.hpp"
#include "driver/needs.hpp"
#include "driver/words.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/driver.hpp"
#include "gpuwarden/knowledge/gpu_boards.hpp"

namespace gpuwarden::driver {

using facts::ModuleFlavour;
using knowledge::Knowledge;
using knowledge::Version;

namespace {

/// From this branch on the open module is the default (source: NVIDIA driver installation guide, kernel modules).
constexpr int kFirstOpenByDefault = 560;
/// First with open modules at all (source: the same).
constexpr int kFirstWithOpen = 515;

Result<void> heed_gpus(const Needs& needs, Recommendation& answer) {
  if (!needs.only_open.empty() && !needs.only_proprietary.empty())
    return fail(ErrorCode::unsatisfied,
                fmt::format("no driver serves {} and {} together: the first needs the open kernel module, the second "
                            "the proprietary one",
                            needs.only_open, needs.only_proprietary),
                "move one of them to another machine");
  answer.lowest = needs.lowest;
  answer.highest = needs.highest;
  if (needs.highest != 0)
    answer.reasons.push_back(fmt::format("R{} is the last branch for {}", needs.highest, needs.highest_name));
  if (needs.lowest != 0)
    answer.reasons.push_back(fmt::format("{} is served from {} on", needs.lowest_name, needs.lowest_words));
  for (const std::string& name : needs.unknown)
    answer.warnings.push_back(fmt::format("nothing is known about {}: it is ignored", name));
  if (!needs.seen) answer.warnings.emplace_back("no NVIDIA GPU was seen: the branch is chosen without any");
  return {};
}

int nearest_branch(const Knowledge& knowledge, int branch) {
  const auto far = [&](const knowledge::DriverBranch& one) { return std::abs(one.branch - branch); };
  return knowledge.branches().empty() ? 0 : std::ranges::min(knowledge.branches(), {}, far).branch;
}

/// 550.54 is not the whole of a version: since R450 releases have three numbers, but for a beta (525.53). Source:
/// NVIDIA Unix driver archive.
void tell_version(const Knowledge& knowledge, const std::string& text, Recommendation& answer) {
  constexpr int kFirstOfThree = 450;
  const auto version = Version::parse(text);
  if (!version || version->major < kFirstOfThree || std::ranges::count(text, '.') != 1 || text == "525.53") return;
  Version nearest;
  for (const auto& toolkit : knowledge.toolkits()) {
    const Version& one = toolkit.min_driver;
    if (one.major == version->major && (one.minor == version->minor || !nearest)) nearest = one;
  }
  answer.warnings.push_back(
      fmt::format("{} is not a whole version: drivers of R{} have three numbers{}", text, version->major,
                  nearest ? fmt::format("; the nearest that is known is {}", knowledge::to_string(nearest)) : ""));
}

/// The branch that was asked for, 0: none. Debian's archive has one a release, so that asking for it asks for that one.
Result<int> wanted_branch(const DriverFacts& facts, const DriverRequest& request, Recommendation& answer) {
  const int wanted = request.branch != 0 ? request.branch : Version::parse(request.version).value_or(Version{}).major;
  const auto& host = environment_of(facts).host;
  if (request.packaging == Packaging::distribution && host.distribution == "debian") {
    const int only = distribution_branch(host);
    const std::string name = host.distribution_name.value_or("this Debian");
    if (only == 0 || (wanted != 0 && wanted != only))
      return fail(ErrorCode::unsatisfied,
                  only == 0 ? fmt::format("no data on which driver {} has", name)
                            : fmt::format("{} has R{} only, not R{}", name, only, wanted),
                  "--packaging cuda-repository");
    if (wanted == 0) answer.reasons.insert(answer.reasons.begin(), fmt::format("{} has R{} only", name, only));
    if (wanted == 0) return only;
  }
  if (wanted != 0) answer.reasons.insert(answer.reasons.begin(), fmt::format("R{} was asked for", wanted));
  return wanted;
}

Result<void> choose_branch(const DriverFacts& facts, const DriverRequest& request, const Knowledge& knowledge,
                           std::chrono::system_clock::time_point now, Recommendation& answer) {
  if (answer.highest != 0 && answer.lowest > answer.highest)
    return fail(ErrorCode::unsatisfied,
                fmt::format("R{} or newer is needed, but R{} is the last branch for a GPU of this machine",
                            answer.lowest, answer.highest),
                "ask for an older CUDA version, or take that GPU out");
  const Version exact = Version::parse(request.version).value_or(Version{});
  GPUWARDEN_TRY(const int wanted, wanted_branch(facts, request, answer));
  if (wanted == 0) {
    answer.branch = knowledge.recommended_branch(answer.lowest, answer.highest, now);
    if (answer.branch == 0) answer.branch = answer.highest != 0 ? answer.highest : knowledge.newest_branch();
  } else {
    answer.branch = wanted;
  }
  if (answer.highest != 0 && answer.branch > answer.highest)
    return fail(ErrorCode::invalid_argument,
                fmt::format("R{} does not serve a GPU of this machine: R{} is the last branch for it", answer.branch,
                            answer.highest),
                request.packaging == Packaging::distribution ? "--packaging cuda-repository"
                                                             : fmt::format("--branch {}", answer.highest));
  if (answer.branch < answer.lowest || (exact && answer.at_least && exact < answer.at_least))
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("driver {} is too old: {} is the lowest",
                    request.version.empty() ? fmt::format("R{}", answer.branch) : request.version,
                    answer.at_least ? knowledge::to_string(answer.at_least) : fmt::format("R{}", answer.lowest)),
        request.packaging == Packaging::distribution && request.branch == 0 && request.version.empty()
            ? "--packaging cuda-repository"
            : "leave --branch away to get the recommended one");
  return {};
}

/// A release that is named may be older than a GPU, though others of its branch serve it.
Result<void> check_release(const DriverRequest& request, const Needs& needs) {
  const auto exact = Version::parse(request.version);
  if (!exact) return {};
  const std::string* refused = nullptr;
  Version least;
  for (const auto& [name, first] : needs.first) {
    const Version own = first.of_branch(exact->major);
    if (first.serve(*exact) || own <= least) continue;
    refused = &name;
    least = own;
  }
  if (refused == nullptr) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("driver {} does not serve {}: {} or newer of R{} does", request.version, *refused,
                          knowledge::to_string(least), least.major),
              fmt::format("--driver-version {}, or --branch {} alone", knowledge::to_string(least), least.major));
}

void tell_branch(const Knowledge& knowledge, std::chrono::system_clock::time_point now, Recommendation& answer) {
  const auto* const row = knowledge.branch(answer.branch);
  answer.branch_known = row != nullptr;
  if (row == nullptr) {
    answer.warnings.push_back(fmt::format(
        "R{} is not in the tables: {}; the nearest that is known is R{}", answer.branch,
        answer.branch > knowledge.newest_branch() ? "newer than they are, or never released" : "never released",
        nearest_branch(knowledge, answer.branch)));
    return;
  }
  static constexpr auto kTypes = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"LTSB", "a long-term support branch"}, {"PB", "a production branch"}, {"NFB", "a new-feature branch"}});
  const auto* const type = std::ranges::find(kTypes, row->type, &decltype(kTypes)::value_type::first);
  const bool over = knowledge::is_over(row->end_of_life, now);
  if (type != kTypes.end() && !over)
    answer.reasons.push_back(
        fmt::format("R{} is {}{}", answer.branch, type->second,
                    row->end_of_life.empty() ? "" : fmt::format(", kept until {}", row->end_of_life)));
  if (over)
    answer.warnings.push_back(fmt::format("R{} gets no security fixes any more (end of life {})", answer.branch,
                                          row->end_of_life == "past" ? "is over" : row->end_of_life));
}

Result<void> choose_flavour(const DriverFacts& facts, const DriverRequest& request, const Needs& needs,
                            Recommendation& answer) {
  if (!needs.only_open.empty()) {
    answer.flavour = ModuleFlavour::open;
    answer.reasons.push_back(fmt::format("{} works with the open kernel module only", needs.only_open));
  } else if (!needs.only_proprietary.empty()) {
    answer.flavour = ModuleFlavour::proprietary;
    answer.reasons.push_back(fmt::format("{} works with the proprietary kernel module only", needs.only_proprietary));
  } else {
    answer.flavour = answer.branch >= kFirstOpenByDefault ? ModuleFlavour::open : ModuleFlavour::proprietary;
    const auto present = environment_of(facts).driver.flavour;
    if (answer.branch >= kFirstWithOpen && answer.branch < kFirstOpenByDefault && present) answer.flavour = *present;
  }
  if (!request.flavour || *request.flavour == answer.flavour) return {};
  const std::string& forbids = *request.flavour == ModuleFlavour::open ? needs.only_proprietary : needs.only_open;
  if (!forbids.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("the {} does not serve {}", words_of(*request.flavour), forbids));
  if (*request.flavour == ModuleFlavour::open && answer.branch < kFirstWithOpen)
    return fail(ErrorCode::invalid_argument, fmt::format("R{} has no open kernel module", answer.branch));
  answer.flavour = *request.flavour;
  answer.reasons.push_back(fmt::format("the {} was asked for", words_of(answer.flavour)));
  return {};
}

/// Ubuntu's archive has all branches; Debian's has one a release; elsewhere NVIDIA's repository is the way.
Packaging choose_packaging(const DriverFacts& facts, const DriverRequest& request, int branch) {
  if (request.packaging) return *request.packaging;
  if (!request.runfile.empty()) return Packaging::runfile;
  const auto& host = environment_of(facts).host;
  if (facts.manager != PackageManager::apt || facts.packaging == Packaging::cuda_repository)
    return Packaging::cuda_repository;
  if (host.distribution == "ubuntu") return Packaging::distribution;
  return distribution_branch(host) == branch ? Packaging::distribution : Packaging::cuda_repository;
}

Result<void> check_no_jetson(const DriverFacts& facts) {
  for (const auto& record : facts.snapshot.gpus) {
    const auto* const board = knowledge::find_gpu_board(record.gpu.name);
    if (board == nullptr || !board->is_jetson) continue;
    return fail(
        ErrorCode::unsatisfied,
        fmt::format("{} is the GPU of a Jetson: its driver comes with JetPack (Jetson Linux, L4T), and no other "
                    "serves it",
                    printable(record.gpu.name)),
        "upgrade JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack, or NVIDIA SDK Manager");
  }
  return {};
}

}  // namespace

const facts::Environment& environment_of(const DriverFacts& facts) {
  static const facts::Environment kNone;
  return facts.snapshot.environment ? *facts.snapshot.environment : kNone;
}

std::optional<std::string> present_version(const DriverFacts& facts) {
  const auto& driver = environment_of(facts).driver;
  if (driver.loaded_version) return driver.loaded_version;
  if (driver.on_disk_version) return driver.on_disk_version;
  return facts.snapshot.driver_version;
}

// Source: packages.debian.org, nvidia-driver of bullseye, bookworm and trixie.
int distribution_branch(const facts::Host& host) {
  static constexpr auto kDebian =
      std::to_array<std::pair<std::string_view, int>>({{"11", 470}, {"12", 535}, {"13", 550}});
  if (host.distribution != "debian") return 0;
  const auto* const found =
      std::ranges::find(kDebian, host.distribution_version.value_or(""), &decltype(kDebian)::value_type::first);
  return found == kDebian.end() ? 0 : found->second;
}

Result<Recommendation> recommend_driver(const DriverFacts& facts, const DriverRequest& request,
                                        const Knowledge& knowledge, std::chrono::system_clock::time_point now) {
  GPUWARDEN_CHECK(check_no_jetson(facts));
  Recommendation answer;
  const Needs needs = needs_of(facts, knowledge);
  GPUWARDEN_CHECK(heed_gpus(needs, answer));
  GPUWARDEN_CHECK(heed_purpose(facts, request, knowledge, answer));
  heed_site(facts, request, knowledge, answer);
  GPUWARDEN_CHECK(choose_branch(facts, request, knowledge, now, answer));
  GPUWARDEN_CHECK(check_release(request, needs));
  tell_branch(knowledge, now, answer);
  tell_version(knowledge, request.version, answer);
  if (const std::string why = unknown_release(environment_of(facts).host); !why.empty()) answer.warnings.push_back(why);
  GPUWARDEN_CHECK(choose_flavour(facts, request, needs, answer));
  answer.packaging = choose_packaging(facts, request, answer.branch);
  if (answer.packaging == Packaging::cuda_repository && !request.packaging &&
      distribution_branch(environment_of(facts).host) != 0)
    answer.reasons.push_back(fmt::format("{} has R{} only; NVIDIA's repository has R{}",
                                         environment_of(facts).host.distribution_name.value_or("the distribution"),
                                         distribution_branch(environment_of(facts).host), answer.branch));
  return answer;
}

}  // namespace gpuwarden::driver
