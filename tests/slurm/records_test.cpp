// SPDX-License-Identifier: Apache-2.0
// Slurm's answers as Slurm 22.05.8 gave them.
#include "gpuwarden/slurm/records.hpp"

namespace gpuwarden::slurm {
namespace {

constexpr std::string_view kNodes =
    "NodeName=gn1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=2 CPUEfctv=8 CPUTot=8 CPULoad=2.38 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=gpu:h100:8 GresDrain=N/A GresUsed=gpu:h100:3(IDX:0-2) NodeAddr=127.0.0.1 "
    "NodeHostName=vm Port=23101 Version=22.05.8 OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=2000 AllocMem=0 "
    "State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,long  "
    "CfgTRES=cpu=8,mem=2000M,billing=8 AllocTRES=cpu=2 CapWatts=n/a \n"
    "NodeName=gn2 CPUAlloc=0 CPUTot=8 Gres=gpu:h100:8 GresUsed=gpu:h100:0(IDX:N/A) State=IDLE+DRAIN Partitions=gpu "
    "Reason=gpuwarden: GPU 3: lost, Xid=79 [root@2026-11-27T18:17:25]\n"
    "NodeName=gn3 CPUAlloc=0 CPUTot=4 Gres=gpu:2 GresUsed=gpu:(null):1(IDX:0) State=ALLOCATED+COMPLETING "
    "Partitions=gpu\n"
    "NodeName=gn4 CPUTot=4 Gres=(null) State=DOWN* Partitions=gpu Reason=Not responding [slurm@2026-11-27T18:17:25]\n";

TEST(SlurmRecords, NodesTellWhatIsFree) {
  const auto nodes = parse_nodes(kNodes).value();
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].name, "gn1");
  EXPECT_EQ(nodes[0].partitions, (std::vector<std::string>{"gpu", "long"}));
  EXPECT_EQ(nodes[0].cpus, 8);
  EXPECT_EQ(nodes[0].cpus_used, 2);
  EXPECT_EQ(free_gpus(nodes[0]), (std::vector<GpuCount>{{"h100", 5}}));
  EXPECT_EQ(nodes[1].reason, "gpuwarden: GPU 3: lost, Xid=79 [root@2026-11-27T18:17:25]");
  EXPECT_TRUE(free_gpus(nodes[1]).empty()) << "a drained node has none";
  EXPECT_EQ(free_gpus(nodes[2]), (std::vector<GpuCount>{{"", 1}}));
  EXPECT_FALSE(takes_jobs(nodes[3]));
  EXPECT_EQ(nodes[3].cpus_used, std::nullopt);
  EXPECT_TRUE(nodes[3].gpus.empty());
}

TEST(SlurmRecords, OnlyNodesThatAreUpTakeJobs) {
  for (const char* state : {"IDLE", "MIXED", "ALLOCATED", "MIXED+PLANNED", "IDLE+CLOUD", "ALLOCATED+COMPLETING"})
    EXPECT_TRUE(takes_jobs({.state = state})) << state;
  for (const char* state : {"", "DOWN", "IDLE*", "IDLE+DRAIN", "MIXED+DRAIN", "IDLE~", "UNKNOWN", "IDLE+RESERVED",
                            "IDLE+MAINTENANCE", "INVAL", "ALLOCATED#"})
    EXPECT_FALSE(takes_jobs({.state = state})) << state;
}

TEST(SlurmRecords, NoNodesAreAnError) {
  EXPECT_EQ(parse_nodes("").error().code, ErrorCode::corrupt);
  EXPECT_EQ(parse_nodes("slurm_load_node error\n").error().code, ErrorCode::corrupt);
}

constexpr std::string_view kJob =
    "JobId=1 JobName=my job UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A Priority=4294901759 Nice=0 Account=(null) "
    "QOS=(null) JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode=7:0 RunTime=00:00:03 TimeLimit=1-00:00:00 TimeMin=N/A SubmitTime=2026-11-27T18:17:24 "
    "EligibleTime=2026-11-27T18:17:24 StartTime=2026-11-27T18:17:25 EndTime=2026-11-27T18:17:28 Deadline=N/A "
    "Partition=gpu AllocNode:Sid=localhost:4009 ReqNodeList=(null) ExcNodeList=(null) NodeList=gn[1-2] BatchHost=gn1 "
    "NumNodes=2 NumCPUs=4 NumTasks=2 Command=/tmp/slurm/j.sh WorkDir=/tmp/a'; echo  foo "
    "StdErr=/tmp/a'; echo  foo/o-1.out StdIn=/dev/null StdOut=/tmp/a'; echo  foo/o-1.out Power= "
    "TresPerNode=gres:gpu:fake:2 \n";

