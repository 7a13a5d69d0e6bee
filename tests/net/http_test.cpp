// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/net/http.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <thread>

#include "net/libcurl.hpp"
#include "net/url.hpp"
#include "support/http_server.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::HttpServer;
using testing::IsOk;
using testing::kSoon;
using ::testing::Not;
using ::testing::StartsWith;

/// An answer must come some time, however busy the machine is.
HttpRequest patient(std::string url) { return {.url = std::move(url), .timeout = kSoon}; }

TEST(Http, GetsAnAnswerWithItsStatusAndType) {
  const HttpServer server(
      [](const auto& request) { return http_answer(request.path() == "/a?b=c" ? 200 : 404, "hello"); });
  const auto answer = ask(patient(server.url("/a?b=c")));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "hello");
  EXPECT_EQ(answer->content_type, "text/plain");
  EXPECT_EQ(ask(patient(server.url("/x")))->status, 404) << "any status is an answer";
  EXPECT_THAT(server.requests()[0].head, StartsWith("GET /a?b=c HTTP/1.1"));
}

TEST(Http, PostsABodyWithHeaders) {
  const HttpServer server([](const auto&) { return http_answer(201, ""); });
  HttpRequest request = patient(server.url("/hook"));
  request.headers = {{"Authorization", "Bearer abc"}, {"Content-Type", "application/json"}};
  request.body = std::string(3'000'000, 'x');
  ASSERT_EQ(ask(request)->status, 201);
  const auto seen = server.requests().at(0);
  EXPECT_THAT(seen.head, AllOf(StartsWith("POST /hook HTTP/1.1"), HasSubstr("Authorization: Bearer abc"),
                               HasSubstr("Content-Type: application/json"), Not(HasSubstr("Expect"))));
  EXPECT_EQ(seen.body.size(), 3'000'000U);
}

TEST(Http, AsksManyAtTheSameTimeAndKeepsTheirOrder) {
  // Nobody is answered before all eight have asked.
  std::latch all(8);
  const HttpServer server([&](const auto& request) {
    all.arrive_and_wait();
    return http_answer(200, request.path());
  });
  std::vector<HttpRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(patient(server.url(fmt::format("/{}", i))));
  requests.insert(requests.begin() + 4, patient("ftp://example.org/"));
  const auto answers = ask_all(requests);
  ASSERT_EQ(answers.size(), 9U);
  for (std::size_t i = 0; i < 9; ++i) {
    if (i == 4) continue;
    ASSERT_THAT(answers[i], IsOk());
    EXPECT_EQ(answers[i]->body, fmt::format("/{}", i < 4 ? i : i - 1));
  }
  EXPECT_THAT(answers[4], FailsWith(ErrorCode::invalid_argument, HasSubstr("no http or https URL")));
}

TEST(Http, AsksNoMoreAtOnceThanItMay) {
  std::atomic<int> open = 0;
  std::atomic<int> most = 0;
  const HttpServer server([&](const auto&) {
    most = std::max(most.load(), ++open);
    std::this_thread::sleep_for(5ms);  // long enough to meet others, if there were any
    --open;
    return http_answer(200, "");
  });
  const std::vector<HttpRequest> requests(20, patient(server.url()));
  for (const auto& answer : ask_all(requests, 1)) EXPECT_THAT(answer, IsOk());
  EXPECT_EQ(most, 1);
}

TEST(Http, TimesOut) {
  const HttpServer server([](const auto&) { return std::string(); });
  HttpRequest request{.url = server.url("/secret-token")};
  request.timeout = 50ms;
  EXPECT_THAT(ask(request), FailsWith(ErrorCode::timed_out,
                                      AllOf(HasSubstr("did not answer within 50 ms"), Not(HasSubstr("secret")))));
}

TEST(Http, StopsAtOnce) {
  const HttpServer server([](const auto&) { return std::string(); });
  std::stop_source stop;
  std::jthread stopper([&] {
    EXPECT_TRUE(testing::eventually(kSoon, [&] { return !server.requests().empty(); }));
    stop.request_stop();
  });
  HttpRequest request{.url = server.url()};
  request.timeout = 1h;
  EXPECT_THAT(ask(request, stop.get_token()), FailsWith(ErrorCode::interrupted, HasSubstr("stopped")));
  EXPECT_THAT(ask(request, stop.get_token()), FailsWith(ErrorCode::interrupted, HasSubstr("stopped")));
}

TEST(Http, SaysThatNobodyAnswers) {
  std::string url;
  {
    url = HttpServer([](const auto&) { return std::string(); }).url("/hook/secret");
  }
  EXPECT_THAT(ask(patient(url)),
              FailsWith(ErrorCode::unavailable, AllOf(HasSubstr("127.0.0.1:"), Not(HasSubstr("secret")))));
}

