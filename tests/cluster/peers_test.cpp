// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/peers.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "gpuwarden/cluster/json.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::eventually;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::IsOkAnd;
using testing::kSoon;

TEST(PeerPlaces, AreFilesOrNames) {
  EXPECT_EQ(parse_peer_place("peers.txt")->file, "peers.txt");
  const auto name = parse_peer_place("dns:gpus.example.org:10478");
  ASSERT_THAT(name, IsOk());
  EXPECT_EQ(name->dns_name, "gpus.example.org");
  EXPECT_EQ(name->port, 10478);
  for (const char* wrong : {"dns:", "dns:name", "dns:name:0", "dns:name:70000", "dns:na me:1", "dns:a:b:1"})
    EXPECT_THAT(parse_peer_place(wrong), FailsWith(ErrorCode::invalid_argument, HasSubstr("is not dns:NAME:PORT")));
  EXPECT_THAT(parse_peer_place(""), FailsWith(ErrorCode::invalid_argument, HasSubstr("no file")));
}

TEST(PeerFiles, HaveAPeerALine) {
  const auto peers = parse_peers(
      "# ours\nGPU-1:10478  # the first\n\n  https://gpu-2.example.org:443/\n[fe80::1]:1\n10.0.0.7:1\ngpu-1:10478\n",
      "peers");
  EXPECT_THAT(peers, IsOkAnd(ElementsAre("http://gpu-1:10478", "https://gpu-2.example.org:443", "http://[fe80::1]:1",
                                         "http://10.0.0.7:1")));
}

TEST(PeerFiles, MistakesHaveTheirLine) {
  for (const char* wrong : {"gpu-1", "gpu-1:", "gpu-1:99999", ":1", "ftp://a:1", "a/b:1", "a:1/metrics", "fe80::1:x",
                            "user@host:1", "[::1:1"})
    EXPECT_THAT(parse_peers(std::string("ok:1\n") + wrong + "\n", "peers"),
                FailsWith(ErrorCode::invalid_argument, HasSubstr(std::string("peers:2: '") + wrong + "' is not")));
  std::string many;
  for (int i = 0; i <= 4096; ++i) many += fmt::format("gpu-{}:1\n", i);
  EXPECT_THAT(parse_peers(many, "peers"), FailsWith(ErrorCode::invalid_argument, HasSubstr("more than 4096 peers")));
}

TEST(PeerFiles, AreReadByTheirName) {
  const testing::TempDir dir;
  testing::put(dir / "peers", "gpu-1:10478\n");
  EXPECT_THAT(read_peers(dir / "peers"), IsOkAnd(ElementsAre("http://gpu-1:10478")));
  EXPECT_THAT(read_peers(dir / "absent"), FailsWith(ErrorCode::not_found, HasSubstr("absent")));
}

/// Peers that answer from memory.
class Peers : public ::testing::Test {
 protected:
  Peers() {
    options_.interval = 100ms;
    options_.place.file = dir_ / "peers";
    options_.ask = [this](std::span<const net::HttpRequest> requests, unsigned, const std::stop_token& stop) {
      std::vector<Result<net::HttpAnswer>> answers;
      for (const auto& request : requests) answers.push_back(answer(request, stop));
      return answers;
    };
    options_.log = [this](const std::string& line) {
      const std::scoped_lock lock(mutex_);
      log_.push_back(line);
    };
  }

  Result<net::HttpAnswer> answer(const net::HttpRequest& request, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    asked_.push_back(request);
    if (silent_.contains(request.url)) return fail(ErrorCode::timed_out, "timed out after 80 ms");
    if (hanging_.contains(request.url)) {
      wake_.wait(lock, stop, [] { return false; });
      return fail(ErrorCode::interrupted, "stopped");
    }
    const Node node{.name = request.url};
    return net::HttpAnswer{200, "application/json", to_json(std::span(&node, 1)).dump()};
  }

  void list(std::string_view text) const { testing::put(dir_ / "peers", text); }
  std::unique_ptr<PeersSource> open() {
    auto source = PeersSource::open(options_);
    EXPECT_THAT(source, IsOk());
    return source ? std::move(*source) : nullptr;
  }
  static bool all_answered(const PeersSource& source, std::size_t count) {
    const auto nodes = source.nodes();
    return nodes.size() == count && std::ranges::all_of(nodes, [](const Node& node) {
             return node.seen != std::chrono::system_clock::time_point{} && !node.problem;
           });
  }
  std::size_t times_asked(const std::string& url) {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count(asked_, url, &net::HttpRequest::url));
  }

  testing::TempDir dir_;
  PeersOptions options_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<net::HttpRequest> asked_;
  std::set<std::string> silent_;
  std::set<std::string> hanging_;
  std::vector<std::string> log_;
};

TEST_F(Peers, AreAllShownInTheOrderOfTheList) {
  list("gpu-2:1\ngpu-1:1\n");
  const auto source = open();
  ASSERT_TRUE(eventually(kSoon, [&] { return all_answered(*source, 2); }));
  EXPECT_EQ(source->nodes()[0].url, "http://gpu-2:1");
  EXPECT_EQ(source->nodes()[0].name, "http://gpu-2:1/api/v1/nodes?own=true") << "what it calls itself";
}

