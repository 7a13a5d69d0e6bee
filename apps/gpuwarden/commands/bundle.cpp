// SPDX-License-Identifier: Apache-2.0
// gpuwarden bundle
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/machine/make_bundle.hpp"
#include "machine.hpp"
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

/// "2 access token, 1 PEM block"
std::string counts(const std::map<std::string, std::size_t>& removed) {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : removed) parts.push_back(fmt::format("{} x{}", kind, count));
  return join(parts, ", ");
}

/// What is inside, what was taken out, what is not there and why.
std::string bundle_text(const bundle::Manifest& manifest, const std::string& file) {
  std::string text =
      fmt::format("{}\n{}made by gpuwarden {} on {}{}\n\n", printable(file), manifest.simulated ? "SIMULATED, " : "",
                  manifest.program_version, manifest.created, manifest.anonymized ? ", names replaced" : "");
  std::size_t width = 0;
  for (const bundle::ManifestFile& entry : manifest.files) width = std::max(width, entry.name.size());
  for (const bundle::ManifestFile& entry : manifest.files) {
    text += fmt::format("  {:<{}} {:>9}  {}\n", entry.name, width, format_size(Bytes(entry.size)), entry.about);
    if (!entry.removed.empty())
      text += fmt::format("  {:<{}} {:>9}  removed: {}\n", "", width, "", counts(entry.removed));
  }
  if (!manifest.omitted.empty()) text += "\nnot inside:\n";
  for (const bundle::Omission& omission : manifest.omitted)
    text += fmt::format("  {}: {}\n", omission.what, omission.why);
  const auto removed = manifest.removed();
  text += fmt::format("\nremoved in all: {}\n", removed.empty() ? "nothing" : counts(removed));
  return text;
}

void show(const Context& context, const bundle::Manifest& manifest, const std::string& file) {
  print_answer(context, bundle::to_json(manifest, file), bundle_text(manifest, file));
}

Result<int> run_bundle(Context& context) {
  if (const auto file = context.args.text("list")) {
    GPUWARDEN_TRY(const auto bundle, bundle::read_bundle(*file));
    show(context, bundle.manifest, *file);
    return kFine;
  }
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  GPUWARDEN_TRY(auto request, machine::read_bundle_request(context.args, knowledge));
  request.survey = survey_options(context);
  request.program_version = GPUWARDEN_VERSION;
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
