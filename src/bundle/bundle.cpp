// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/bundle/bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bundle/archive.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/sha256.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::bundle {
namespace {

using Json = nlohmann::json;

constexpr unsigned kOwnerOnly = 0600;

std::string indented(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

/// The text without its secrets; what was taken out goes to `removed`.
Result<std::string> redacted(const BundleFile& file, redact::Redactor& redactor, redact::Removals& removed) {
  if (!file.json) return redactor.redact(file.text, removed);
  Json document = Json::parse(file.text, nullptr, false);
  if (document.is_discarded()) return fail(ErrorCode::failed, fmt::format("{} is not JSON", file.name));
  redactor.redact(document, removed);
  return indented(document);
}

std::map<std::string, std::size_t> named(const redact::Removals& removed) {
  std::map<std::string, std::size_t> result;
  for (const auto& [kind, count] : removed) result.emplace(to_string(kind), count);
  return result;
}

/// Folder that an archive unpacks into, so that two bundles do not mix.
std::string folder_of(std::chrono::system_clock::time_point time) {
  std::string stamp = format_utc(time);
  std::erase_if(stamp, [](char c) { return c == ':' || c == '-'; });
  return "gpuwarden-bundle-" + stamp;
}

/// The name, with a number where the archive has one like it: two logs of one name, or names made alike by redaction.
std::string unused_name(const std::string& name, const std::vector<ManifestFile>& files) {
  const std::filesystem::path path(name);
  std::string free = name;
  for (int n = 2; std::ranges::find(files, free, &ManifestFile::name) != files.end(); ++n)
    free = (path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), n, path.extension().string())).string();
  return free;
}

/// Names without their folder of origin; fails where they do not share one.
Result<void> strip_folder(std::vector<ArchiveEntry>& entries, std::string_view name) {
  const std::string folder = entries.empty() ? "" : entries[0].name.substr(0, entries[0].name.find('/') + 1);
  for (ArchiveEntry& entry : entries) {
    if (folder.empty() || !entry.name.starts_with(folder) || entry.name.size() == folder.size())
      return fail(ErrorCode::corrupt, fmt::format("{} is not a gpuwarden bundle: its files share no folder", name),
                  "gpuwarden bundle makes one");
    entry.name.erase(0, folder.size());
  }
  return {};
}

Result<Manifest> manifest_in(const std::vector<ArchiveEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, kManifestFile, &ArchiveEntry::name);
  if (found == entries.end())
    return fail(ErrorCode::corrupt, fmt::format("{} is not a gpuwarden bundle: it has no {}", name, kManifestFile),
                "gpuwarden bundle makes one; other archives must be unpacked first");
  const Json json = Json::parse(found->content, nullptr, false);
  auto manifest = manifest_from_json(json);
  if (!manifest)
    return fail(ErrorCode::corrupt, fmt::format("{}: {}", name, manifest.error().message), manifest.error().hint);
  return manifest;
}

/// Each file of the archive must be in the manifest as it is, and the other way round.
Result<void> check(const Manifest& manifest, const std::vector<ArchiveEntry>& entries, std::string_view name) {
  const auto differs = [&](const std::string& file, std::string_view how) {
    return fail(ErrorCode::corrupt, fmt::format("{}: {} {}", name, file, how),
                "the bundle was changed or damaged after it was made");
  };
  for (const ManifestFile& file : manifest.files) {
    const auto found = std::ranges::find(entries, file.name, &ArchiveEntry::name);
    if (found == entries.end()) return differs(file.name, "is missing");
    if (found->content.size() != file.size || sha256_hex(found->content) != file.sha256)
      return differs(file.name, "is not what its manifest says");
  }
  for (const ArchiveEntry& entry : entries) {
    const bool listed = entry.name == kManifestFile ||
                        std::ranges::find(manifest.files, entry.name, &ManifestFile::name) != manifest.files.end();
    if (!listed) return differs(entry.name, "is not in its manifest");
  }
  return {};
}

/// What is written must be what can be read.
Result<void> check_size(const std::vector<ArchiveEntry>& entries) {
  const ArchiveLimits limits;
  std::size_t all = 0;
  for (const ArchiveEntry& entry : entries) all += entry.content.size();
  if (all <= limits.all_bytes && entries.size() <= limits.entries) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("the bundle would hold {} in {} files", format_size(Bytes(all)), entries.size()),
              fmt::format("at most {} in {} files; name fewer logs, or keep less of each (--log-size)",
                          format_size(Bytes(limits.all_bytes)), limits.entries));
}

}  // namespace

