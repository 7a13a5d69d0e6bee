// SPDX-License-Identifier: Apache-2.0
// Traces as tables: our CSV and RMM's log.
#include <sstream>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/logging.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "support/fake_clock.hpp"

namespace gpuwarden::memtrace {
namespace {

using ::testing::HasSubstr;

std::string problem_of_table(const std::string& text) {
  const auto trace = read_trace(text, "x.csv");
  return trace ? "" : trace.error().message;
}

TEST(Table, AByteOrderMarkIsNoPartOfIt) {
  const std::string text = "op,id,size,stream,time_us,phase\na,1,512,0,0,rec\n";
  const auto plain = read_trace(text, "x");
  const auto marked = read_trace("\xEF\xBB\xBF" + text, "x");
  ASSERT_TRUE(plain && marked);
  EXPECT_EQ(marked->events.size(), plain->events.size());
  EXPECT_FALSE(read_trace("\xEF\xBB\xBF", "x"));
}

TEST(AllocationCsv, IsReadWithWhatWasLiveBefore) {
  const auto trace = read_trace(
      "op,id,size,stream,time_us,phase\r\na,7,4096,0,0,pre\r\na,8,1,0,0,pre\r\na,1,512,3,10,rec\r\nf,7,4096,0,12,"
      "rec\r\n\r\n",
      "x.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, "CSV of allocations");
  ASSERT_EQ(trace->before.size(), 2U);
  EXPECT_EQ(trace->before[0].size, 4096U) << "in the order of the file";
  ASSERT_EQ(trace->events.size(), 2U);
  EXPECT_EQ(trace->streams, (std::vector<std::uint64_t>{0, 3}));
  EXPECT_EQ(trace->events[0].stream, 1);
  EXPECT_EQ(trace->events[0].time_us, 0);
  EXPECT_EQ(trace->events[1].time_us, 2);
  EXPECT_EQ(trace->events[1].block, 0U);
  EXPECT_FALSE(trace->depends_on_tokens());
}

TEST(AllocationCsv, NeedsNoMoreThanOperationIdAndSizeInAnyOrder) {
  const auto trace = read_trace("size,op,id\n64,a,1\n64,f,1\n", "x.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->events[0].size, 64U);
}

TEST(AllocationCsv, IsWhatALoggingResourceWrites) {
  memory::ArithmeticUpstream device(256_MiB);
  const auto pool = memory::Pool::create(device, {}).value();
  std::ostringstream out;
  gpuwarden::testing::FakeClock clock;
  memory::LoggingResource logged(*pool, out, clock);
  const auto first = logged.allocate(1000_B, memory::StreamId{1}).value();
  clock.advance(std::chrono::microseconds(7));
  EXPECT_FALSE(logged.allocate(1_GiB, memory::StreamId{1}));
  const auto second = logged.allocate(2_MiB, memory::StreamId{5}).value();
  ASSERT_TRUE(logged.deallocate(first, 1000_B, memory::StreamId{5}));
  const auto trace = read_trace(out.str(), "logged.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->events.size(), 3U) << out.str();
  EXPECT_EQ(trace->events[0].size, 1000U);
  EXPECT_EQ(trace->events[1].size, (2_MiB).value);
  EXPECT_EQ(trace->events[1].time_us, 7);
  EXPECT_TRUE(trace->events[2].frees);
  EXPECT_EQ(trace->events[2].block, 0U);
  EXPECT_EQ(trace->streams, (std::vector<std::uint64_t>{0, 1, 5}));
  EXPECT_EQ(trace->events[2].stream, 2);
  ASSERT_TRUE(logged.deallocate(second, 2_MiB, memory::StreamId{5}));
}

TEST(AllocationCsv, SizesMayDependOnTheLengthOfASequence) {
  const auto trace = read_trace("op,id,phase,c0,c1,c2\na,1,rec,100,2,0.5\na,2,rec,-5,0,0\nf,1,rec,0,0,0\n", "x.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_TRUE(trace->depends_on_tokens());
  ASSERT_EQ(trace->formulas.size(), 2U);
  EXPECT_EQ(trace->formulas[0].at(10), 170U);
  EXPECT_EQ(trace->formulas[1].at(10), 1U);
  EXPECT_EQ((SizeFormula{0, 0, 1e300}.at(1000)), kLargestBlock);
}

TEST(AllocationCsv, NamesTheLineThatIsWrong) {
  const std::string head = "op,id,size\na,1,64\n";
  EXPECT_THAT(problem_of_table(head + "a,1,64\n"), HasSubstr("x.csv: line 3: id 1 allocates what is live already"));
  EXPECT_THAT(problem_of_table(head + "f,2,64\n"), HasSubstr("line 3: id 2 frees what was never allocated"));
  EXPECT_THAT(problem_of_table(head + "f,1,64\nf,1,64\n"), HasSubstr("line 4: id 1 frees what has been freed already"));
  EXPECT_THAT(problem_of_table(head + "x,2,64\n"), HasSubstr("line 3: op 'x' is neither a nor f"));
  EXPECT_THAT(problem_of_table(head + "a,2\n"), HasSubstr("line 3: has 2 cells instead of 3"));
  EXPECT_THAT(problem_of_table(head + "a,2,6k\n"), HasSubstr("line 3: size '6k' is not a whole number"));
  EXPECT_THAT(problem_of_table(head + "a,2,-1\n"), HasSubstr("line 3: size '-1' is not a whole number"));
  EXPECT_THAT(problem_of_table(head + "a,2,99999999999999999999999\n"), HasSubstr("is not a whole number"));
  EXPECT_THAT(problem_of_table(head + "a,2,999999999999999999\n"), HasSubstr("larger than the memory of any GPU"));
  EXPECT_THAT(problem_of_table("op,id,phase\na,1,rec\n"), HasSubstr("line 1: there is no column 'size'"));
  EXPECT_THAT(problem_of_table("op,id,size\n"), HasSubstr("holds no allocation"));
}

TEST(AllocationCsv, OfSeveralDevicesIsReadForOne) {
  const std::string text = "op,id,size,device\na,1,10,0\na,2,20,1\na,3,30,1\nf,1,10,0\nf,2,20,1\n";
  const auto most = read_trace(text, "x.csv");
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_EQ(most->device, 1U);
  EXPECT_EQ(most->events.size(), 3U);
  EXPECT_EQ(most->events_of_devices, (std::vector<std::uint64_t>{2, 3}));
  const auto first = read_trace(text, "x.csv", {.device = 0});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->events.size(), 2U);
  EXPECT_FALSE(read_trace(text, "x.csv", {.device = 2}));
  EXPECT_THAT(problem_of_table("op,id,size,device\na,1,10,x\n"), HasSubstr("line 2: device 'x' is not a whole number"));
}

TEST(AllocationCsv, RefusesDevicesItCannotTellApart) {
  EXPECT_THAT(problem_of_table("op,id,size,device\na,1,10,0\na,2,10,2000\n"),
              HasSubstr("line 3: device 2000 is more than 1023"));
  EXPECT_THAT(problem_of_table("op,id,size,device\na,1,10,1024\n"), HasSubstr("line 2: device 1024 is more than 1023"));
  const auto none = read_trace("op,id,size\na,1,10\n", "x.csv", {.device = 0});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "x.csv: there is no column 'device'");
  const auto rmm = read_trace("1,10:00:00.1,allocate,0x10,64,0x0\n", "x.log", {.device = 1});
  ASSERT_FALSE(rmm);
  EXPECT_EQ(rmm.error().message, "x.log: an RMM log does not name devices");
}

TEST(AllocationCsv, HasSixteenColumnsAtMost) {
  const std::string more = ",4,5,6,7,8,9,10,11,12,13,14,15,16";
  EXPECT_EQ(problem_of_table("op,id,size" + more + "\na,1,64" + more + "\n"), "");
  EXPECT_THAT(problem_of_table("op,id,size" + more + ",17\na,1,64" + more + ",17\n"),
              HasSubstr("line 1: there are more than 16 columns"));
  EXPECT_THAT(problem_of_table("op,id,size" + more + "\na,1,64" + more + ",17,18\n"),
              HasSubstr("line 2: has more than 16 cells"));
}

TEST(AllocationCsv, IsQuotedInPart) {
  const auto problem = problem_of_table("op,id,size\na,1," + std::string(5000, 'x') + "\n");
  EXPECT_THAT(problem, HasSubstr("size '" + std::string(80, 'x') + "...' is not a whole number"));
}

TEST(RmmLog, TakesTimesAsTheyAreWritten) {
  const auto times = [](const std::string& later) {
    const auto trace = read_trace("1,0.0,allocate,0x10,64,0x0\n1," + later + ",free,0x10,64,0x0\n", "x");
    return trace ? trace->events[1].time_us : -1;
  };
  EXPECT_EQ(times("0.5"), 500'000);
  EXPECT_EQ(times("0.000001"), 1);
  EXPECT_EQ(times("1.123456789"), 1'123'456) << "whole microseconds";
  EXPECT_EQ(times("100000000000.999999"), 100'000'000'000'999'999);
  EXPECT_EQ(times("23:59:60.25"), 86'400'250'000);
  EXPECT_EQ(times("00:00:02:5"), 2'500'000);
  for (const char* absurd : {"100000000001", "24:00:00", "0:60:0", "0:0:61", "99999999999:99999999999:99999999999",
                             "1:2", "1:2:3:4:5", "1.", "1.-5", "1.5.5", "1.99999999999999999999999"})
    EXPECT_EQ(times(absurd), -1) << absurd;
}

TEST(RmmLog, IsReadWithItsFailures) {
  const auto trace = read_trace(
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "12,23:59:59.999990,allocate,0x7f10,1024,0x0\n"
      "12,23:59:59:999995,allocate failure,(nil),99999999999,0x0\n"
      "12,23:59:59.999999,allocate,0x7f20,2048,0x2\n"
      "13,00:00:00.000009,free,0x7f10,1024,0x2\n"
      "13,00:00:00.000010,deallocate,0x9999,77,0\n"
      "13,00:00:00.000011,allocate,(nil),0,0\n",
      "rmm.csv");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->format, "RMM log");
  EXPECT_EQ(trace->failed_allocations, 1U);
  ASSERT_EQ(trace->events.size(), 4U);
  EXPECT_EQ(trace->events[1].time_us, 9);
  EXPECT_EQ(trace->events[2].time_us, 19) << "past midnight";
  EXPECT_EQ(trace->events[2].stream, 1) << "freed on another stream";
  ASSERT_EQ(trace->before.size(), 1U) << "freed, but never allocated";
  EXPECT_EQ(trace->before[0].size, 77U);
}

TEST(RmmLog, NeedsNoHeading) {
  const auto trace = read_trace("1979932,14:21:19.998533,allocate,0x30a000000,256,0x2\n", "spark.log");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.back(), 2U);
  const auto epoch =
      read_trace("1,1634567890.123456,allocate,0x10,256,0x2\n1,1634567891.123456,deallocate,0x10,256,0x2\n", "x");
  ASSERT_TRUE(epoch) << epoch.error().message;
  EXPECT_EQ(epoch->events[1].time_us, 1'000'000);
}

TEST(RmmLog, NamesTheLineThatIsWrong) {
  const std::string head = "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.0,allocate,0x10,64,0x0\n";
  EXPECT_THAT(problem_of_table(head + "1,10:00:00.1,allo"), HasSubstr("line 3: has 3 cells instead of 6"));
  EXPECT_THAT(problem_of_table(head + "1,10:00:00.1,allocate,0x10,64,0x0\n"),
              HasSubstr("0x10 allocates what is live already"));
  EXPECT_THAT(problem_of_table(head + "1,10:00:00.1,free,0xzz,64,0x0\n"), HasSubstr("'0xzz' is not a pointer"));
  EXPECT_THAT(problem_of_table(head + "1,noon,free,0x10,64,0x0\n"), HasSubstr("'noon' is not a time"));
  EXPECT_THAT(problem_of_table(head + "1,10:00:00.1,move,0x10,64,0x0\n"), HasSubstr("'move' is not an action"));
}

TEST(ReadTrace, SaysWhatItKnowsWhereItKnowsNothing) {
  const auto unknown = read_trace("hello\nworld\n", "notes.txt");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(unknown.error().message, HasSubstr("notes.txt: is not a known format"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("PyTorch snapshot"));
  EXPECT_THAT(problem_of_table(""), HasSubstr("is empty"));
}

}  // namespace
}  // namespace gpuwarden::memtrace
