// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/host_name.hpp"

namespace gpuwarden {
namespace {

std::string stat_text(int parent, int ticks) {
  return "77 (a ) (b) S " + std::to_string(parent) + " 1 1 0 -1 4194560 1 2 3 4 " + std::to_string(ticks) +
         " 5 0 0 20 0 1 0 12345 999 256 18446744073709551615 1 1\n";
}

TEST(ProcStat, IsReadBehindTheLastParenthesis) {
  const auto stat = parse_proc_stat(stat_text(42, 10));
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->parent, Pid{42});
  EXPECT_EQ(stat->cpu_ticks, 15U);
  EXPECT_EQ(stat->start_ticks, 12345U);
  EXPECT_EQ(stat->resident_pages, 256U);
  for (const std::string_view text :
       {"", "77 (a", "77 (a) S 1 2", "77 (a) S x 1 1 0 -1 4 1 2 3 4 5 6 0 0 20 0 1 0 1 9 2 1"})
    EXPECT_FALSE(parse_proc_stat(text).has_value()) << text;
}

class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~Child() {
    if (status_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Pid pid() const { return Pid{pid_}; }
  int wait_for_signal() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    status_ = status;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_;
  std::optional<int> status_;
};

TEST(SendSignal, ReachesTheProcessThatIsMeant) {
  Child child;
  const auto stat = parse_proc_stat(read_file("/proc/" + std::to_string(child.pid().value) + "/stat").value_or(""));
  ASSERT_TRUE(stat.has_value());
  const auto another = send_signal(child.pid(), stat->start_ticks + 1, SIGTERM);
  ASSERT_FALSE(another.has_value()) << "a process that started at another time is another";
  EXPECT_EQ(another.error().code, ErrorCode::not_found);
  ASSERT_TRUE(send_signal(child.pid(), stat->start_ticks, SIGTERM).has_value());
  EXPECT_EQ(child.wait_for_signal(), SIGTERM);
  EXPECT_EQ(send_signal(child.pid(), std::nullopt, SIGTERM).error().code, ErrorCode::not_found);
  EXPECT_EQ(send_signal(Pid{1}, std::nullopt, SIGTERM).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(send_signal(Pid{-1}, std::nullopt, SIGTERM).error().code, ErrorCode::invalid_argument);
}

TEST(HostName, IsTheKernels) {
  const auto kernels = read_line("/proc/sys/kernel/hostname");
  ASSERT_TRUE(kernels.has_value());
  EXPECT_EQ(own_host_name(), *kernels);
}

}  // namespace
}  // namespace gpuwarden
