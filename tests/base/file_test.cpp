// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

TEST(ReadFile, ReadsWhatWasWritten) {
  const TempDir dir;
  ASSERT_THAT(write_file_atomically(dir / "f", "one\ntwo\n"), IsOk());
  EXPECT_THAT(read_file(dir / "f"), IsOkAnd(std::string("one\ntwo\n")));
  EXPECT_EQ(read_line(dir / "f"), "one");
}

TEST(ReadFile, ALineIsReadWithoutWhatFollowsIt) {
  const TempDir dir;
  put(dir / "much", " first \n" + std::string(std::size_t{2} << 20U, 'x'));
  EXPECT_EQ(read_line(dir / "much"), "first");
  put(dir / "long", std::string(5000, 'y'));
  EXPECT_EQ(read_line(dir / "long"), std::string(5000, 'y'));
  put(dir / "endless", std::string(std::size_t{2} << 20U, 'z'));
  EXPECT_EQ(read_line(dir / "endless"), std::nullopt);
  put(dir / "empty", "");
  EXPECT_EQ(read_line(dir / "empty"), "");
  EXPECT_EQ(read_line(dir.path()), std::nullopt);
}

TEST(ReadFile, NamesTheFileThatIsMissingOrTooLarge) {
  const TempDir dir;
  put(dir / "big", std::string(2000, 'x'));
  EXPECT_THAT(read_file(dir / "none"), FailsWith(ErrorCode::not_found, HasSubstr("none")));
  EXPECT_THAT(read_file(dir / "big", 1000), FailsWith(ErrorCode::invalid_argument, HasSubstr("big")));
  EXPECT_EQ(read_line(dir / "none"), std::nullopt);
}

TEST(WriteFileAtomically, ReplacesAndLeavesNothingBehind) {
  const TempDir dir;
  ASSERT_THAT(write_file_atomically(dir / "f", "old"), IsOk());
  ASSERT_THAT(write_file_atomically(dir / "f", "new"), IsOk());
  EXPECT_THAT(read_file(dir / "f"), IsOkAnd(std::string("new")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
  EXPECT_FALSE(write_file_atomically(dir / "no/such/folder", "x").has_value());
}

TEST(WriteOutput, ReplacesAFileAndFollowsALink) {
  const TempDir dir;
  put(dir / "target", "old");
  std::filesystem::create_symlink("target", dir / "link");
  ASSERT_THAT(write_output(dir / "link", "new"), IsOk());
  EXPECT_THAT(read_file(dir / "target"), IsOkAnd(std::string("new")));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  ASSERT_THAT(write_output(dir / "other", "new"), IsOk());
  EXPECT_THAT(read_file(dir / "other"), IsOkAnd(std::string("new")));
  EXPECT_FALSE(write_output(dir.path(), "x").has_value()) << "a folder";
}

TEST(WriteOutput, AFileInSharedMemoryIsAFile) {
  const std::string name = "/dev/shm/gpuwarden-test-" + std::to_string(::getpid());
  const ScopeGuard remove([&] { std::filesystem::remove(name); });
  for (const char* text : {"the first", "another"}) {
    ASSERT_THAT(write_output(name, text), IsOk());
    EXPECT_THAT(read_file(name), IsOkAnd(std::string(text)));
  }
}

TEST(WriteOutput, ALinkToNothingIsFollowedAndARingOfThemRefused) {
  const TempDir dir;
  std::filesystem::create_symlink("none", dir / "dangling");
  ASSERT_THAT(write_output(dir / "dangling", "text"), IsOk());
  EXPECT_THAT(read_file(dir / "none"), IsOkAnd(std::string("text")));
  std::filesystem::create_symlink("ring", dir / "ring");
  EXPECT_FALSE(can_write_output(dir / "ring"));
  EXPECT_THAT(write_output(dir / "ring", "text"), FailsWith(ErrorCode::failed, HasSubstr("ring")));
}

TEST(WriteOutput, AnotherUsersLinkInASharedFolderIsNotFollowed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's link";
  const TempDir dir;
  const auto shared = dir / "shared";
  std::filesystem::create_directory(shared);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  put(dir / "victim", "kept");
  std::filesystem::create_symlink(dir / "victim", shared / "r.json");
  ASSERT_EQ(::lchown((shared / "r.json").c_str(), 65534, 65534), 0);
  EXPECT_FALSE(can_write_output(shared / "r.json"));
  EXPECT_THAT(write_output(shared / "r.json", "x"),
              FailsWith(ErrorCode::permission_denied, HasSubstr("another user's")));
  EXPECT_THAT(read_file(dir / "victim"), IsOkAnd(std::string("kept")));
}

TEST(WriteOutput, GoesIntoAPipeAndLeavesIt) {
  const TempDir dir;
  const auto pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_THAT(write_output(pipe, "text"), IsOk());
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_THAT(read_descriptor(reader.get(), "the pipe"), IsOkAnd(std::string("text")));
}

TEST(WriteOutput, ADashAndADeviceAreStandardOutput) {
  for (const char* name : {"-", "/dev/stdout"}) {
    ::testing::internal::CaptureStdout();
    EXPECT_THAT(write_output(name, "text"), IsOk()) << name;
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "text") << name;
  }
}

TEST(ScopeGuard, RunsUnlessReleased) {
  int runs = 0;
  {
    const ScopeGuard guard([&] { ++runs; });
  }
  {
    ScopeGuard guard([&] { ++runs; });
    guard.release();
  }
  EXPECT_EQ(runs, 1);
}

TEST(FakeClock, AnHourTakesNoTime) {
  FakeClock clock;
  const auto start = clock.now();
  EXPECT_TRUE(clock.sleep_for(std::chrono::hours(1), {}));
  EXPECT_EQ(clock.now() - start, std::chrono::hours(1));
}

TEST(SystemClock, WakesWhenStopped) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(system_clock().sleep_for(std::chrono::hours(1), stop.get_token()));
  EXPECT_TRUE(system_clock().sleep_for(std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace gpuwarden
