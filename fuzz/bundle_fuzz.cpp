// SPDX-License-Identifier: Apache-2.0
// The reader of archives, and of what is in them, on whatever somebody sends.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bundle/archive.hpp"
#include "gpuwarden/bundle/bundle.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden::bundle;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const ArchiveLimits limits{.entries = 8, .entry_bytes = 1U << 20U, .all_bytes = 2U << 20U};
  const auto entries = unpack(bytes, "fuzz", limits);
  if (!entries && entries.error().message.empty()) std::abort();
  std::size_t all = 0;
  for (const ArchiveEntry& entry : entries.value_or(std::vector<ArchiveEntry>{})) {
    all += entry.content.size();
    // "a../b" is an ordinary name.
    if (entry.name.starts_with('/') || ("/" + entry.name + "/").contains("/../")) std::abort();
  }
  if (all > limits.all_bytes) std::abort();
  const auto inside = unzip(bytes, "fuzz", limits);
  if (inside && inside->size() > limits.entry_bytes) std::abort();
  const auto bundle = parse_bundle(bytes, "fuzz");
  if (bundle && bundle->files.size() != bundle->manifest.files.size() + 1) std::abort();
  return 0;
}
