// SPDX-License-Identifier: Apache-2.0
// gpuwarden bundle
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/bundle/gather.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "gpuwarden/machine/make_bundle.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/bundle_text.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kBundleOptions = std::to_array<Option>({
    {"-o,--output", OptionKind::text, "FILE", "the archive to write (gpuwarden-bundle-HOST-TIME.tar.gz)"},
    {"--anonymize", OptionKind::flag, "", "replace names of users and hosts, addresses, UUIDs and serials too"},
    {"--log", OptionKind::list, "FILE...", "add these logs, without the secrets in them"},
    {"--log-size", OptionKind::text, "SIZE", "how much of each log's end to keep (8MiB)"},
    {"--seconds", OptionKind::text, "N", "how long to read the GPUs, once a second (3)"},
    {"--for", OptionKind::text, "PURPOSE", "let the doctor judge for this purpose"},
    {"--list", OptionKind::text, "FILE", "show what is in a bundle"},
});

constexpr std::size_t kLogCap = std::size_t{8} << 20U;
constexpr std::size_t kLargestLogCap = std::size_t{64} << 20U;
constexpr std::size_t kLogs = 32;
constexpr std::uint32_t kMostSeconds = 600;

/// What the command was asked for, checked before anything is read.
Result<machine::BundleRequest> read_request(const Context& context, const knowledge::Knowledge& knowledge) {
  const Args& args = context.args;
  machine::BundleRequest request{.survey = survey_options(context), .program_version = GPUWARDEN_VERSION};
  request.anonymize = args.has("anonymize");
  if (const auto text = args.text("for")) {
    GPUWARDEN_TRY(request.purpose, doctor::read_purpose(*text, knowledge));
  }
  GPUWARDEN_TRY(const auto seconds, count_option(args, "seconds", kMostSeconds));
  if (seconds) request.sample_for = std::chrono::seconds(*seconds);
  GPUWARDEN_TRY(const auto size, size_option(args, "log-size"));
  if (size && (size->value == 0 || size->value > kLargestLogCap))
    return fail(ErrorCode::invalid_argument,
                fmt::format("--log-size: at most {} of each log", format_size(Bytes(kLargestLogCap))));
  const auto logs = args.list("log");
  if (logs.size() > kLogs) return fail(ErrorCode::invalid_argument, fmt::format("--log: at most {} logs", kLogs));
  request.output = args.text("output").value_or("");
  if (args.has("output")) GPUWARDEN_CHECK(bundle::check_output(request.output, {logs.begin(), logs.end()}));
  for (const std::string& log : logs)
    GPUWARDEN_CHECK(bundle::gather_log(log, size ? size->value : kLogCap, request.logs));
  return request;
}

void show(const Context& context, const bundle::Manifest& manifest, const std::string& file) {
  if (!context.args.has("json")) {
    fmt::print("{}", bundle_text(manifest, file));
    return;
  }
  nlohmann::json document = bundle::to_json(manifest);
  document["file"] = file;
  print_json(document);
}

Result<int> list_bundle(const Context& context, const std::string& file) {
  GPUWARDEN_TRY(const auto bundle, bundle::read_bundle(file));
  show(context, bundle.manifest, file);
  return kFine;
}

Result<int> run_bundle(Context& context) {
  if (const auto file = context.args.text("list")) return list_bundle(context, *file);
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  GPUWARDEN_TRY(auto request, read_request(context, knowledge));
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  GPUWARDEN_TRY(const auto made, machine::make_bundle(machine, knowledge, std::move(request), system_clock()));
  const std::string file = made.file.string();
  show(context, made.manifest, file);
  if (!context.args.has("json")) fmt::print("look before you send it: tar -xzOf '{}' | less\n", printable(file));
  return kFine;
}

}  // namespace

constinit const Subcommand kBundleCommand{
    .name = "bundle",
    .summary = "put everything for a ticket into one archive, without secrets",
    .usage = "gpuwarden bundle [-o FILE.tar.gz] [--anonymize] [--log FILE...] | --list FILE",
    .groups = {OptionGroup{kBundleOptions}, OptionGroup{kFromManyOptions}, OptionGroup{kKnowledgeOptions}},
    .rest = Rest::none,
    .run = run_bundle};

}  // namespace gpuwarden::cli
