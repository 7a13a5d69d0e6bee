// SPDX-License-Identifier: Apache-2.0
#include "machine/fleet_source.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/machine/fleet_file.hpp"

namespace gpuwarden::machine {
namespace {

namespace fs = std::filesystem;

bool tells_all(const capture::Capture& capture) {
  return std::ranges::any_of(capture.parts, [](const capture::Part& part) {
    return part.kind == capture::Kind::smi_xml || part.kind == capture::Kind::smi_query ||
           part.kind == capture::Kind::gpuwarden_json;
  });
}

}  // namespace

Result<std::string> resolve_fleet(const std::string& spec, const SimulatorPlaces& places) {
  std::error_code ignored;
  if (!fs::is_regular_file(spec, ignored)) return spec;
  const std::string extension = fs::path(spec).extension();
  if (extension == ".yaml" || extension == ".yml") return spec;
  GPUWARDEN_TRY(std::string bytes, read_file(spec));
  GPUWARDEN_TRY(const std::string text, bundle::capture_text(std::move(bytes), spec));
  auto capture = capture::read_capture(text, spec);
  if (!capture) return text.starts_with('<') ? Result<std::string>(std::unexpected(capture.error())) : spec;
  GPUWARDEN_TRY(const std::string yaml,
                fleet_yaml_from(capture->snapshot, fs::path(spec).stem().string(), tells_all(*capture)));
  const fs::path folder =
      places.folder.empty() ? fs::path(fmt::format("/dev/shm/gpuwarden-sim-{}", ::geteuid())) : places.folder;
  fs::create_directories(folder, ignored);
  fs::permissions(folder, fs::perms::owner_all, ignored);
  const fs::path file = folder / fmt::format("{:016x}.yaml", std::hash<std::string>{}(yaml));
  GPUWARDEN_CHECK(write_file_atomically(file, yaml));
  return file.string();
}

}  // namespace gpuwarden::machine
