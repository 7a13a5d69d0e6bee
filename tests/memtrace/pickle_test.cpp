// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "gpuwarden/memtrace/read.hpp"
#include "memtrace/snapshots.hpp"

namespace gpuwarden::memtrace {
namespace {

using gpuwarden::testing::event;
using gpuwarden::testing::Json;
using gpuwarden::testing::pickle;
using gpuwarden::testing::snapshot;
using ::testing::HasSubstr;

Json small_snapshot() {
  return snapshot({event("alloc", 0x7f00'0000'0000, 4096, 0, 1'000'000'000'000'005),
                   event("alloc", 0x7f00'0000'1000, 300, 94'000'000'000'000, 1'000'000'000'000'006),
                   event("free_requested", 0x7f00'0000'0000, 4096, 0, 1'000'000'000'000'007),
                   event("free_completed", 0x7f00'0000'0000, 4096, 0, 1'000'000'000'000'009)});
}

std::string problem_of(std::string_view data) {
  const auto trace = read_trace(data, "x.pickle");
  return trace ? "" : trace.error().message;
}

TEST(Pickle, SaysTheSameInEveryProtocolAndInJson) {
  const auto json = read_trace(small_snapshot().dump(), "x.json");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->format, "PyTorch snapshot (JSON)");
  for (const int protocol : {0, 2, 4, 5}) {
    const auto trace = read_trace(pickle(small_snapshot(), protocol), "x.pickle");
    ASSERT_TRUE(trace) << protocol << ": " << trace.error().message;
    EXPECT_EQ(trace->format, "PyTorch snapshot (pickle)");
    ASSERT_EQ(trace->events.size(), 3U);
    EXPECT_EQ(trace->events[0].size, 4096U);
    EXPECT_EQ(trace->events[1].time_us, 1);
    EXPECT_EQ(trace->streams, (std::vector<std::uint64_t>{0, 94'000'000'000'000}));
    EXPECT_EQ(trace->events[1].stream, 1);
    EXPECT_TRUE(trace->events[2].frees);
    EXPECT_EQ(trace->events[2].block, 0U);
    EXPECT_EQ(trace->events[2].time_us, 4);
    EXPECT_EQ(trace->streams, json->streams);
    EXPECT_EQ(trace->events.size(), json->events.size());
  }
}

TEST(Pickle, RefusesByNameWhatPythonWouldRun) {
  EXPECT_THAT(problem_of("]cposix\nsystem\n(S'true'\ntR."), HasSubstr("GLOBAL) asks for posix.system"));
  EXPECT_THAT(problem_of("\x80\x04\x8c\x02os\x8c\x06system\x93."), HasSubstr("STACK_GLOBAL) asks for os.system"));
  EXPECT_THAT(problem_of("](ios\nsystem\n."), HasSubstr("INST) asks for os.system"));
  EXPECT_THAT(problem_of("]Pmy file\n."), HasSubstr("PERSID) asks for my file"));
}

TEST(Pickle, RefusesEveryOpcodeThatMakesObjects) {
  const std::vector<std::pair<char, std::string>> rows{{'R', "REDUCE"},
                                                       {'b', "BUILD"},
                                                       {'o', "OBJ"},
                                                       {'Q', "BINPERSID"},
                                                       {'\x81', "NEWOBJ"},
                                                       {'\x82', "EXT1"},
                                                       {'\x83', "EXT2"},
                                                       {'\x84', "EXT4"},
                                                       {'\x92', "NEWOBJ_EX"},
                                                       {'\x97', "NEXT_BUFFER"},
                                                       {'\x98', "READONLY_BUFFER"}};
  for (const auto& [code, name] : rows) {
    const auto trace = read_trace(std::string("\x80\x04NN") + code + ".", "x.pickle");
    ASSERT_FALSE(trace) << name;
    EXPECT_EQ(trace.error().code, ErrorCode::corrupt);
    EXPECT_THAT(trace.error().message, HasSubstr("refused: byte 4 (" + name + ")"));
    EXPECT_THAT(trace.error().hint, HasSubstr("do not open this file with pickle.load"));
  }
}

TEST(Pickle, SaysWhereAFileWasCutOff) {
  for (const int protocol : {0, 2, 4}) {
    const std::string whole = pickle(small_snapshot(), protocol);
    for (std::size_t size = 1; size < whole.size(); ++size) {
      const auto trace = read_trace(whole.substr(0, size), "x.pickle");
      ASSERT_FALSE(trace) << "protocol " << protocol << ", " << size << " bytes";
      EXPECT_FALSE(trace.error().message.empty());
      if (size > 2) {
        EXPECT_THAT(trace.error().message, HasSubstr("byte")) << size;
      }
    }
  }
}

TEST(Pickle, SurvivesDamageAnywhere) {
  for (const int protocol : {0, 2, 4}) {
    const std::string whole = pickle(small_snapshot(), protocol);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (const char damage : {'\0', '\x01', '(', 'u', 'e', '\xff'}) {
        std::string broken = whole;
        broken[at] = damage;
        const auto trace = read_trace(broken, "x.pickle");
        if (!trace) {
          EXPECT_FALSE(trace.error().message.empty());
        }
      }
    }
  }
}

TEST(Pickle, TellsWhatIsWrongWithItsStack) {
  EXPECT_THAT(problem_of("\x80\x04\x65."), HasSubstr("APPENDS at byte 2: there is no mark"));
  EXPECT_THAT(problem_of("\x80\x04(Ne."), HasSubstr("there is no list to append to"));
  EXPECT_THAT(problem_of("\x80\x04}(Nu."), HasSubstr("a key has no value"));
  EXPECT_THAT(problem_of("\x80\x04."), HasSubstr("STOP at byte 2: there is no value"));
  EXPECT_THAT(problem_of("\x80\x04h\x05."), HasSubstr("nothing was kept under 5"));
  EXPECT_THAT(problem_of(std::string("\x80\x04Nr\xff\xff\xff\xff.", 8)), HasSubstr("far from the others"));
  EXPECT_THAT(problem_of(std::string("\x80\x04Nr\0\0\1\0r\0\0\2\0.", 14)), HasSubstr("far from the others"));
  EXPECT_THAT(problem_of(std::string("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", 12)),
              HasSubstr("the file ends here"));
  EXPECT_THAT(problem_of("\x80\x09."), HasSubstr("unknown protocol 9"));
  EXPECT_THAT(problem_of("\x80\x04\x07"), HasSubstr("no pickle has the code 0x07"));
}

TEST(Pickle, KeepsOnlyWhatIsCountedUp) {
  EXPECT_THAT(problem_of(std::string("\x80\x04Nq\0q\x03.", 8)), HasSubstr("BINPUT at byte 5: the number 3 is far"));
  EXPECT_THAT(problem_of(std::string("\x80\x04Nq\x01h\0.", 8)), HasSubstr("nothing was kept under 0"));
  std::string counting = "\x80\x04N";
  for (char i = 1; i < 100; ++i) counting += std::string("q") + i;
  EXPECT_THAT(problem_of(counting + "h\x63."), HasSubstr("is not a snapshot")) << "from 1 on, as Python 2 counted";
}

TEST(Pickle, NestsSoManyLevelsAndNoMore) {
  EXPECT_THAT(problem_of("\x80\x04" + std::string(64, '(')), HasSubstr("ends at byte 66"));
  EXPECT_THAT(problem_of("\x80\x04" + std::string(65, '(')), HasSubstr("MARK at byte 66: nests deeper than 64"));
}

TEST(Pickle, IsQuotedInPart) {
  const auto problem = problem_of("]c" + std::string(5000, 'm') + "\n" + std::string(5000, 'n') + "\n.");
  EXPECT_THAT(problem, HasSubstr("asks for " + std::string(80, 'm') + "..."));
  EXPECT_LT(problem.size(), 300U);
}

TEST(Pickle, SharedDictionariesWithManyKeysTakeNoTime) {
  constexpr std::size_t kMany = 200'000;
  std::string data =
      "\x80\x04}\x8c\x0d"
      "device_traces]](}(\x8c\x06"
      "action\x8c\x03oom";
  for (std::size_t i = 0; i < kMany; ++i) data += "\x8c\x04sizeK\x01";
  data += std::string("uq\0", 3);
  for (std::size_t i = 0; i < kMany; ++i) data += std::string("h\0", 2);
  const auto trace = read_trace(data + "eas.", "x.pickle");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->failed_allocations, kMany + 1);
}

TEST(Pickle, BlocksBelongToOneSegment) {
  const std::string head =
      "\x80\x04}(\x8c\x0d"
      "device_traces]](}(\x8c\x06"
      "action\x8c\x05"
      "alloc\x8c\x04"
      "addrK\x10\x8c\x04sizeK\x40uea\x8c\x08segments]"
      "(}\x8c\x06"
      "blocks]}\x8c\x04sizeK\x20sa\x94s}\x8c\x06"
      "blocks";
  EXPECT_THAT(problem_of(head + std::string("h\0seu.", 6)), HasSubstr("two segments have the same list of blocks"));
  EXPECT_EQ(problem_of(head + "]seu."), "");
}

TEST(Pickle, TakesTuplesSetsBytesAndNumbersOfAnyWidth) {
  // {'device_traces': ([{'action': 'alloc', 'addr': 2**63, 'size': 512}],), 'x': {1, b'y', -2, 10**30}}
  const std::string data = std::string(
                               "\x80\x04}(\x8c\x0d"
                               "device_traces](}(\x8c\x06"
                               "action\x8c\x05"
                               "alloc\x8c\x04"
                               "addr\x8a\x09") +
                           std::string("\0\0\0\0\0\0\0\x80\0", 9) + "\x8c\x04sizeM" + std::string("\0\x02", 2) +
                           "ue\x85" +
                           "\x8c\x01x\x8f(K\x01"
                           "C\x01y\x8a\x01\xfe\x8a\x0c............\x90u.";
  const auto trace = read_trace(data, "x.pickle");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->events.size(), 1U);
  EXPECT_EQ(trace->events[0].size, 512U);
}

}  // namespace
}  // namespace gpuwarden::memtrace
