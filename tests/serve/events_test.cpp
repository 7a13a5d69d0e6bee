// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/events.hpp"

#include <gmock/gmock.h>

#include "support/fake_clock.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EventHub, TellsAListenerWhatComes) {
  const testing::FakeClock clock;
  EventHub hub;
  const auto stream = hub.listen({}, clock.now());
  EXPECT_EQ(stream->take(clock.now()), "retry: 2000\n\n");
  hub.tell("alert", false, [] { return std::string("{\"a\":1}"); });
  EXPECT_EQ(stream->take(clock.now()), "id: 1\nevent: alert\ndata: {\"a\":1}\n\n");
  EXPECT_EQ(stream->take(clock.now()), "");
}

TEST(EventHub, OfReadingsThatWaitTheLatestIsKept) {
  const testing::FakeClock clock;
  EventHub hub;
  const auto stream = hub.listen({}, clock.now());
  for (const char* data : {"1", "2", "3"}) hub.tell("reading", true, [&] { return std::string(data); });
  const std::string text = stream->take(clock.now());
  EXPECT_THAT(text, HasSubstr("data: 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("data: 2\n")));
}

TEST(EventHub, MakesNoReadingForNobody) {
  EventHub hub;
  bool made = false;
  hub.tell("reading", true, [&] {
    made = true;
    return std::string();
  });
  EXPECT_FALSE(made);
}

TEST(EventHub, TellsWhatWasMissedToThoseWhoComeBack) {
  const testing::FakeClock clock;
  EventHub hub;
  for (const char* data : {"1", "2", "3"}) hub.tell("alert", false, [&] { return std::string(data); });
  const std::string text = hub.listen(2, clock.now())->take(clock.now());
  EXPECT_THAT(text, HasSubstr("id: 3\nevent: alert\ndata: 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("id: 2\n")));
}

TEST(EventHub, SpeaksAfterFifteenSilentSeconds) {
  testing::FakeClock clock;
  EventHub hub;
  const auto stream = hub.listen({}, clock.now());
  stream->take(clock.now());
  clock.advance(std::chrono::seconds(14));
  EXPECT_EQ(stream->take(clock.now()), "");
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(stream->take(clock.now()), ": still there\n\n");
  EXPECT_EQ(stream->take(clock.now()), "");
}

TEST(EventHub, DropsTheOldestOfASlowListenerAndSaysSo) {
  const testing::FakeClock clock;
  EventHub hub;
  const auto stream = hub.listen({}, clock.now());
  stream->take(clock.now());
  for (std::size_t i = 0; i < EventHub::kQueue + 3; ++i) hub.tell("alert", false, [&] { return std::to_string(i); });
  const std::string text = stream->take(clock.now());
  EXPECT_TRUE(text.starts_with("event: dropped\ndata: {\"events\":3}\n\nid: 4\n")) << text.substr(0, 80);
  EXPECT_THAT(text, HasSubstr("data: 66\n"));
}

TEST(EventHub, HasABoundOfListenersWhoseEndFreesAPlace) {
  const testing::FakeClock clock;
  EventHub hub;
  std::vector<std::unique_ptr<Stream>> streams;
  for (std::size_t i = 0; i < EventHub::kMostListeners; ++i) streams.push_back(hub.listen({}, clock.now()));
  EXPECT_EQ(hub.listen({}, clock.now()), nullptr);
  streams.pop_back();
  EXPECT_EQ(hub.listeners(), EventHub::kMostListeners - 1);
  EXPECT_NE(hub.listen({}, clock.now()), nullptr);
}

}  // namespace
}  // namespace gpuwarden::serve
