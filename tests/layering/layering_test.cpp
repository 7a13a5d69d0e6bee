// SPDX-License-Identifier: Apache-2.0
// Holds the list of rooms in CMakeLists.txt against every #include: a room uses only rooms on floors below its own.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = GPUWARDEN_SOURCE_DIR;

struct Room {
  int floor = 0;
  std::set<std::string> depends;
};

std::map<std::string, Room> rooms() {
  std::map<std::string, Room> result;
  std::ifstream file(GPUWARDEN_ROOMS_FILE);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    Room room;
    words >> name >> room.floor;
    for (std::string depend; words >> depend;) room.depends.insert(depend);
    result[name] = room;
  }
  return result;
}

std::vector<fs::path> sources_under(const fs::path& folder) {
  std::vector<fs::path> result;
  if (!fs::exists(folder)) return result;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".cpp" || extension == ".hpp" || extension == ".c" || extension == ".h")
      result.push_back(entry.path());
  }
  return result;
}

/// The quoted includes of a file.
std::vector<std::string> includes_of(const fs::path& file) {
  std::vector<std::string> result;
  const auto content = read_file(file);
  EXPECT_TRUE(content.has_value()) << file;
  for (const auto line : split(content.value_or(""), '\n')) {
    if (!line.starts_with("#include \"")) continue;
    const auto rest = line.substr(10);
    result.emplace_back(rest.substr(0, rest.find('"')));
  }
  return result;
}

/// The room an include leads into ("gpuwarden/probe/x.hpp", "probe/x.hpp"), or empty.
std::string room_of(std::string_view include, const std::map<std::string, Room>& known) {
  if (include.starts_with("gpuwarden/")) include.remove_prefix(10);
  const std::string room(include.substr(0, include.find('/')));
  return known.contains(room) ? room : "";
}

TEST(Layers, TheListIsReadAndFloorsRise) {
  const auto known = rooms();
  ASSERT_GE(known.size(), 8U);
  for (const auto& [name, room] : known) {
    for (const auto& depend : room.depends) {
      ASSERT_TRUE(known.contains(depend)) << name << " depends on " << depend;
      EXPECT_LT(known.at(depend).floor, room.floor) << name << " depends on " << depend;
    }
  }
}

TEST(Layers, NoIncludeGoesUpOrSideways) {
  const auto known = rooms();
  int seen = 0;
  for (const auto& [name, room] : known) {
    for (const fs::path& base : {kRoot / "include/gpuwarden" / name, kRoot / "src" / name}) {
      for (const fs::path& file : sources_under(base)) {
        for (const auto& include : includes_of(file)) {
          const std::string target = room_of(include, known);
          ++seen;
          EXPECT_FALSE(include.starts_with("sim/") || include.starts_with("apps/")) << file << " includes " << include;
          if (target.empty() || target == name) continue;
          EXPECT_TRUE(room.depends.contains(target)) << file << " includes " << include;
          EXPECT_TRUE(include.starts_with("gpuwarden/")) << file << " reaches into " << include;
        }
      }
    }
  }
  EXPECT_GT(seen, 50) << "the scan saw next to nothing";
}

TEST(Layers, TheSimulatorStandsApart) {
  const std::set<std::string> allowed{"base", "facts", "knowledge", "yaml"};
  const auto known = rooms();
  for (const fs::path& file : sources_under(kRoot / "sim")) {
    for (const auto& include : includes_of(file)) {
      const std::string target = room_of(include, known);
      EXPECT_TRUE(target.empty() || allowed.contains(target)) << file << " includes " << include;
    }
  }
  for (const fs::path& file : sources_under(kRoot / "apps")) {
    for (const auto& include : includes_of(file)) {
      EXPECT_FALSE(include.starts_with("sim/")) << file << ": the simulator is reached through dlopen only";
    }
  }
}

TEST(Layers, HeavyHeadersStayOutOfPublicOnes) {
  for (const fs::path& file : sources_under(kRoot / "include")) {
    const auto content = read_file(file);
    ASSERT_TRUE(content.has_value());
    EXPECT_EQ(content->find("#include <nlohmann/json.hpp>"), std::string::npos) << file;
    EXPECT_TRUE(content->find("#include <yaml-cpp") == std::string::npos || file.parent_path().filename() == "yaml")
        << file;
    EXPECT_TRUE(content->starts_with("// SPDX-License-Identifier: Apache-2.0")) << file;
    EXPECT_NE(content->find("#pragma once"), std::string::npos) << file;
  }
}

}  // namespace
}  // namespace gpuwarden
