// SPDX-License-Identifier: Apache-2.0
// The helper that keeps root's rights; what needs no root of it.
#include "gpuwarden/serve/helper.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "serve/connections.hpp"
#include "serve/helper_request.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;

const Uuid kGpu("GPU-99a3bde5-abc9-8fa7-3a6c-963f33569b30");

TEST(HelperRequest, ComesBackAsItWasWritten) {
  for (const HelperRequest& request :
       {HelperRequest(PowerLimitRequest{kGpu, 300_W}), HelperRequest(SignalRequest{Pid{4242}, SIGTERM}),
        HelperRequest(DisableRequest{kGpu, "fan is loud, ticket 4711", "ann"}), HelperRequest(EnableRequest{kGpu})}) {
    const auto read = parse_helper_request(to_packet(request));
    ASSERT_TRUE(read.has_value()) << to_packet(request) << ": " << read.error().message;
    EXPECT_EQ(*read, request);
  }
}

TEST(HelperRequest, NothingElseCanBeAskedFor) {
  const std::string uuid = kGpu.value;
  for (const std::string& packet :
       std::vector<std::string>{std::string(),
                                std::string("\n"),
                                std::string("exec\n/bin/sh"),
                                "power\n" + uuid,
                                "power\n" + uuid + "\n0",
                                "power\n" + uuid + "\n-5",
                                "power\n" + uuid + "\n99999999",
                                "power\n" + uuid + "\n300000\nmore",
                                "power\n../../etc\x01\n300000",
                                std::string("power\n\n300000"),
                                "power\n" + std::string(97, 'G') + "\n300000",
                                std::string("signal\n1\nTERM"),
                                std::string("signal\n-1\nKILL"),
                                std::string("signal\n0\nKILL"),
                                std::string("signal\n4242\nSEGV"),
                                std::string("signal\n4242\n9"),
                                std::string("signal\n99999999999\nTERM"),
                                "disable\n" + uuid + "\n\nann",
                                "disable\n" + uuid + "\na\x1b[2Jb\nann",
                                "disable\n" + uuid + "\nreason",
                                "disable\n" + uuid + "\n" + std::string(2000, 'x') + "\nann",
                                "enable\n" + uuid + "\n",
                                std::string(kLongestPacket + 1, 'x')}) {
    EXPECT_THAT(parse_helper_request(packet), testing::FailsWith(ErrorCode::invalid_argument, HasSubstr("helper")))
        << packet.substr(0, 60);
  }
}

TEST(HelperRequest, ARightThatWasNotAskedForIsRefused) {
  const HelperRights none;
  for (const HelperRequest& request :
       {HelperRequest(PowerLimitRequest{kGpu, 300_W}), HelperRequest(SignalRequest{Pid{4242}, SIGTERM}),
        HelperRequest(DisableRequest{kGpu, "reason", "ann"}), HelperRequest(EnableRequest{kGpu})})
    EXPECT_THAT(obey(to_packet(request), -1, none),
                testing::FailsWith(ErrorCode::permission_denied, HasSubstr("no right to")));
}

/// Both ends of a connection over loopback.
struct Connection {
  Connection() {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
    client.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    server.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  UniqueFd client;
  UniqueFd server;
};

/// A process that waits for a signal.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Pid pid() const { return Pid{pid_}; }
  /// The signal that ended it.
  int end() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_;
};

TEST(HelperSignal, IsSentInTheNameOfAUser) {
  Sleeper sleeper;
  ASSERT_THAT(signal_as(::getuid(), sleeper.pid(), SIGUSR1), testing::IsOk());
  EXPECT_EQ(sleeper.end(), SIGUSR1);
}

TEST(HelperSignal, AnothersProcessGetsNone) {
  // SIGCONT is what any process of one's own session may be sent, so the session may not be the server's.
  constexpr std::uint32_t kNobody = 65534;
  if (::getuid() == kNobody) GTEST_SKIP() << "this is nobody";
  const Sleeper sleeper;
  for (const int signal : {SIGUSR1, SIGCONT})
    EXPECT_THAT(signal_as(kNobody, sleeper.pid(), signal),
                testing::FailsWith(ErrorCode::permission_denied, HasSubstr("not that of user 65534")));
}

