// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/launch/signals.hpp"

namespace gpuwarden::launch {
namespace {

std::string read_some(const UniqueFd& fd) {
  std::array<char, 65536> text{};
  const auto got = ::read(fd.get(), text.data(), text.size());
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

TEST(LineWriterTest, TakesProgressBarsAndLongLines) {
  const auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  Outlet outlet(pipe->write_end.get());
  LineWriter writer("[rank 0] ", outlet, UniqueFd());
  writer.add("10%\r20%\r");
  writer.add("line\r\nhalf");
  EXPECT_TRUE(writer.has_partial());
  writer.flush();
  outlet.pump();
  EXPECT_EQ(read_some(pipe->read_end), "[rank 0] 10%\n[rank 0] 20%\n[rank 0] line\n[rank 0] half\n");
}

TEST(LineWriterTest, NamesTheErrorOfALogThatIsFullAndStopsWritingToIt) {
  Outlet outlet(-1);
  LineWriter writer("", outlet, UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC)));
  EXPECT_TRUE(writer.has_log());
  writer.add("line\n");
  EXPECT_EQ(writer.log_error(), ENOSPC);
  EXPECT_FALSE(writer.has_log());
}

TEST(OutletTest, NeverWaitsForASlowReaderAndLosesNothing) {
  const auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  Outlet outlet(pipe->write_end.get());
  std::string all;
  while (all.size() < 300000) {
    const std::string line = "line " + std::to_string(all.size()) + "\n";
    outlet.write(line);
    all += line;
  }
  outlet.pump();
  EXPECT_TRUE(outlet.waiting()) << "more than a pipe holds";
  std::string got;
  while (got.size() < all.size()) {
    got += read_some(pipe->read_end);
    outlet.pump();
  }
  EXPECT_EQ(got, all);
  EXPECT_FALSE(outlet.waiting());
}

TEST(OutletTest, TellsAReaderThatLeftFromADiskThatIsFull) {
  const SignalScope no_signal(false);
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  pipe->read_end.reset();
  Outlet left(pipe->write_end.get());
  left.write("text");
  left.pump();
  EXPECT_TRUE(left.reader_gone());
  EXPECT_FALSE(left.error());
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Outlet disk(full.get());
  disk.write("text");
  disk.pump();
  EXPECT_FALSE(disk.reader_gone());
  EXPECT_EQ(disk.error(), ENOSPC);
}

}  // namespace
}  // namespace gpuwarden::launch
