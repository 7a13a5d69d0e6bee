// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/captures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/facts/json.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::logs {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::put;
using testing::TempDir;

constexpr const char* kList = "GPU 0: Tesla T4 (UUID: GPU-5b9bd8d2-2d8b-4ad8-8c12-5b0f6bd8b801)\n";

TEST(Captures, ASnapshotOfThisProgramIsReadBack) {
  const TempDir dir;
  put(dir / "node.json", facts::to_json(testing::fleet(4)).dump());
  const auto capture = read_captures({(dir / "node.json").string()});
  ASSERT_THAT(capture, IsOk());
  EXPECT_EQ(capture->snapshot.gpus.size(), 4U);
}

TEST(Captures, AMissingFileIsNamed) {
  EXPECT_THAT(read_captures({"/nowhere/node.json"}), FailsWith(ErrorCode::not_found, HasSubstr("/nowhere/node.json")));
}

TEST(Captures, AFileThatTellsOfNoMachineIsRefused) {
  const TempDir dir;
  put(dir / "notes.txt", "buy milk\n");
  EXPECT_FALSE(read_captures({(dir / "notes.txt").string()}));
}

TEST(Captures, APipeIsReadUntilItsWriterEnds) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  const std::jthread writer([&] { put(dir / "pipe", kList); });
  const auto capture = read_captures({(dir / "pipe").string()});
  ASSERT_THAT(capture, IsOk());
  EXPECT_EQ(capture->snapshot.gpus.size(), 1U);
}

constexpr const char* kOutOfMemory =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 5.25 MiB is free.\n";

TEST(Captures, ALogWithoutFactsIsHandedToDiagnose) {
  const TempDir dir;
  put(dir / "list.txt", kList);
  put(dir / "run.log", kOutOfMemory);
  EXPECT_THAT(read_captures({(dir / "list.txt").string(), (dir / "run.log").string()}),
              FailsWith(ErrorCode::corrupt, HasSubstr("run.log: a log of a failure")));
}

}  // namespace
}  // namespace gpuwarden::logs
