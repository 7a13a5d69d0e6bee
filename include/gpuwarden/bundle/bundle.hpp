// SPDX-License-Identifier: Apache-2.0
// The bundle: one archive with all that is known about a machine, for a ticket; and reading it back.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/redact/redact.hpp"

namespace gpuwarden::bundle {

/// The facts, as `gpuwarden snapshot` writes them: what --from reads.
inline constexpr std::string_view kSnapshotFile = "snapshot.json";
inline constexpr std::string_view kManifestFile = "MANIFEST.json";

/// A text for the bundle, or out of one.
struct BundleFile {
  std::string name;   ///< "snapshot.json", "logs/train.log"
  std::string about;  ///< what it is, in a few words
  std::string text;
  bool json = false;  ///< a document: secrets are looked for by its keys, and it stays one
};

/// What is not in the bundle though one might expect it.
struct Omission {
  std::string what;
  std::string why;
  bool operator==(const Omission&) const = default;
};

struct Contents {
  std::vector<BundleFile> files;
  std::vector<Omission> omitted;
};

struct ManifestFile {
  std::string name;
  std::string about;
  std::uint64_t size = 0;  ///< bytes
  std::string sha256;
  std::map<std::string, std::size_t> removed;  ///< how many of which kind ("access token")
  bool operator==(const ManifestFile&) const = default;
};

/// What is inside, and what was taken out.
struct Manifest {
  std::string program_version;
  std::string created;  ///< "2026-11-20T14:03:07Z"
  bool simulated = false;
  bool anonymized = false;
  std::vector<ManifestFile> files;
  std::vector<Omission> omitted;
  bool operator==(const Manifest&) const = default;

  /// Over all files.
  std::map<std::string, std::size_t> removed() const;
};
nlohmann::json to_json(const Manifest& manifest);
/// As `gpuwarden bundle --json` prints it: the manifest of the archive `file`.
nlohmann::json to_json(const Manifest& manifest, const std::string& file);
/// Fails with corrupt, naming the key.
Result<Manifest> manifest_from_json(const nlohmann::json& json);

/// Who makes the bundle, and of what.
struct BundleHead {
  std::string program_version;
  std::chrono::system_clock::time_point created;
  bool simulated = false;
};

/// Fails with invalid_argument where writing a bundle to `path` would destroy something: one of `sources` (files that
/// go into it), or any file that is there and is neither a bundle nor empty.
Result<void> check_output(const std::filesystem::path& path, const std::vector<std::string>& sources = {});

/// Redacts all texts and writes them with their manifest to `path` (.tar.gz), which only its owner may read and which
/// is complete or not there. Replaces an older bundle, and nothing else (check_output). `redactor` has no need to have
/// learned the texts before.
Result<Manifest> write_bundle(const std::filesystem::path& path, const Contents& contents, redact::Redactor redactor,
                              const BundleHead& head);

struct Bundle {
  Manifest manifest;
  std::vector<BundleFile> files;
  /// The text of this name; nullptr where there is none.
  const std::string* find(std::string_view name) const;
};

/// Reads a bundle from memory, or from a file of at most 256 MiB. Fails with corrupt where it is none, holds what its
/// manifest does not, or differs from it; nothing is ever unpacked to the disk.
Result<Bundle> parse_bundle(std::string_view bytes, std::string_view name);
Result<Bundle> read_bundle(const std::filesystem::path& path);

/// What a file given to --from has to say: the facts of a bundle, a gzipped text unpacked, any other text as it is.
Result<std::string> capture_text(std::string bytes, std::string_view name);

}  // namespace gpuwarden::bundle
