// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/slurm/site.hpp"
#include "slurm/fake_programs.hpp"

namespace gpuwarden::slurm {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

Node node(const std::string& name, const std::string& gres, const std::string& partition,
          const std::string& state = "IDLE") {
  return {
      .name = name, .state = state, .gpus = gpus_in_gres(gres), .cpus = 64, .cpus_used = 0, .partitions = {partition}};
}

Site site() {
  Site site{.cluster = "lab", .gpu_option = GpuOption::per_node};
  site.partitions = {
      {.name = "cpu", .is_default = true, .up = true},
      {.name = "h", .up = true, .default_time = std::chrono::hours(1), .max_time = std::chrono::hours(24)},
      {.name = "v", .up = true, .max_time = std::chrono::hours(2)}};
  site.nodes = {node("c1", "", "cpu"), node("h1", "gpu:h100:8", "h"), node("h2", "gpu:h100:8", "h"),
                node("v1", "gpu:v100:4", "v"), node("v2", "gpu:v100:4", "v", "DOWN")};
  return site;
}

TEST(SlurmPlace, TakesTheFirstPartitionThatHasSuchNodes) {
  const Placed placed = place({.gpus = 8, .gpu_type = "H100"}, site()).value();
  EXPECT_EQ(placed.job.partition, "h");
  EXPECT_EQ(placed.job.gpu_type, "h100") << "the cluster's own spelling";
  EXPECT_EQ(placed.job.cpus, 64U) << "all GPUs, all CPUs";
  EXPECT_EQ(placed.job.time, std::chrono::hours(1)) << "the default";
  EXPECT_THAT(placed.decisions, Contains(HasSubstr("partition h")));
  EXPECT_EQ(place({.gpus = 0}, site())->job.partition, "cpu") << "Slurm's default, where it fits";
  EXPECT_EQ(place({.gpus = 2}, site())->job.cpus, 16U) << "a quarter of the GPUs, a quarter of the CPUs";
}

TEST(SlurmPlace, WithoutAClusterToAskAllStaysAsItIsAsked) {
  class NoPrograms final : public Programs {
    Result<Completed> run(const Command& command) override { return fail(ErrorCode::not_found, command.argv[0]); }
  } none;
  const Site site = read_site_if_any(none).value();
  const Placed placed = place({.nodes = 2, .gpus = 8, .gpu_type = "H100", .partition = "big"}, site).value();
  EXPECT_EQ(placed.job.partition, "big");
  EXPECT_EQ(placed.job.gpu_type, "H100");
  EXPECT_EQ(placed.job.cpus, 32U);
  EXPECT_EQ(placed.job.time, std::nullopt);
  EXPECT_TRUE(site.constrains_devices) << "the script names no numbers of GPUs";
  EXPECT_THAT(placed.decisions, Contains(HasSubstr("no Slurm cluster to ask")));
  EXPECT_EQ(place({}, site)->job.partition, "") << "the cluster's own default";
  FakePrograms installed;
  installed.on("scontrol show config", "", 1,
               "scontrol: error: resolve_ctls_from_dns_srv\nscontrol: fatal: Could not "
               "establish a configuration source\n");
  EXPECT_FALSE(read_site_if_any(installed)->is_seen);
  FakePrograms down;
  down.on("scontrol show config", "", 1, "slurm_load_ctl_conf error: Unable to contact slurm controller");
  EXPECT_FALSE(read_site_if_any(down)) << "there is one, which is to be asked";
}

TEST(SlurmPlace, TheTimeLimitIsThePartitions) {
  EXPECT_EQ(place({.gpus = 1, .partition = "v"}, site())->job.time, std::chrono::hours(2)) << "no default: the most";
  EXPECT_EQ(place({.gpus = 0}, site())->job.time, std::nullopt) << "there is none";
  EXPECT_EQ(place({.gpus = 1, .time = std::chrono::minutes(5), .partition = "v"}, site())->job.time,
            std::chrono::minutes(5));
  const auto refused = place({.gpus = 1, .time = std::chrono::hours(3), .partition = "v"}, site());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().hint, HasSubstr("2:00:00"));
}

