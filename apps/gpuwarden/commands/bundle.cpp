// SPDX-License-Identifier: Apache-2.0
// gpuwarden bundle
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/bundle/gather.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/redact/redact.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/bundle_text.hpp"
#include "render/doctor_text.hpp"

namespace gpuwarden::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kLogCap = std::size_t{8} << 20U;
constexpr std::size_t kLargestLogCap = std::size_t{64} << 20U;
constexpr std::size_t kLogs = 32;
constexpr std::size_t kKernelCap = std::size_t{4} << 20U;
constexpr std::uint32_t kSeconds = 3;
constexpr std::uint32_t kMostSeconds = 600;

std::string dump(const json& document) { return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n"; }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

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
redact::Identities identities(const Context& context, const facts::Snapshot& snapshot) {
  redact::Identities names = bundle::identities_of(snapshot);
  if (const passwd* entry = ::getpwuid(::geteuid()); entry != nullptr) {
    names.users.emplace_back(entry->pw_name);
    names.homes.emplace_back(entry->pw_dir);
  }
  for (const char* name : {"USER", "LOGNAME", "SUDO_USER"}) {
    const auto found = context.environment.find(name);
    if (found != context.environment.end()) names.users.push_back(found->second);
  }
  if (const auto home = context.environment.find("HOME"); home != context.environment.end())
    names.homes.push_back(home->second);
  names.hosts.push_back(host_name());
  names.domains = search_domains();
  return names;
}

redact::Redactor redactor_for(const Context& context, const facts::Snapshot& snapshot) {
  auto known = redact::secret_values(context.environment);
  if (!context.args.has("anonymize")) return redact::Redactor(std::move(known));
  const redact::Identities names = identities(context, snapshot);
  return redact::Redactor(std::move(known), &names);
}

/// What the command was asked for, checked before anything is read.
struct Wishes {
  knowledge::Knowledge knowledge;
  doctor::Purpose purpose;
  std::chrono::seconds seconds{kSeconds};
  bundle::Contents logs;
};

Result<Wishes> read_wishes(const Context& context) {
  const Args& args = context.args;
  GPUWARDEN_TRY(knowledge::Knowledge knowledge, open_knowledge(context));
  Wishes wishes{.knowledge = std::move(knowledge), .purpose = {}, .logs = {}};
  if (const auto text = args.text("for")) {
    GPUWARDEN_TRY(wishes.purpose, doctor::read_purpose(*text, wishes.knowledge));
  }
  GPUWARDEN_TRY(const auto seconds, count_option(args, "seconds", kMostSeconds));
  wishes.seconds = std::chrono::seconds(seconds.value_or(kSeconds));
  GPUWARDEN_TRY(const auto size, size_option(args, "log-size"));
  if (size && (size->value == 0 || size->value > kLargestLogCap))
    return fail(ErrorCode::invalid_argument,
                fmt::format("--log-size: at most {} of each log", format_size(Bytes(kLargestLogCap))));
  const auto logs = args.list("log");
  if (logs.size() > kLogs) return fail(ErrorCode::invalid_argument, fmt::format("--log: at most {} logs", kLogs));
  if (const auto output = args.text("output"))
    GPUWARDEN_CHECK(bundle::check_output(*output, {logs.begin(), logs.end()}));
  for (const std::string& log : logs)
    GPUWARDEN_CHECK(bundle::gather_log(log, size ? size->value : kLogCap, wishes.logs));
  return wishes;
}

/// What only the machine itself tells: nothing of it where facts stand for the machine.
void gather_live(const Context& context, const Machine& machine, std::chrono::seconds seconds,
                 bundle::Contents& contents) {
  const auto root = context.args.text("root");
  if (machine.captured() || (root && *root != "/")) {
    const std::string why = machine.captured() ? "these are a capture's facts" : "--root names another system";
    for (const char* what : {"samples", "nvidia-smi", "kernel messages"}) contents.omitted.push_back({what, why});
    return;
  }
  probe::MachineReader reader(machine.reader());
  bundle::gather_samples(reader, system_clock(), seconds, contents);
  if (machine.simulated()) {
    for (const char* what : {"nvidia-smi", "kernel messages"})
      contents.omitted.push_back({what, "they are this machine's, not the simulated fleet's"});
    return;
  }
  bundle::gather_nvidia_smi(machine.reader().nvidia_smi, machine.reader().timeout * 4, contents);
  bundle::gather_kernel_log(std::chrono::seconds(5), kKernelCap, contents);
}

bundle::Contents gather(const Context& context, const Machine& machine, const facts::Snapshot& snapshot,
                        Wishes wishes) {
  const auto examination = doctor::examine(snapshot, wishes.knowledge, wishes.purpose, doctor::Choice{});
  bundle::Contents contents;
  contents.files.push_back({std::string(bundle::kSnapshotFile), "the facts, for gpuwarden ... --from",
                            dump(facts::to_json(snapshot)), true});
  contents.files.push_back({"doctor.json", "what gpuwarden doctor finds",
                            dump(doctor::to_json(doctor::MachineReport{examination, snapshot, wishes.purpose})), true});
  gather_live(context, machine, wishes.seconds, contents);
  for (bundle::BundleFile& log : wishes.logs.files) contents.files.push_back(std::move(log));
  return contents;
}

/// "gpuwarden-bundle-node7-20261120T140307Z.tar.gz"; without the host where names are to be kept.
std::string default_file(const Context& context, const facts::Snapshot& snapshot,
                         std::chrono::system_clock::time_point now) {
  std::string stamp = format_utc(now);
  std::erase_if(stamp, [](char c) { return c == ':' || c == '-'; });
  std::string host = context.args.has("anonymize") ? "" : snapshot.host.substr(0, snapshot.host.find('.'));
  std::ranges::replace_if(host, [](char c) { return c == '/' || c < '-' || c > 'z'; }, '_');
  return fmt::format("gpuwarden-bundle-{}{}{}.tar.gz", host, host.empty() ? "" : "-", stamp);
}

void show(const Context& context, const bundle::Manifest& manifest, const std::string& file) {
  if (!context.args.has("json")) {
    fmt::print("{}", bundle_text(manifest, file));
    return;
  }
  json document = bundle::to_json(manifest);
  document["file"] = file;
  fmt::print("{}", dump(document));
}

int list_bundle(const Context& context, const std::string& file) {
  const auto bundle = bundle::read_bundle(file);
  if (!bundle) return complain(bundle.error());
  show(context, bundle->manifest, file);
  return kFine;
}

}  // namespace

int run_bundle(Context& context) {
  if (const auto file = context.args.text("list")) return list_bundle(context, *file);
  auto wishes = read_wishes(context);
  if (!wishes) return complain(wishes.error());
  const auto machine = open_machine(context);
  if (!machine) return complain(machine.error());
  const facts::Snapshot snapshot = read_everything(
      context, *machine, {.detail = probe::Detail::slow, .links = true, .cuda_order = true, .holders = true});
  const auto now = std::chrono::system_clock::now();
  const std::string file = context.args.text("output").value_or(default_file(context, snapshot, now));
  const bundle::Contents contents = gather(context, *machine, snapshot, std::move(*wishes));
  const auto manifest = bundle::write_bundle(file, contents, redactor_for(context, snapshot),
                                             {GPUWARDEN_VERSION, now, snapshot.simulated});
  if (!manifest) return complain(manifest.error());
  show(context, *manifest, file);
  if (!context.args.has("json")) fmt::print("look before you send it: tar -xzOf '{}' | less\n", printable(file));
  return kFine;
}

}  // namespace gpuwarden::cli
