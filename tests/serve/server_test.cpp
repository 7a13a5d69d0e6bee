// SPDX-License-Identifier: Apache-2.0
// Over real sockets, on a free port of loopback.
#include "gpuwarden/serve/server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "serve/connections.hpp"
#include "serve/fake_server.hpp"
#include "support/http_client.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;
using testing::HttpClient;
using ::testing::StartsWith;

class OverSockets : public testing::FakeServer {
 protected:
  void start(ServerOptions options = {}) {
    std::signal(SIGPIPE, SIG_IGN);
    options.address = access_.address;
    options.address.port = 0;
    auto server = Server::listen(std::move(options));
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
    // Real time: the connections' own is measured.
    sources_.clock = &system_clock();
    watch_.reading->when = system_clock().now();
    sources_.interval = std::chrono::minutes(1);
    thread_ = std::jthread([this](const std::stop_token& stop) { server_->run(sources_, stop); });
  }
  std::uint16_t port() const { return server_->address().port; }

  std::unique_ptr<Server> server_;
  std::jthread thread_;
};

TEST_F(OverSockets, AnswersAndKeepsTheConnection) {
  start();
  HttpClient client(port());
  client.send("GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_until("ready\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  client.send("GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_until("token_needed"), HasSubstr("application/json"));
  EXPECT_EQ(server_->url(), fmt::format("http://127.0.0.1:{}", port()));
}

TEST_F(OverSockets, HeadHasTheLengthAndNoBody) {
  start();
  HttpClient client(port());
  client.send("HEAD /-/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string text = client.read_until("\x01 never");
  EXPECT_THAT(text, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_TRUE(text.ends_with("\r\n\r\n")) << text;
}

TEST_F(OverSockets, BadRequestsAreRefusedAndTheServerGoesOn) {
  start();
  for (const char* bad :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x01\x01\xff",
        "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    HttpClient client(port());
    client.send(bad);
    client.send("\r\n\r\n");
    const std::string text = client.read_until("\r\n\r\n");
    EXPECT_EQ(text.find("HTTP/1.1 200"), std::string::npos) << bad;
  }
  HttpClient client(port());
  EXPECT_THAT(client.ask("/-/ready"), HasSubstr("ready"));
}

TEST_F(OverSockets, ALongHeaderIsNotRead) {
  start();
  HttpClient client(port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
  for (int i = 0; i < 20; ++i) client.send(std::string(1024, 'x'));
  client.send("\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n").find(" 200 "), std::string::npos);
}

TEST_F(OverSockets, EventsComeAsTheyAreTold) {
  start();
  HttpClient client(port());
  client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_until("retry: 2000"), HasSubstr("text/event-stream"));
  tell_alert(events_, {telemetry::AlertChange::Kind::began, watch_.active[0], false});
  EXPECT_THAT(client.read_until("\"rule\":\"hot\""), HasSubstr("event: alert"));
}

TEST_F(OverSockets, AListenerWhoLeavesIsForgotten) {
  start();
  {
    HttpClient client(port());
    client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.read_until("retry: 2000");
    EXPECT_EQ(events_.listeners(), 1U);
  }
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] {
    tell_alert(events_, {telemetry::AlertChange::Kind::began, watch_.active[0], false});
    return events_.listeners() == 0;
  }));
}

TEST_F(OverSockets, WhoSaysNothingIsHungUpOn) {
  start({.patience = std::chrono::seconds(1)});
  HttpClient silent(port());
  HttpClient slow(port());
  slow.send("GET / HT");
  EXPECT_EQ(silent.read_until("never").find(" 200 "), std::string::npos);
  // A byte now and then does not help.
  const bool gone = testing::eventually(testing::kSoon, [&] { return !slow.send("T") || !slow.send("P"); });
  EXPECT_TRUE(gone);
}

TEST_F(OverSockets, MoreConnectionsThanAllowedWaitUntilOneIsClosed) {
  start({.most_connections = 3, .patience = std::chrono::seconds(30)});
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 3; ++i) {
    idle.push_back(std::make_unique<HttpClient>(port()));
    idle.back()->send("GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
    idle.back()->read_until("ready\n");
  }
  HttpClient next(port());
  idle.pop_back();
  EXPECT_THAT(next.ask("/-/ready"), HasSubstr("ready"));
}

TEST_F(OverSockets, TheUserAtTheOtherEndIsKnown) {
  access_.owner = ::getuid();
  start();
  HttpClient client(port());
  const std::string answered = client.ask("/api/v1/session");
  // Where /proc/net is hidden nobody is known, and nothing shown.
  const bool known = ::access("/proc/net/tcp", R_OK) == 0;
  EXPECT_THAT(answered, HasSubstr(known ? "\"sees_commands\":true" : "\"sees_commands\":false"));
}

TEST_F(OverSockets, APortInUseIsNamed) {
  start();
  ServerOptions options;
  options.address = server_->address();
  EXPECT_THAT(Server::listen(std::move(options)),
              testing::FailsWith(ErrorCode::failed, fmt::format("port {} on 127.0.0.1 is in use", port())));
}

TEST_F(OverSockets, StopEndsStreamsAndAnswersNoMore) {
  start();
  HttpClient client(port());
  client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_until("retry: 2000");
  thread_.request_stop();
  thread_.join();
  EXPECT_THAT(client.read_until("\x01 never"), HasSubstr("\r\n0\r\n\r\n"));
  EXPECT_EQ(HttpClient(port()).ask("/-/ready"), "");
}

TEST(ServeTls, RefusesWhatIsNoCertificate) {
  const testing::TempDir dir;
  testing::put(dir / "cert.pem", "no certificate\n");
  testing::put(dir / "key.pem", "no key\n");
  ServerOptions options;
  options.address = {"127.0.0.1", 0, true, false};
  options.certificate = dir / "cert.pem";
  options.key = dir / "key.pem";
  EXPECT_THAT(Server::listen(std::move(options)),
              testing::FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot use the certificate")));
}

TEST_F(OverSockets, SpeaksTls) {
  const testing::TempDir dir;
  const auto made =
      testing::run_patiently({.argv = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                       "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost", "-days", "2",
                                       "-keyout", (dir / "key.pem").string(), "-out", (dir / "cert.pem").string()}});
  if (!made || made->exit_code != 0) GTEST_SKIP() << "openssl is not installed";
  start({.certificate = dir / "cert.pem", .key = dir / "key.pem"});
  const auto asked = testing::run_patiently(
      {.argv = {"openssl", "s_client", "-quiet", "-verify_quiet", "-connect", fmt::format("127.0.0.1:{}", port())},
       .standard_input = "GET /-/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"});
  ASSERT_TRUE(asked.has_value());
  EXPECT_THAT(asked->standard_output, HasSubstr("200 OK"));
  EXPECT_THAT(server_->url(), StartsWith("https://"));
}

TEST(Connections, FindTheUserInTheKernelsTable) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  const auto fill = [](sockaddr_storage& storage, std::uint16_t port) {
    auto& address = reinterpret_cast<sockaddr_in&>(storage);
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  };
  fill(here, 0x1f90);
  fill(there, 0xa1b2);
  constexpr std::string_view kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1\n"
      "   1: 0100007F:1F90 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n";
  EXPECT_EQ(user_in(kTable, there, here), 1000U);
  EXPECT_EQ(user_in(kTable, here, there), 0U);
  EXPECT_EQ(user_in(kTable, here, here), std::nullopt);
  EXPECT_EQ(user_in("rubbish 0100007F:1F90", here, there), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::serve
