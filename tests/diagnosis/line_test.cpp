// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/line.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::diagnosis {
namespace {

struct Case {
  const char* raw;
  const char* text;
  Level level = Level::unknown;
  std::optional<std::int64_t> rank = std::nullopt;
};

TEST(LogLine, IsWhatTheProgramWroteWithoutItsLaunchersPrefixes) {
  const Case cases[] = {
      {"plain text", "plain text"},
      {"> > quoted twice\r", "quoted twice"},
      {"\x1b[31mred\x1b[0m and ^[[36mpasted^[[0m and [1mbare[0m", "red and pasted and bare"},
      {"[rank3]: RuntimeError: boom", "RuntimeError: boom", Level::unknown, 3},
      {"[default1]:[rank1]: boom", "boom", Level::unknown, 1},
      {"[1,7]<stderr>:boom", "boom", Level::unknown, 7},
      {"(VllmWorker rank=5 pid=3073) boom", "boom", Level::unknown, 5},
      {"(Worker_TP2 pid=77) ERROR 11-28 11:22:27 [multiproc_executor.py:743] boom", "boom", Level::error, 2},
      {"(RayWorkerWrapper pid=194, ip=10.0.0.1) boom", "boom"},
      {"(VllmWorkerProcess pid=67) ERROR 11-05 03:21:52 utils.py:233] boom", "boom", Level::error},
      {"[2025-04-09 17:19:56 TP6] boom", "boom", Level::unknown, 6},
      {"[2025-04-09 17:19:56 DP1 TP3] boom", "boom", Level::unknown, 3},
      {"2024-05-01T12:00:00.123456Z stderr F boom", "boom"},
      {"2018-04-20 22:28:17.493627: E tensorflow/stream_executor/cuda/cuda_driver.cc:406] boom", "boom", Level::error},
      {"W1021 12:44:24.533946 140585066018624 rematerialization.cc:12] boom", "boom", Level::warning},
      {"[rank2]:[E304 01:21:01.867394363 ProcessGroupNCCL.cpp:1595] boom", "boom", Level::error, 2},
      {"[W socket.cpp:401] [c10d] boom", "boom", Level::warning},
      {"gpu-node:936:1201 [1] NCCL INFO boom", "NCCL INFO boom", Level::info},
      {"gpu-node:936:1201 [0] transport/net_ib.cc:1296 NCCL WARN boom", "NCCL WARN boom"},
      {"worker-3 [rank3]: boom", "boom", Level::unknown, 3},
      {"3: boom", "boom", Level::unknown, 3},
      {"worker-3: [rank24]: boom", "boom", Level::unknown, 24},
      {"10.0.0.7: boom", "boom"},
      {"RuntimeError: boom", "RuntimeError: boom"},
      {"libcuda.so.1: boom", "libcuda.so.1: boom"},
      {"trainer-1  | INFO:     boom", "boom", Level::info},
      {"[Sun Feb 23 16:24:18 2025] NVRM: boom", "NVRM: boom"},
      {"[ 5022.696822] NVRM: boom", "NVRM: boom"},
      {"Nov 20 10:00:00 node7 kernel: NVRM: boom", "NVRM: boom"},
      {"kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: boom", "NVRM: boom"},
      {"/opt/torch/cuda/__init__.py:138: UserWarning: boom", "/opt/torch/cuda/__init__.py:138: UserWarning: boom",
       Level::warning},
  };
  for (const Case& each : cases) {
    const Line line = normalise(each.raw);
    EXPECT_EQ(line.text, each.text) << each.raw;
    EXPECT_EQ(line.level, each.level) << each.raw;
    EXPECT_EQ(line.rank, each.rank) << each.raw;
  }
}

TEST(LogLine, TellsWhenItWasWritten) {
  const Line earlier = normalise("[2025-04-09 17:19:56 TP6] boom");
  const Line later = normalise("2025-04-09T17:20:57.5 boom");
  ASSERT_TRUE(earlier.time && later.time);
  EXPECT_EQ(earlier.clock, later.clock);
  EXPECT_DOUBLE_EQ(*later.time - *earlier.time, 61.5);
  const Line east = normalise("2025-04-09T19:20:57.5+02:00 boom");
  const Line greenwich = normalise("2025-04-09T17:20:57.5Z boom");
  EXPECT_EQ(east.time, greenwich.time);
  EXPECT_EQ(east.clock, greenwich.clock);
  EXPECT_NE(east.clock, later.clock) << "nobody knows the zone of a time without one";
  const Line uptime = normalise("[ 5022.696822] NVRM: boom");
  EXPECT_DOUBLE_EQ(uptime.time.value(), 5022.696822);
  EXPECT_NE(uptime.clock, later.clock);
  EXPECT_FALSE(normalise("boom").time);
  EXPECT_FALSE(normalise("2025-13-45 17:19:56 boom").time);
}

TEST(LogLine, NcclNamesTheDeviceAndNotTheRank) {
  const Line line = normalise("gpu-node:936:1201 [3] NCCL INFO boom");
  EXPECT_EQ(line.gpu, 3);
  EXPECT_EQ(line.rank, std::nullopt);
}

TEST(LogLine, ToldErrorsAreNotErrors) {
  EXPECT_TRUE(normalise("When I start it I get `RuntimeError: CUDA error: out of memory`").quoted);
  EXPECT_TRUE(normalise("If the driver is too old, the program stops with this message").quoted);
  EXPECT_FALSE(normalise("RuntimeError: CUDA error: out of memory").quoted);
  EXPECT_FALSE(normalise("[rank0]: I am a program that talks").quoted);
}

TEST(LogLine, IsReadUpToAListOfPossibleCauses) {
  EXPECT_EQ(
      normalise("ActorDiedError: The actor died. There are some potential root causes. (1) The process is killed by "
                "SIGKILL by OOM killer due to high memory usage.")
          .text,
      "ActorDiedError: The actor died. ");
  EXPECT_EQ(normalise("CUDA detection failed! Possible reasons: 1. CUDA driver not installed").text,
            "CUDA detection failed! ");
  EXPECT_EQ(normalise("The causes were found").text, "The causes were found");
}

TEST(LogLine, ForeignBytesAreMadeSafe) {
  const Line line = normalise(std::string_view("a\0b\x80\xff c\x07\x1b]0;title\x07", 19));
  EXPECT_EQ(line.text.find('\x1b'), std::string::npos);
  EXPECT_EQ(line.text.find('\0'), std::string::npos);
  EXPECT_EQ(line.text.find('\x80'), std::string::npos);
}

}  // namespace
}  // namespace gpuwarden::diagnosis
