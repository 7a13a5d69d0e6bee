// SPDX-License-Identifier: Apache-2.0
#include "cluster/peer_book.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "gpuwarden/cluster/json.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using Lane = PeerBook::Lane;
using Steady = Clock::SteadyTime;
using Wall = Clock::WallTime;

Node with_gpu(const std::string& name, const std::string& uuid) {
  auto reading = std::make_shared<telemetry::Reading>();
  reading->snapshot.gpus.resize(1);
  reading->snapshot.gpus[0].gpu.uuid = Uuid(uuid);
  Node node{.name = name};
  node.reading = reading;
  return node;
}

Result<net::HttpAnswer> answer(std::string body, int status = 200) {
  return net::HttpAnswer{status, "application/json", std::move(body)};
}

TEST(PeerAnswer, IsTheNodeThatThePeerItselfIs) {
  Node other = with_gpu("gpu-7", "GPU-7");
  other.url = "http://gpu-7:1";
  const std::vector<Node> nodes{other, with_gpu("gpu-1", "GPU-1")};
  const auto node = read_peer_answer(answer(to_json(std::span(nodes)).dump()));
  ASSERT_THAT(node, IsOk());
  EXPECT_EQ(node->name, "gpu-1");
  EXPECT_EQ(node->reading->snapshot.gpus[0].gpu.uuid, Uuid("GPU-1"));
}