TEST(SlurmPlace, WhatNoNodeHasIsRefusedWithWhatThereIs) {
  const auto nine = place({.gpus = 9}, site());
  ASSERT_FALSE(nine);
  EXPECT_EQ(nine.error().message, "no partition has 1 node with 9 GPUs each");
  EXPECT_THAT(nine.error().hint, HasSubstr("partition h: 0 such nodes, 8 GPUs on a node at most"));
  const auto three = place({.nodes = 3, .gpus = 8}, site());
  EXPECT_EQ(three.error().message, "no partition has 3 nodes with 8 GPUs each");
  const auto type = place({.gpus = 1, .gpu_type = "b200"}, site());
  EXPECT_EQ(type.error().message, "the cluster has no GPUs of type 'b200'");
  EXPECT_EQ(type.error().hint, "it has h100, v100");
  const auto elsewhere = place({.gpus = 1, .gpu_type = "h100", .partition = "v"}, site());
  EXPECT_EQ(elsewhere.error().message, "partition v has no GPUs of type 'h100'");
  EXPECT_EQ(place({.partition = "x"}, site()).error().message, "there is no partition 'x'");
}

TEST(SlurmPlace, NodesThatAreDownMakeItWaitAndThatIsSaid) {
  const Placed placed = place({.nodes = 2, .gpus = 4, .gpu_type = "v100"}, site()).value();
  EXPECT_EQ(placed.job.partition, "v");
  EXPECT_THAT(placed.decisions, Contains("it will wait: 1 of the 2 nodes that could do it take jobs now"));
}

TEST(SlurmPlace, ASiteIsAskedForWhatItTakes) {
  FakePrograms programs;
  programs
      .on("scontrol show config",
          "SelectType = select/cons_res\nClusterName = lab\nConstrainDevices = yes\nKillWait = 30 sec\n")
      .on(std::string("sinfo -h -o ") + kPartitionFormat, "gpu*|up|infinite|n/a\n")
      .on("scontrol show node -d -o",
          "NodeName=a State=IDLE Gres=gpu:4 GresUsed=gpu:1 Partitions=gpu CPUTot=8 CPUAlloc=1\n");
  const Site found = read_site(programs).value();
  EXPECT_EQ(found.gpu_option, GpuOption::gres) << "cons_res does not take --gpus-per-node";
  EXPECT_TRUE(found.constrains_devices);
  EXPECT_EQ(found.kill_wait, std::chrono::seconds(30));
  const auto document = to_json(found);
  EXPECT_EQ(document["types"][0]["free"], 3);
  EXPECT_EQ(document["nodes"][0]["gpus_free"][0]["count"], 3);
  EXPECT_TRUE(document["nodes"][0]["reason"].is_null());
}

TEST(SlurmPlace, AnAbsentSlurmIsUnavailable) {
  class Nothing final : public Programs {
    Result<Completed> run(const Command& command) override { return fail(ErrorCode::not_found, command.argv[0]); }
  } nothing;
  const auto refused = read_site(nothing);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_THAT(refused.error().hint, HasSubstr("no Slurm"));
}

TEST(SlurmQueue, IsAskedForOnesOwnJobsOrAll) {
  FakePrograms programs;
  const std::string words = fmt::format("squeue -h -o {}", kQueueFormat);
  programs.on(words, "12|ada|gpu|PENDING|Resources|2|gres:gpu:h100:8|N/A|N/A|1:00|0:00||train\n");
  programs.on(words + " --user=ada --partition=gpu", "");
  const auto all = read_queue(programs, "", "");
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->at(0).id, "12");
  const auto own = read_queue(programs, "ada", "gpu");
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_TRUE(own->empty());
}

TEST(SlurmSite, CountsTheNodesThatHaveRoomForAJob) {
  EXPECT_EQ(nodes_with_room({.partition = "h", .gpus = "gres:gpu:h100:8"}, site()), 2);
  EXPECT_EQ(nodes_with_room({.partition = "h", .gpus = "gres:gpu:h100:9"}, site()), 0);
  EXPECT_EQ(nodes_with_room({.partition = "v", .gpus = "gres:gpu:v100:4"}, site()), 1) << "the other one is down";
  EXPECT_EQ(nodes_with_room({.partition = "h", .gpus = ""}, site()), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::slurm
