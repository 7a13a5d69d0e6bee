// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/overlays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::knowledge {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::put;
using testing::TempDir;

TEST(OverlayFiles, AreTheYamlFilesOfTheFoldersNamedInTheirOrder) {
  const TempDir dir;
  for (const char* name : {"b/2.yaml", "b/1.yml", "b/notes.txt", "a/3.yaml"}) put(dir / name, "");
  const auto files = overlay_files({{"GPUWARDEN_KNOWLEDGE_PATH", (dir / "b").string() + ":" + (dir / "a").string()},
                                    {"XDG_CONFIG_HOME", dir.path().string()}});
  EXPECT_THAT(files, ElementsAre(dir / "b/1.yml", dir / "b/2.yaml", dir / "a/3.yaml"));
}

TEST(OverlayFiles, OfTheUserComeFromXdgElseFromHome) {
  const TempDir dir;
  put(dir / "xdg/gpuwarden/knowledge/x.yaml", "");
  put(dir / "home/.config/gpuwarden/knowledge/h.yaml", "");
  const std::string home = (dir / "home").string();
  const auto x = dir / "xdg/gpuwarden/knowledge/x.yaml";
  const auto h = dir / "home/.config/gpuwarden/knowledge/h.yaml";
  EXPECT_THAT(overlay_files({{"HOME", home}}), Contains(h));
  const auto both = overlay_files({{"HOME", home}, {"XDG_CONFIG_HOME", (dir / "xdg").string()}});
  EXPECT_THAT(both, Contains(x));
  EXPECT_THAT(both, Not(Contains(h)));
}

TEST(ReadKnowledge, LaysEachFileOverTheOnesBefore) {
  const TempDir dir;
  put(dir / "1.yaml", "gpus: [{name: NVIDIA H100 PCIe, memory_gb: 95}, {name: NVIDIA L40S, memory_gb: 47}]\n");
  put(dir / "2.yaml", "gpus: [{name: NVIDIA H100 PCIe, memory_gb: 96}]\n");
  const auto knowledge = read_knowledge({dir / "1.yaml", dir / "2.yaml"});
  ASSERT_TRUE(knowledge) << knowledge.error().message;
  EXPECT_EQ(knowledge->model("NVIDIA H100 PCIe")->memory_gb, 96);
  EXPECT_EQ(knowledge->model("NVIDIA L40S")->memory_gb, 47);
}

TEST(ReadKnowledge, NamesTheFileThatIsWrongOrMissing) {
  const TempDir dir;
  put(dir / "bad.yaml", "nonsense: [\n");
  const auto bad = read_knowledge({dir / "bad.yaml"});
  EXPECT_THAT(bad, FailsWith(ErrorCode::invalid_argument, HasSubstr((dir / "bad.yaml").string())));
  EXPECT_THAT(read_knowledge({dir / "none.yaml"}), FailsWith(ErrorCode::not_found, HasSubstr("none.yaml")));
}

}  // namespace
}  // namespace gpuwarden::knowledge