TEST(PeerAnswer, ALieIsAnErrorOfThePeer) {
  const auto refused = [](const Result<net::HttpAnswer>& said, ErrorCode code, const char* what) {
    EXPECT_THAT(read_peer_answer(said), FailsWith(code, HasSubstr(what)));
  };
  refused(answer("<html>"), ErrorCode::corrupt, "not JSON");
  refused(answer("{\"nodes\": "), ErrorCode::corrupt, "not JSON");
  refused(answer(std::string(100000, '[')), ErrorCode::corrupt, "not JSON");
  refused(answer("{}"), ErrorCode::corrupt, "nothing of the machine itself");
  refused(answer("[1]"), ErrorCode::corrupt, "nothing of the machine itself");
  refused(answer(R"({"nodes": [{"url": "http://x:1"}, 3]})"), ErrorCode::corrupt, "nothing of the machine itself");
  refused(answer(R"({"nodes": [{"url": "", "name": 3}]})"), ErrorCode::corrupt, "'name'");
  refused(answer("", 401), ErrorCode::permission_denied, "HTTP 401");
  refused(answer("", 503), ErrorCode::unavailable, "HTTP 503");
  refused(answer("", 302), ErrorCode::failed, "HTTP 302");
  refused(fail(ErrorCode::timed_out, "timed out after 4 s"), ErrorCode::timed_out, "timed out after 4 s");
  Node many{.name = "gpu-1"};
  auto reading = std::make_shared<telemetry::Reading>();
  reading->snapshot.gpus.resize(1025);
  many.reading = reading;
  refused(answer(to_json(std::span(&many, 1)).dump()), ErrorCode::corrupt, "1025 GPUs");
}

TEST(PeerAnswer, ANameIsMadeSafeToPrint) {
  const Node rude{.name = "gpu\x1b[2J" + std::string(1000, 'x')};
  const auto node = read_peer_answer(answer(to_json(std::span(&rude, 1)).dump()));
  ASSERT_THAT(node, IsOk());
  EXPECT_EQ(node->name.substr(0, 7), "gpu?[2J");
  EXPECT_EQ(node->name.size(), 253U);
}

class Book : public ::testing::Test {
 protected:
  static std::vector<std::string> peers(int count) {
    std::vector<std::string> urls;
    for (int i = 0; i < count; ++i) urls.push_back(fmt::format("http://gpu-{}:1", i));
    return urls;
  }
  PeerBook book_{5s, 1};
  Steady start_{1h};
};

TEST_F(Book, PeersAreAskedOnceAnIntervalAndNotInOneBurst) {
  book_.set_peers(peers(125), start_);
  std::map<std::string, std::vector<Steady>> asked;
  std::size_t largest = 0;
  for (auto now = start_; now < start_ + 20s; now += 100ms) {
    const auto due = book_.take_due(Lane::answering, now);
    largest = std::max(largest, due.size());
    for (const std::string& url : due) {
      asked[url].push_back(now);
      book_.absorb(url, with_gpu(url, "GPU-x"), now + 5ms, Wall{});
    }
  }
  EXPECT_EQ(asked.size(), 125U);
  for (const auto& [url, times] : asked) {
    EXPECT_GE(times.size(), 3U) << url;
    for (std::size_t i = 1; i < times.size(); ++i)
      EXPECT_LE(std::chrono::abs(times[i] - times[i - 1] - 5s), 100ms) << url;
  }
  EXPECT_LT(largest, 15U) << "of 125 in 50 moments";
}

TEST_F(Book, WhoIsAskedIsNotAskedAgainBeforeAnAnswer) {
  book_.set_peers(peers(1), start_);
  EXPECT_EQ(book_.take_due(Lane::answering, start_ + 5s).size(), 1U);
  EXPECT_THAT(book_.take_due(Lane::answering, start_ + 20s), IsEmpty());
  EXPECT_FALSE(book_.next_due(Lane::answering));
}

TEST_F(Book, APeerThatStopsAnsweringKeepsItsLastReadingAndMovesToItsOwnLane) {
  const std::string url = peers(1)[0];
  book_.set_peers({url}, start_);
  book_.take_due(Lane::answering, start_ + 5s);
  book_.absorb(url, with_gpu("gpu-0", "GPU-a"), start_ + 5s, Wall(100s));
  book_.take_due(Lane::answering, start_ + 10s);
  book_.absorb(url, fail(ErrorCode::timed_out, "timed out after 4 s"), start_ + 14s, Wall(109s));
  const Node lost = book_.nodes().at(0);
  EXPECT_EQ(lost.name, "gpu-0");
  EXPECT_EQ(lost.seen, Wall(100s));
  ASSERT_TRUE(lost.problem);
  EXPECT_EQ(lost.problem->message, "timed out after 4 s");
  ASSERT_TRUE(lost.reading);
  EXPECT_EQ(lost.reading->snapshot.gpus[0].gpu.uuid, Uuid("GPU-a"));
  EXPECT_THAT(book_.take_due(Lane::answering, start_ + 30s), IsEmpty());
  EXPECT_THAT(book_.take_due(Lane::silent, start_ + 30s), ElementsAre(url));
  book_.absorb(url, with_gpu("gpu-0", "GPU-a"), start_ + 30s, Wall(125s));
  EXPECT_FALSE(book_.nodes().at(0).problem);
  EXPECT_EQ(book_.nodes().at(0).seen, Wall(125s));
  EXPECT_THAT(book_.take_due(Lane::answering, start_ + 40s), ElementsAre(url));
}

TEST_F(Book, APeerWhoseGpusAreNotReadJustNowKeepsItsLastReadingToo) {
  book_.set_peers(peers(1), start_);
  book_.absorb("http://gpu-0:1", with_gpu("gpu-0", "GPU-a"), start_, Wall(1s));
  book_.absorb("http://gpu-0:1", Node{.name = "gpu-0"}, start_ + 5s, Wall(6s));
  EXPECT_TRUE(book_.nodes().at(0).reading);
}

TEST_F(Book, WhoNeverAnsweredIsNamedByItsAddressAndDoublesCarryIt) {
  book_.set_peers({"http://10.0.0.1:1", "http://10.0.0.2:1", "https://[::1]:1"}, start_);
  book_.absorb("http://10.0.0.1:1", with_gpu("gpu", "GPU-a"), start_, Wall(1s));
  book_.absorb("http://10.0.0.2:1", with_gpu("gpu", "GPU-b"), start_, Wall(1s));
  const auto nodes = book_.nodes();
  EXPECT_EQ(nodes[0].name, "gpu (10.0.0.1:1)");
  EXPECT_EQ(nodes[1].name, "gpu (10.0.0.2:1)");
  EXPECT_EQ(nodes[2].name, "[::1]:1");
  EXPECT_EQ(nodes[0].url, "http://10.0.0.1:1");
}

TEST_F(Book, ANewListKeepsWhatIsKnownOfThoseThatStay) {
  book_.set_peers(peers(2), start_);
  book_.absorb("http://gpu-1:1", with_gpu("gpu-1", "GPU-b"), start_, Wall(1s));
  book_.set_peers({"http://gpu-1:1", "http://gpu-2:1"}, start_ + 1s);
  const auto nodes = book_.nodes();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_TRUE(nodes[0].reading);
  EXPECT_EQ(nodes[1].name, "gpu-2:1");
  book_.absorb("http://gpu-0:1", with_gpu("gpu-0", "GPU-a"), start_ + 2s, Wall(2s));
  EXPECT_EQ(book_.nodes().size(), 2U) << "an answer that comes too late";
}

}  // namespace
}  // namespace gpuwarden::cluster
