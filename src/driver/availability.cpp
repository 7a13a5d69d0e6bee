// SPDX-License-Identifier: Apache-2.0
// Sources: Debian policy and repository format (Packages index); NVIDIA's CUDA repositories, whose folders list their
// files; apt-cache(8), madison.
#include "gpuwarden/driver/availability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "driver/packagings.hpp"
#include "driver/repositories.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/version.hpp"
#include "gpuwarden/net/http.hpp"

namespace gpuwarden::driver {
namespace {

using knowledge::Version;

constexpr std::string_view kNvidias = "https://developer.download.nvidia.com/compute/cuda/repos";

/// "580.95.05" of "1:580.95.05-0ubuntu1" and "580.95.05-1.el9".
std::string upstream(std::string_view version) {
  if (const std::size_t epoch = version.find(':'); epoch != std::string_view::npos) version.remove_prefix(epoch + 1);
  return std::string(version.substr(0, version.find('-')));
}

/// The version is what the request asks for: that one exactly, or any of the branch.
bool is_wanted(const OfferedPackage& offered, const DriverRequest& request, const Recommendation& target) {
  if (!request.version.empty()) return offered.version == request.version;
  const auto version = Version::parse(offered.version);
  return version && version->major == target.branch;
}

PreCheck unchecked(std::string why) {
  return {.id = "repository",
          .title = "the repository has it",
          .state = PreCheck::State::unknown,
          .found = "not checked: " + std::move(why)};
}

/// A package that pins a branch has a version of its own.
bool has_drivers_version(std::string_view package) { return !package.contains("-pinning-"); }

/// The newest of a package, of the branch where there is one of it.
std::string newest_of(const std::vector<OfferedPackage>& offered, std::string_view name, int branch) {
  Version best;
  std::string text;
  const auto rank = [&](const Version& version) { return std::pair(version.major == branch, version); };
  for (const OfferedPackage& one : offered) {
    const auto version = Version::parse(one.version);
    if (one.name != name || !version || (best && rank(*version) <= rank(best))) continue;
    best = *version;
    text = one.version;
  }
  return text;
}

/// What a repository is asked for.
struct Wanted {
  const std::vector<std::string>& packages;
  const DriverRequest& request;
  const Recommendation& target;
};

PreCheck judge(const std::vector<OfferedPackage>& offered, const Wanted& wanted, const std::string& where) {
  const auto& [packages, request, target] = wanted;
  PreCheck check{.id = "repository", .title = "the repository has it", .state = PreCheck::State::ok};
  std::vector<std::string> missing;
  std::vector<std::string> found;
  for (const std::string& name : packages) {
    if (!has_drivers_version(name)) continue;
    const bool there = std::ranges::any_of(offered, [&](const OfferedPackage& one) {
      return one.name == name && is_wanted(one, wanted.request, wanted.target);
    });
    const std::string newest = newest_of(offered, name, target.branch);
    if (there)
      found.push_back(fmt::format("{} {}", name, request.version.empty() ? newest : request.version));
    else
      missing.push_back(newest.empty() ? name : fmt::format("{} (the newest is {})", name, newest));
  }
  if (missing.empty()) {
    check.found = fmt::format("{} has {}", where, join(found, ", "));
    return check;
  }
  const std::string what =
      request.version.empty() ? fmt::format("of the branch {}", target.branch) : "in version " + request.version;
  check.state = PreCheck::State::failed;
  check.found = fmt::format("{} does not have {} {}", where, join(missing, ", "), what);
  check.remedy = "name a version that is there: --driver-version, or another branch: --branch";
  return check;
}

/// The machine's own apt, where it has the repository among its sources.
PreCheck ask_apt(const Wanted& wanted, const AskRepository& how) {
  Command command{.argv = {"apt-cache", "madison"}, .deadline = how.timeout};
  command.argv.insert(command.argv.end(), wanted.packages.begin(), wanted.packages.end());
  const auto done = run_command(command);
  if (!done) return unchecked(done.error().message);
  if (done->timed_out || done->exit_code != 0)
    return unchecked("apt-cache " + std::string(done->timed_out ? "did not answer in time" : "failed"));
  const auto offered = read_madison(done->standard_output);
  // Before the first `apt update` it knows nothing, which is no proof of anything.
  if (offered.empty()) return unchecked("apt knows none of these packages; apt update may not have been run");
  return judge(offered, wanted, "apt");
}

PreCheck ask_nvidias(const DriverFacts& facts, const Wanted& wanted, const AskRepository& how,
                     const std::stop_token& stop) {
  const facts::Host none;
  const auto repository = repository_for(facts.snapshot.environment ? facts.snapshot.environment->host : none);
  if (!repository) return unchecked(repository.error().message);
  const bool apt = facts.manager == PackageManager::apt;
  const std::string base = how.base.empty() ? std::string(kNvidias) : how.base;
  const std::string folder =
      fmt::format("{}{}{}/{}/", base, base.ends_with('/') ? "" : "/", repository->name, repository->machine);
  net::HttpRequest ask{.url = folder + (apt ? "Packages" : ""), .timeout = how.timeout};
  const auto answer = net::ask(ask, stop);
  const std::string where = fmt::format("{}/{}", repository->name, repository->machine);
  if (!answer) return unchecked(fmt::format("{} ({})", answer.error().message, where));
  if (answer->status == 404) {
    // A mirror may keep the index in compressed form alone.
    ask.url = folder + "Packages.gz";
    if (const auto packed = apt ? net::ask(ask, stop) : answer; packed && packed->status / 100 == 2)
      return unchecked(fmt::format("the repository {} has its index in compressed form alone", where));
    PreCheck check{.id = "repository", .title = "the repository has it", .state = PreCheck::State::failed};
    check.found = fmt::format("there is no repository {}", where);
    check.remedy = "another distribution's release, or NVIDIA's .run installer: --runfile FILE";
    return check;
  }
  if (answer->status / 100 != 2) return unchecked(fmt::format("the repository {} answered {}", where, answer->status));
  const auto offered = apt ? read_apt_index(answer->body) : read_rpm_listing(answer->body);
  if (offered.empty()) return unchecked(fmt::format("the answer of the repository {} lists no packages", where));
  return judge(offered, wanted, where);
}

}  // namespace

std::vector<OfferedPackage> read_apt_index(std::string_view text) {
  std::vector<OfferedPackage> result;
  OfferedPackage one;
  const auto end_stanza = [&] {
    if (!one.name.empty() && !one.version.empty()) result.push_back(std::move(one));
    one = {};
  };
  for (const std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) end_stanza();
    if (line.starts_with("Package:")) one.name = trim(line.substr(8));
    if (line.starts_with("Version:")) one.version = upstream(trim(line.substr(8)));
  }
  end_stanza();
  return result;
}

