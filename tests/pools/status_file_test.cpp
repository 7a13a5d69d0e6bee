// SPDX-License-Identifier: Apache-2.0
// What a process tells of memory that is not gpuwarden's pool. That of a pool is tested in tests/bindings.
#include "gpuwarden/pools/status_file.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gpuwarden/base/file.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::pools {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TempDir;

PublishedPool of_torch(Bytes live) {
  return {.process = {}, .gpu = Uuid("GPU-7"), .strategy = "pytorch", .live = live, .reserved = 8_MiB};
}

TEST(StatusFile, TellsOthersOfThisProcessUntilItsEnd) {
  const TempDir folder;
  const auto pools = folder.path() / "pools";
  {
    const auto file = StatusFile::create(pools, system_clock());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_THAT(published_pools({pools}), IsEmpty()) << "nothing is told yet";
    ASSERT_TRUE((*file)->write(of_torch(5_MiB)));
    ASSERT_TRUE((*file)->write(of_torch(6_MiB)));
    const auto told = published_pools({pools});
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].process, own_mark());
    EXPECT_EQ(told[0].live, 6_MiB);
    EXPECT_EQ(told[0].strategy, "pytorch");
    EXPECT_GT(told[0].time_unix_ms, 1'700'000'000'000U);
  }
  EXPECT_THAT(list_directory(pools), IsEmpty());
}

TEST(StatusFile, AForkedChildNeitherWritesNorRemovesIt) {
  const TempDir folder;
  auto file = StatusFile::create(folder.path() / "pools", system_clock());
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(of_torch(5_MiB)));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool wrote = (*file)->write(of_torch(9_MiB)).has_value();
    file->reset();
    ::_exit(wrote ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto told = published_pools({folder.path() / "pools"});
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].live, 5_MiB);
}

TEST(StatusFile, AFolderThatOthersCanWriteToIsRefused) {
  const TempDir folder;
  const auto pools = folder.path() / "pools";
  std::filesystem::create_directory(pools);
  ASSERT_EQ(::chmod(pools.c_str(), 0777), 0);
  EXPECT_THAT(StatusFile::create(pools, system_clock()),
              FailsWith(ErrorCode::permission_denied, HasSubstr("only this")));
}

}  // namespace
}  // namespace gpuwarden::pools