TEST(SlurmRecords, AJobIsReadWithItsBlanks) {
  const Job job = parse_jobs(kJob).value().at(0);
  EXPECT_EQ(job.id, "1");
  EXPECT_EQ(job.name, "my job");
  EXPECT_EQ(job.user, "ada");
  EXPECT_EQ(job.state, "FAILED");
  EXPECT_EQ(job.nodes, "gn[1-2]");
  EXPECT_EQ(job.node_count, 2);
  EXPECT_EQ(job.gpus, "gres:gpu:fake:2");
  EXPECT_EQ(job.log, "/tmp/a'; echo  foo/o-1.out");
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_EQ(job.signal, std::nullopt);
  EXPECT_EQ(exit_code_of(job), 7);
}

TEST(SlurmRecords, ExitCodesAreAShells) {
  const auto code = [](const std::string& state, const std::string& exit) {
    return exit_code_of(
        parse_jobs("JobId=1 JobState=" + state + " Reason=None ExitCode=" + exit + " RunTime=1\n").value().at(0));
  };
  EXPECT_EQ(code("COMPLETED", "0:0"), 0);
  EXPECT_EQ(code("FAILED", "0:9"), 137);
  EXPECT_EQ(code("FAILED", "0:53"), 1) << "Slurm's own number";
  EXPECT_EQ(code("CANCELLED", "0:15"), 143);
  EXPECT_EQ(code("TIMEOUT", "0:0"), 124);
  EXPECT_EQ(code("OUT_OF_MEMORY", "0:125"), 137);
  EXPECT_EQ(code("NODE_FAIL", "0:0"), 1) << "never fine";
}

TEST(SlurmRecords, TheQueueIsReadThoughNamesHaveBars) {
  const auto jobs = parse_queue(
      "12|ada|gpu|PENDING|Resources|2|gres:gpu:h100:8|2026-11-27T18:17:24|2026-11-27T20:00:00|1-00:00:00|0:00||a|b\n"
      "13|ada|gpu|RUNNING|None|1|N/A|2026-11-27T18:17:24|2026-11-27T18:17:25|UNLIMITED|0:01|gn1|train\n\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].name, "a|b");
  EXPECT_EQ(jobs[0].reason, "Resources");
  EXPECT_EQ(jobs[0].nodes, "");
  EXPECT_EQ(jobs[1].reason, "");
  EXPECT_EQ(jobs[1].gpus, "");
  EXPECT_EQ(jobs[1].nodes, "gn1");
}

TEST(SlurmRecords, PartitionsTellTheirTimes) {
  const auto partitions = parse_partitions("gpu*|up|2-00:00:00|1:00:00\nlong|down|infinite|n/a\ngpu*|up|x|y\n");
  ASSERT_EQ(partitions.size(), 2U);
  EXPECT_EQ(partitions[0].name, "gpu");
  EXPECT_TRUE(partitions[0].is_default);
  EXPECT_EQ(partitions[0].max_time, std::chrono::hours(48));
  EXPECT_EQ(partitions[0].default_time, std::chrono::hours(1));
  EXPECT_FALSE(partitions[1].up);
  EXPECT_EQ(partitions[1].max_time, std::nullopt);
  EXPECT_EQ(partitions[1].default_time, std::nullopt);
}

TEST(SlurmRecords, WhatTheControllerForgotIsInTheHistory) {
  const auto jobs = parse_history("7|CANCELLED by 1000|0:15|gn1|train\n");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].state, "CANCELLED");
  EXPECT_EQ(exit_code_of(jobs[0]), 143);
}

TEST(SlurmRecords, ConfigurationIsFoundByItsKey) {
  constexpr std::string_view text =
      "SelectType              = select/cons_tres\nSelectTypeParameters    = CR_CORE\n"
      "MailDomain              = (null)\n";
  EXPECT_EQ(configured(text, "SelectType"), "select/cons_tres");
  EXPECT_EQ(configured(text, "MailDomain"), "");
  EXPECT_EQ(configured(text, "Nothing"), "");
}

TEST(SlurmRecords, AListOfNodesNamesItsNodesAndNoOthers) {
  for (const char* node : {"gn1", "gn3", "gn07", "x", "r2n010", "r1n9"})
    EXPECT_TRUE(names_node("gn[1-3,07],x,r[1-2]n[9,010-011]", node)) << node;
  for (const char* node : {"gn4", "gn7", "gn01", "gn", "", "gn[1-3,07]", "gn1,x", "r3n010", "r2n10", "gn1x"})
    EXPECT_FALSE(names_node("gn[1-3,07],x,r[1-2]n[9,010-011]", node)) << node;
  EXPECT_TRUE(names_node("n[9-11]", "n10"));
  EXPECT_FALSE(names_node("n[9-11]", "n12"));
  EXPECT_FALSE(names_node("", ""));
  EXPECT_FALSE(names_node("n[", "n["));
}

}  // namespace
}  // namespace gpuwarden::slurm
