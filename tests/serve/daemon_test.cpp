// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/daemon.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "gpuwarden/base/unique_fd.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;

TEST(Notify, SendsADatagramToTheSocketOfTheEnvironment) {
  const testing::TempDir dir;
  const std::string path = (dir / "notify").string();
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(notify({{"NOTIFY_SOCKET", path}}, "READY=1"), testing::IsOk());
  std::array<char, 64> buffer{};
  const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  EXPECT_EQ(std::string(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0), "READY=1");
}

TEST(Notify, DoesNothingWithoutASocketAndFailsWithoutAListener) {
  EXPECT_THAT(notify({}, "READY=1"), testing::IsOk());
  EXPECT_FALSE(notify({{"NOTIFY_SOCKET", "/nowhere/at/all"}}, "READY=1").has_value());
  EXPECT_THAT(notify({{"NOTIFY_SOCKET", "relative"}}, "READY=1"),
              testing::FailsWith(ErrorCode::invalid_argument, HasSubstr("is not a socket's name")));
}

TEST(Watchdog, IsToldAtHalfOfItsTimeWhereItIsThisProcesss) {
  using std::chrono::microseconds;
  EXPECT_EQ(watchdog_interval({{"WATCHDOG_USEC", "30000000"}}), microseconds(15000000));
  EXPECT_EQ(watchdog_interval({{"WATCHDOG_USEC", "10"}, {"WATCHDOG_PID", std::to_string(::getpid())}}),
            microseconds(5));
  EXPECT_EQ(watchdog_interval({{"WATCHDOG_USEC", "10"}, {"WATCHDOG_PID", "1"}}), std::nullopt);
  EXPECT_EQ(watchdog_interval({{"WATCHDOG_USEC", "x"}}), std::nullopt);
  EXPECT_EQ(watchdog_interval({}), std::nullopt);
}

TEST(Reloading, NamesTheMonotonicTime) {
  EXPECT_TRUE(reloading_message().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_GT(reloading_message().size(), 30U);
}

}  // namespace
}  // namespace gpuwarden::serve