TEST(HelperSignal, WithoutAConnectionNobodyAsks) {
  Sleeper sleeper;
  const HelperRights rights{.signals = true};
  EXPECT_THAT(obey(to_packet(SignalRequest{sleeper.pid(), SIGTERM}), -1, rights),
              testing::FailsWith(ErrorCode::permission_denied, HasSubstr("whose request")));
}

TEST(HelperSignal, GoesToTheProcessesOfWhoeverIsConnected) {
  Connection connection;
  const auto user = user_behind(connection.server.get());
  if (!user) GTEST_SKIP() << "/proc/net/tcp does not tell users here";
  EXPECT_EQ(*user, ::getuid());
  Sleeper sleeper;
  const HelperRights rights{.signals = true};
  const auto sent = obey(to_packet(SignalRequest{sleeper.pid(), SIGTERM}), connection.server.get(), rights);
  if (::getuid() == 0) {
    EXPECT_THAT(sent, testing::FailsWith(ErrorCode::permission_denied, HasSubstr("for root")));
  } else {
    EXPECT_THAT(sent, testing::IsOk());
    EXPECT_EQ(sleeper.end(), SIGTERM);
  }
}

TEST(Helper, DoesWhatItMayInAProcessOfItsOwn) {
  HelperRights rights;
  rights.set_power_limit = [](const Uuid& gpu, Milliwatts limit) -> Result<Milliwatts> {
    if (gpu != kGpu) return fail(ErrorCode::not_found, "there is no GPU 'x'", "gpuwarden list");
    return Milliwatts(limit.value + ::getpid());
  };
  const auto helper = Helper::start(std::move(rights));
  ASSERT_TRUE(helper.has_value()) << helper.error().message;
  EXPECT_NE((*helper)->pid(), ::getpid());
  const auto limit = (*helper)->set_power_limit(kGpu, 300_W);
  ASSERT_TRUE(limit.has_value()) << limit.error().message;
  EXPECT_EQ(limit->value, 300000 + (*helper)->pid());
  const auto unknown = (*helper)->set_power_limit(Uuid("GPU-x"), 300_W);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error(), (Error{ErrorCode::not_found, "there is no GPU 'x'", "gpuwarden list"}));
  EXPECT_THAT((*helper)->disable(kGpu, "reason", "ann"),
              testing::FailsWith(ErrorCode::permission_denied, HasSubstr("no right to disable")));
}

TEST(Helper, HasNothingOpenThatItsServerHas) {
  const UniqueFd secret(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const int number = secret.get();
  HelperRights rights;
  rights.set_power_limit = [number](const Uuid&, Milliwatts) -> Result<Milliwatts> {
    return Milliwatts(::fcntl(number, F_GETFD) < 0 ? 1 : 2);
  };
  const auto helper = Helper::start(std::move(rights));
  ASSERT_TRUE(helper.has_value());
  EXPECT_EQ((*helper)->set_power_limit(kGpu, 300_W), Milliwatts(1));
}

TEST(Helper, ThatHasEndedIsSaid) {
  HelperRights rights;
  rights.enable = [](const Uuid&) -> Result<void> { ::_exit(1); };
  const auto helper = Helper::start(std::move(rights));
  ASSERT_TRUE(helper.has_value());
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT((*helper)->enable(kGpu), testing::FailsWith(ErrorCode::unavailable, HasSubstr("has ended")));
}

TEST(Helper, ManyMayAskAtOnce) {
  HelperRights rights;
  rights.set_power_limit = [](const Uuid&, Milliwatts limit) -> Result<Milliwatts> { return limit; };
  const auto helper = Helper::start(std::move(rights));
  ASSERT_TRUE(helper.has_value());
  std::vector<std::jthread> askers;
  for (int asker = 1; asker <= 4; ++asker) {
    askers.emplace_back([&, asker] {
      for (int i = 1; i <= 25; ++i) {
        const Milliwatts wanted(asker * 1000 + i);
        EXPECT_EQ((*helper)->set_power_limit(kGpu, wanted), wanted);
      }
    });
  }
}

}  // namespace
}  // namespace gpuwarden::serve