TEST(Http, TakesNoMoreThanItsCap) {
  const HttpServer server([](const auto&) { return http_answer(200, std::string(100'000, 'x')); });
  HttpRequest request = patient(server.url());
  request.most_bytes = 100'000;
  EXPECT_EQ(ask(request)->body.size(), 100'000U);
  request.most_bytes = 99'999;
  EXPECT_THAT(ask(request), FailsWith(ErrorCode::failed, HasSubstr("is larger than 97.7 KiB")));
}

TEST(Http, FollowsRedirectionsOfAPlainGetToHttpOnly) {
  const HttpServer server([](const HttpServer::Request& request) {
    if (request.path() == "/file") return http_answer(302, "", "Location: file:///etc/passwd\r\n");
    if (request.path() == "/loop") return http_answer(302, "", "Location: /loop\r\n");
    if (request.path() == "/from") return http_answer(302, "", "Location: /to\r\n");
    return http_answer(200, "here");
  });
  EXPECT_EQ(ask(patient(server.url("/from")))->body, "here");
  EXPECT_THAT(ask(patient(server.url("/file"))), FailsWith(ErrorCode::invalid_argument, HasSubstr("127.0.0.1")));
  EXPECT_THAT(ask(patient(server.url("/loop"))), FailsWith(ErrorCode::unavailable, HasSubstr("edirect")));
  HttpRequest secret = patient(server.url("/from"));
  secret.headers = {{"X-Token", "abc"}};
  EXPECT_EQ(ask(secret)->status, 302) << "a token goes nowhere else";
}

TEST(Http, RefusesWhatIsNoUrlOrHeader) {
  for (const char* const url : {"", "http://", "https://", "file:///etc/passwd", "example.org", "http:///x",
                                "http://a b/", "http://a\r\nHost: b/", "gopher://x", "javascript:1"}) {
    EXPECT_THAT(ask({.url = url}), FailsWith(ErrorCode::invalid_argument, HasSubstr("no http or https URL"))) << url;
  }
  const HttpRequest injected{.url = "http://127.0.0.1:1/", .headers = {{"A", "b\r\nC: d"}}};
  EXPECT_THAT(ask(injected), FailsWith(ErrorCode::invalid_argument, HasSubstr("is no HTTP header")));
}

TEST(Http, IsAskedFromSeveralThreads) {
  const HttpServer server([](const auto& request) { return http_answer(200, request.path()); });
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&server, i] {
      for (int j = 0; j < 5; ++j) {
        const auto answer = ask(patient(server.url(fmt::format("/{}-{}", i, j))));
        ASSERT_THAT(answer, IsOk());
        EXPECT_EQ(answer->body, fmt::format("/{}-{}", i, j));
      }
    });
  }
}

TEST(PostJson, TellsWhatMayBeTakenLaterFromWhatNeverWill) {
  std::atomic<int> status = 200;
  const HttpServer server([&](const auto&) { return http_answer(status, ""); });
  for (const auto& [answered, code] : {std::pair(500, ErrorCode::unavailable),
                                       {503, ErrorCode::unavailable},
                                       {429, ErrorCode::unavailable},
                                       {404, ErrorCode::failed},
                                       {400, ErrorCode::failed},
                                       {302, ErrorCode::failed}}) {
    status = answered;
    EXPECT_THAT(
        post_json(server.url("/secret"), "{}"),
        FailsWith(code, AllOf(HasSubstr(fmt::format("answered with status {}", answered)), Not(HasSubstr("secret")))));
  }
  status = 204;
  EXPECT_THAT(post_json(server.url(), R"({"a":1})"), IsOk());
  EXPECT_EQ(server.requests().back().body, R"({"a":1})");
  EXPECT_THAT(server.requests().back().head, HasSubstr("Content-Type: application/json"));
}

TEST(LibCurl, SaysWhatToInstallWhereItIsMissing) {
  EXPECT_THAT(open_libcurl("libcurl-that-is-not-there.so.4"),
              FailsWith(ErrorCode::unavailable, HasSubstr("is not installed")));
  EXPECT_THAT(open_libcurl("libc.so.6"), FailsWith(ErrorCode::unavailable, HasSubstr("is too old: it has no curl_")));
}

TEST(Url, NamesItsHostWithoutSecrets) {
  EXPECT_EQ(host_of("https://user:pass@Example.org:8443/a/b?c#d"), "Example.org:8443");
  EXPECT_EQ(host_of("http://[::1]:80?x"), "[::1]:80");
  EXPECT_TRUE(is_loopback("http://127.0.0.1:80/"));
  EXPECT_TRUE(is_loopback("http://LOCALHOST/"));
  EXPECT_TRUE(is_loopback("https://[::1]:9/"));
  EXPECT_FALSE(is_loopback("http://example.org/"));
  EXPECT_FALSE(is_loopback("http://localhost.example.org/"));
}

}  // namespace
}  // namespace gpuwarden::net
