// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/make_bundle.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/host_name.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/users.hpp"
#include "gpuwarden/bundle/gather.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/redact/redact.hpp"

namespace gpuwarden::machine {
namespace {

constexpr std::size_t kKernelCap = std::size_t{4} << 20U;
constexpr std::chrono::seconds kKernelDeadline(5);

/// The domains that this machine's resolver completes names with.
std::vector<std::string> search_domains() {
  std::vector<std::string> domains;
  const auto text = read_file("/etc/resolv.conf");
  for (const auto line : split(text ? std::string_view(*text) : std::string_view(), '\n')) {
    const auto words = split_words(line);
    if (words.size() < 2 || (words[0] != "search" && words[0] != "domain")) continue;
    for (std::size_t i = 1; i < words.size(); ++i) domains.emplace_back(words[i]);
  }
  return domains;
}

/// Who and where this is: the caller's names, besides those in the facts.
redact::Identities identities(const Environment& environment, const facts::Snapshot& snapshot) {
  redact::Identities names = bundle::identities_of(snapshot);
  if (auto user = find_user(::geteuid())) {
    names.users.push_back(std::move(user->name));
    names.homes.push_back(std::move(user->home));
  }
  for (const char* name : {"USER", "LOGNAME", "SUDO_USER"}) {
    const auto found = environment.find(name);
    if (found != environment.end()) names.users.push_back(found->second);
  }
  if (const auto home = environment.find("HOME"); home != environment.end()) names.homes.push_back(home->second);
  names.hosts.push_back(own_host_name());
  names.domains = search_domains();
  return names;
}

redact::Redactor redactor_for(const Environment& environment, const facts::Snapshot& snapshot, bool anonymize) {
  auto known = redact::secret_values(environment);
  if (!anonymize) return redact::Redactor(std::move(known));
  const redact::Identities names = identities(environment, snapshot);
  return redact::Redactor(std::move(known), &names);
}

/// What only the machine itself tells.
void gather_live(const Machine& machine, const BundleRequest& request, Clock& clock, bundle::Contents& contents) {
  if (machine.captured() || request.survey.root != "/") {
    const std::string why =
        machine.captured() ? "these are a capture's facts" : "another system's files were looked at";
    for (const char* what : {"samples", "nvidia-smi", "kernel messages"}) contents.omitted.push_back({what, why});
    return;
  }
  probe::MachineReader reader(machine.reader());
  bundle::gather_samples(reader, clock, request.sample_for, contents);
  if (machine.simulated()) {
    for (const char* what : {"nvidia-smi", "kernel messages"})
      contents.omitted.push_back({what, "they are this machine's, not the simulated fleet's"});
    return;
  }
  bundle::gather_nvidia_smi(machine.reader().nvidia_smi, machine.reader().timeout * 4, contents);
  bundle::gather_kernel_log(kKernelDeadline, kKernelCap, contents);
}

/// "gpuwarden-bundle-node7-20261120T140307Z.tar.gz"; without the host where names are to be kept.
std::string default_file(const facts::Snapshot& snapshot, bool anonymize, Clock::WallTime now) {
  std::string stamp = format_utc(now);
  std::erase_if(stamp, [](char c) { return c == ':' || c == '-'; });
  std::string host = anonymize ? "" : snapshot.host.substr(0, snapshot.host.find('.'));
  std::ranges::replace_if(host, [](char c) { return c == '/' || c < '-' || c > 'z'; }, '_');
  return fmt::format("gpuwarden-bundle-{}{}{}.tar.gz", host, host.empty() ? "" : "-", stamp);
}

}  // namespace

Result<BundleRequest> read_bundle_request(const NamedValues& values, const knowledge::Knowledge& knowledge) {
  constexpr std::uint32_t kMostSeconds = 600;
  constexpr Bytes kLargestLog = 64_MiB;
  constexpr std::size_t kMostLogs = 32;
  BundleRequest request{.output = values.text("output").value_or(""), .anonymize = values.has("anonymize")};
  if (const auto text = values.text("for")) {
    GPUWARDEN_TRY(request.purpose, doctor::read_purpose(*text, knowledge));
  }
  GPUWARDEN_TRY(const auto seconds, count_option(values, "seconds", kMostSeconds));
  if (seconds) request.sample_for = std::chrono::seconds(*seconds);
  GPUWARDEN_TRY(const auto size, size_option(values, "log-size"));
  if (size && (*size == 0_B || *size > kLargestLog))
    return values.refuse(fmt::format("--log-size: at most {} of each log", format_size(kLargestLog)));
  const auto logs = values.list("log");
  if (logs.size() > kMostLogs) return values.refuse(fmt::format("--log: at most {} logs", kMostLogs));
  if (values.has("output")) GPUWARDEN_CHECK(bundle::check_output(request.output, logs));
  for (const std::string& log : logs)
    GPUWARDEN_CHECK(bundle::gather_log(log, size.value_or(8_MiB).value, request.logs));
  return request;
}

Result<MadeBundle> make_bundle(const Machine& machine, const knowledge::Knowledge& knowledge, BundleRequest request,
                               Clock& clock) {
  const facts::Snapshot snapshot = machine.survey(
      request.survey, {.detail = probe::Detail::slow, .links = true, .cuda_order = true, .holders = true});
  const auto examination = doctor::examine(snapshot, knowledge, request.purpose, doctor::Choice{});
  bundle::Contents contents;
  contents.files.push_back({std::string(bundle::kSnapshotFile), "the facts, for gpuwarden ... --from",
                            facts::json_text(facts::to_json(snapshot)), true});
  contents.files.push_back(
      {"doctor.json", "what gpuwarden doctor finds",
       facts::json_text(doctor::to_json(doctor::MachineReport{examination, snapshot, request.purpose})), true});
  gather_live(machine, request, clock, contents);
  for (bundle::BundleFile& log : request.logs.files) contents.files.push_back(std::move(log));
  const auto now = clock.wall_now();
  MadeBundle made;
  made.file = request.output;
  if (made.file.empty()) made.file = default_file(snapshot, request.anonymize, now);
  GPUWARDEN_TRY(made.manifest,
                bundle::write_bundle(made.file, contents,
                                     redactor_for(machine.options().environment, snapshot, request.anonymize),
                                     {request.program_version, now, snapshot.simulated}));
  return made;
}

}  // namespace gpuwarden::machine