TEST_F(Peers, OneThatIsSilentIsSaidAndTheOthersGoOn) {
  list("good:1\nbad:1\n");
  silent_ = {"http://bad:1/api/v1/nodes?own=true"};
  const auto source = open();
  ASSERT_TRUE(eventually(kSoon, [&] { return source->nodes()[1].problem.has_value(); }));
  EXPECT_EQ(source->nodes()[1].name, "bad:1");
  EXPECT_EQ(source->nodes()[1].problem->code, ErrorCode::timed_out);
  EXPECT_TRUE(eventually(kSoon, [&] { return source->asked_all(); }));
  const std::size_t before = times_asked("http://good:1/api/v1/nodes?own=true");
  EXPECT_TRUE(eventually(kSoon, [&] { return times_asked("http://good:1/api/v1/nodes?own=true") > before + 2; }));
  {
    const std::scoped_lock lock(mutex_);
    silent_.clear();
  }
  EXPECT_TRUE(eventually(kSoon, [&] { return all_answered(*source, 2); })) << "it is asked again";
}

TEST_F(Peers, AListThatChangesIsReadAgainAndOneThatIsWrongIsNot) {
  list("gpu-1:1\n");
  const auto source = open();
  list("gpu-1:1\ngpu-2:1\n");
  ASSERT_TRUE(eventually(kSoon, [&] { return all_answered(*source, 2); }));
  list("nonsense\n");
  ASSERT_TRUE(eventually(kSoon, [&] {
    const std::scoped_lock lock(mutex_);
    return !log_.empty();
  }));
  EXPECT_EQ(source->nodes().size(), 2U);
  const std::scoped_lock lock(mutex_);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("peers:1: 'nonsense' is not HOST:PORT"))) << "once";
}

TEST_F(Peers, TheTokenIsSentAndReadAnew) {
  list("gpu-1:1\n");
  testing::put(dir_ / "token", "first\n");
  options_.token_file = dir_ / "token";
  const auto source = open();
  const auto sent = [&](const std::string& token) {
    const std::scoped_lock lock(mutex_);
    return !asked_.empty() && std::ranges::find(asked_.back().headers, std::pair<std::string, std::string>(
                                                                           "Authorization", "Bearer " + token)) !=
                                  asked_.back().headers.end();
  };
  ASSERT_TRUE(eventually(kSoon, [&] { return sent("first"); }));
  testing::put(dir_ / "token", "second\n");
  EXPECT_TRUE(eventually(kSoon, [&] { return sent("second"); }));
}

TEST_F(Peers, TheEndWaitsForNobody) {
  list("gpu-1:1\n");
  hanging_ = {"http://gpu-1:1/api/v1/nodes?own=true"};
  auto source = open();
  ASSERT_TRUE(eventually(kSoon, [&] { return times_asked("http://gpu-1:1/api/v1/nodes?own=true") > 0; }));
  EXPECT_FALSE(source->asked_all());
  source.reset();  // the test's timeout ends it where it waits
  EXPECT_EQ(times_asked("http://gpu-1:1/api/v1/nodes?own=true"), 1U);
}

TEST_F(Peers, WhatCannotBeReadIsRefusedAtTheStart) {
  EXPECT_THAT(PeersSource::open(options_), FailsWith(ErrorCode::not_found, HasSubstr("peers")));
  list("# nobody\n");
  EXPECT_THAT(PeersSource::open(options_), FailsWith(ErrorCode::invalid_argument, HasSubstr("lists no peers")));
  list("gpu-1:1\n");
  options_.token_file = dir_ / "no-token";
  EXPECT_THAT(PeersSource::open(options_), FailsWith(ErrorCode::invalid_argument, HasSubstr("no-token")));
}

TEST_F(Peers, ANamesAddressesArePeers) {
  options_.place = {.dns_name = "gpus", .port = 1};
  options_.resolve = [](const std::string& name, const std::stop_token&) -> Result<std::vector<std::string>> {
    return name == "gpus" ? std::vector<std::string>{"10.0.0.1", "fe80::1"} : std::vector<std::string>{};
  };
  const auto source = open();
  ASSERT_TRUE(eventually(kSoon, [&] { return all_answered(*source, 2); }));
  EXPECT_EQ(source->nodes()[1].url, "http://[fe80::1]:1");
}

TEST_F(Peers, ANameThatNobodyKnowsLeavesNothingToWaitFor) {
  options_.place = {.dns_name = "gpus", .port = 1};
  options_.resolve = [](const std::string&, const std::stop_token&) -> Result<std::vector<std::string>> {
    return fail(ErrorCode::not_found, "no address for gpus");
  };
  const auto source = open();
  EXPECT_TRUE(eventually(kSoon, [&] { return source->asked_all(); }));
  EXPECT_TRUE(source->nodes().empty());
}

TEST(Addresses, OfThisMachineAreKnownWithoutANameServer) {
  EXPECT_THAT(resolve_addresses("127.0.0.1", 10s), IsOkAnd(ElementsAre("127.0.0.1")));
  EXPECT_THAT(resolve_addresses("localhost", 10s), IsOkAnd(Contains("127.0.0.1")));
}

TEST(Addresses, AStopEndsTheLookUp) {
  std::stop_source stop;
  stop.request_stop();
  const auto answer = resolve_addresses("name-that-nobody-has.invalid", 10s, stop.get_token());
  ASSERT_FALSE(answer.has_value());
  EXPECT_TRUE(answer.error().code == ErrorCode::interrupted || answer.error().code == ErrorCode::not_found)
      << answer.error().message;
}

}  // namespace
}  // namespace gpuwarden::cluster