std::vector<OfferedPackage> read_rpm_listing(std::string_view text) {
  constexpr std::string_view kEnd = ".rpm";
  std::vector<OfferedPackage> result;
  std::set<std::string_view> seen;  // a listing names a file twice: in the link and as its text
  for (std::size_t end = text.find(kEnd); end != std::string_view::npos; end = text.find(kEnd, end + kEnd.size())) {
    const std::size_t before = text.find_last_of("\"'<>/ \t\n=", end);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view file = text.substr(begin, end - begin);
    // NAME-VERSION-RELEASE.ARCH
    const std::size_t release = file.rfind('-');
    if (release == std::string_view::npos || release == 0 || !seen.insert(file).second) continue;
    const std::size_t version = file.rfind('-', release - 1);
    if (version == std::string_view::npos) continue;
    result.push_back({std::string(file.substr(0, version)), upstream(file.substr(version + 1, release - version - 1))});
  }
  return result;
}

std::vector<OfferedPackage> read_madison(std::string_view text) {
  std::vector<OfferedPackage> result;
  for (const std::string_view line : split(text, '\n')) {
    const auto cells = split(line, '|');
    if (cells.size() >= 2) result.push_back({std::string(trim(cells[0])), upstream(trim(cells[1]))});
  }
  return result;
}

Result<AskRepository> read_asking(const NamedValues& values, const Environment& environment) {
  AskRepository how{.base = values.text("mirror").value_or("")};
  if (!how.base.empty() && !how.base.starts_with("http://") && !how.base.starts_with("https://"))
    return values.refuse(fmt::format("--mirror: '{}' is not a URL", printable(how.base)),
                         "the folder above ubuntu2204, rhel9 ...: https://mirror.example.org/compute/cuda/repos");
  const auto variable = environment.find("GPUWARDEN_OFFLINE");
  const bool by_variable = variable != environment.end() && !variable->second.empty() && variable->second != "0";
  // Who names a mirror wants it asked.
  how.offline = values.has("offline") || (by_variable && how.base.empty());
  return how;
}

PreCheck check_repository(const DriverFacts& facts, const DriverRequest& request, const Recommendation& target,
                          const AskRepository& how, const std::stop_token& stop) {
  if (target.packaging == Packaging::runfile) return unchecked("a .run file comes from no repository");
  if (how.offline) return unchecked("offline (--offline, GPUWARDEN_OFFLINE)");
  const auto words = install_words(facts, request, target);
  if (!words) return unchecked(words.error().message);
  // Of another machine, or another root, this machine's package manager knows nothing.
  const bool own = !facts.on_paper && facts.root == "/" && how.base.empty() && facts.manager == PackageManager::apt &&
                   (target.packaging == Packaging::distribution || facts.cuda_repository == true);
  const Wanted wanted{words->packages, request, target};
  if (own) return ask_apt(wanted, how);
  if (target.packaging == Packaging::distribution)
    return unchecked("the distribution's own archive is asked on the machine itself: apt-cache madison " +
                     join(words->packages, " "));
  return ask_nvidias(facts, wanted, how, stop);
}

bool is_in_doubt(const Plan& plan) {
  return !plan.target.branch_known && std::ranges::none_of(plan.checks, [](const PreCheck& check) {
    return check.id == "repository" && check.state == PreCheck::State::ok;
  });
}

}  // namespace gpuwarden::driver