Result<void> check_output(const std::filesystem::path& path, const std::vector<std::string>& sources) {
  namespace fs = std::filesystem;
  const std::string shown = printable(path.string());
  std::error_code ignored;
  for (const std::string& source : sources) {
    if (fs::equivalent(path, source, ignored) ||
        fs::absolute(path).lexically_normal() == fs::absolute(source).lexically_normal())
      return fail(ErrorCode::invalid_argument, fmt::format("{} is one of the logs that go into the bundle", shown),
                  "name another file with -o");
  }
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) return {};
  if (!fs::is_regular_file(status))
    return fail(ErrorCode::invalid_argument, fmt::format("{} exists and is not a file", shown),
                "name a file with -o; it is made, or an older bundle replaced");
  if (fs::file_size(path, ignored) == 0 && !ignored) return {};
  if (!read_bundle(path))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} already exists and is not a bundle: it is left as it is", shown),
                "name another file with -o, or remove it first");
  return {};
}

Result<Manifest> write_bundle(const std::filesystem::path& path, const Contents& contents, redact::Redactor redactor,
                              const BundleHead& head) {
  GPUWARDEN_CHECK(check_output(path));
  for (const BundleFile& file : contents.files) redactor.learn(file.text);
  Manifest manifest{head.program_version, format_utc(head.created), head.simulated, redactor.anonymizes(), {}, {}};
  const std::string folder = folder_of(head.created);
  std::vector<ArchiveEntry> entries(1);
  for (const BundleFile& file : contents.files) {
    redact::Removals removed;
    GPUWARDEN_TRY(std::string text, redacted(file, redactor, removed));
    redact::Removals in_names;
    const ManifestFile listed{unused_name(redactor.redact(file.name, in_names), manifest.files),
                              redactor.redact(file.about, in_names), text.size(), sha256_hex(text), named(removed)};
    manifest.files.push_back(listed);
    entries.push_back({folder + "/" + listed.name, std::move(text)});
  }
  redact::Removals in_reasons;
  for (const Omission& omission : contents.omitted)
    manifest.omitted.push_back({redactor.redact(omission.what, in_reasons), redactor.redact(omission.why, in_reasons)});
  // First in the archive: who looks into it with other tools sees what is inside before anything else.
  entries[0] = {fmt::format("{}/{}", folder, kManifestFile), indented(to_json(manifest))};
  GPUWARDEN_CHECK(check_size(entries));
  GPUWARDEN_TRY(const std::string bytes, pack(entries, head.created));
  GPUWARDEN_CHECK(write_file_atomically(path, bytes, kOwnerOnly));
  return manifest;
}

const std::string* Bundle::find(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &BundleFile::name);
  return found != files.end() ? &found->text : nullptr;
}

Result<Bundle> parse_bundle(std::string_view bytes, std::string_view name) {
  const std::string shown = printable(name);
  if (!is_archive(bytes))
    return fail(ErrorCode::corrupt, fmt::format("{} is not a gpuwarden bundle: it is not a .tar.gz file", shown),
                "gpuwarden bundle makes one");
  GPUWARDEN_TRY(std::vector<ArchiveEntry> entries, unpack(bytes, name));
  GPUWARDEN_CHECK(strip_folder(entries, shown));
  Bundle bundle;
  GPUWARDEN_TRY(bundle.manifest, manifest_in(entries, shown));
  GPUWARDEN_CHECK(check(bundle.manifest, entries, shown));
  for (ArchiveEntry& entry : entries) {
    const auto listed = std::ranges::find(bundle.manifest.files, entry.name, &ManifestFile::name);
    const std::string about = listed != bundle.manifest.files.end() ? listed->about : "what is inside";
    bundle.files.push_back({entry.name, about, std::move(entry.content), entry.name.ends_with(".json")});
  }
  return bundle;
}

Result<Bundle> read_bundle(const std::filesystem::path& path) {
  GPUWARDEN_TRY(const std::string bytes, read_file(path, ArchiveLimits{}.all_bytes));
  return parse_bundle(bytes, path.string());
}

Result<std::string> capture_text(std::string bytes, std::string_view name) {
  if (!is_archive(bytes)) return bytes;
  // One gzipped file is tried second: a damaged tar would be such a file too, full of zeros.
  const auto inside =
      bytes.starts_with("\x1f\x8b") ? unzip(bytes, name, {.entry_bytes = kDefaultFileCap}) : Result<std::string>(bytes);
  if (inside && !is_archive(*inside)) return *inside;
  GPUWARDEN_TRY(const Bundle bundle, parse_bundle(bytes, name));
  if (const std::string* facts = bundle.find(kSnapshotFile)) return *facts;
  return fail(ErrorCode::corrupt, fmt::format("{} has no {}", printable(name), kSnapshotFile));
}

}  // namespace gpuwarden::bundle
