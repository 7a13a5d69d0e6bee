// SPDX-License-Identifier: Apache-2.0
// What Slurm's tools print, in texts of our own in their shapes.
#include "capture/slurm.hpp"

#include <nlohmann/json.hpp>
#include "capture/gres_conf.hpp"

#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/facts/json.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

facts::SlurmFacts cluster_of(std::string_view text) {
  const auto capture = read_capture(text, "cluster.txt");
  EXPECT_THAT(capture, IsOk()) << text;
  if (!capture || !capture->snapshot.environment || !capture->snapshot.environment->slurm) return {};
  return *capture->snapshot.environment->slurm;
}

TEST(SlurmCounts, OnlyGpusAreCounted) {
  EXPECT_EQ(gpus_of_gres("gpu:a100:4(S:0-1),ssd:1"), 4);
  EXPECT_EQ(gpus_of_gres("gpu:3g.40gb:8(S:0,1),gpu:1g.10gb:16"), 24) << "a comma in brackets parts nothing";
  EXPECT_EQ(gpus_of_gres("gpu_mem:16280,gpu:1"), 1);
  EXPECT_EQ(gpus_of_gres("gpu:(null):0(IDX:N/A)"), 0);
  EXPECT_EQ(gpus_of_gres("ssd:1"), std::nullopt);
  EXPECT_EQ(gpus_of_tres("cpu=6,node=1,billing=6,gres/gpu=2"), 2);
  EXPECT_EQ(gpus_of_tres("cpu=6,gres/gpu:a100=2,gres/gpu:l4=1"), 3);
  EXPECT_EQ(gpus_of_tres("cpu=6,gres/gpu=3,gres/gpu:a100=3"), 3) << "the sum stands beside its parts";
  EXPECT_EQ(gpus_of_tres("billing=6,gres/gpu=1+"), std::nullopt) << "sacct has cut it";
  EXPECT_EQ(gpus_of_tres("cpu=6,gres/gpumem=20G"), std::nullopt);
}

TEST(SlurmStates, LongShortAndCutOnesAreTheSame) {
  EXPECT_EQ(job_state("R"), "RUNNING");
  EXPECT_EQ(job_state("OUT_OF_ME+"), "OUT_OF_MEMORY");
  EXPECT_EQ(job_state("CANCELLED by 1000"), "CANCELLED");
  EXPECT_EQ(job_state("COMPLET"), "") << "completed or completing";
  EXPECT_EQ(job_state("Fine"), "");
  EXPECT_TRUE(is_node_state("mixed-"));
  EXPECT_TRUE(is_node_state("DOWN*+DRAIN"));
  EXPECT_FALSE(is_node_state("excellent"));
}

TEST(SlurmRecords, ANodeTellsItsGpusAndWhyItIsDrained) {
  const auto cluster = cluster_of(
      "NodeName=gpu01 Arch=x86_64 CoresPerSocket=32\n"
      "   CPUAlloc=12 CPUTot=64 CPULoad=3.10\n"
      "   Gres=gpu:a100:4(S:0-1)\n"
      "   NodeAddr=gpu01 NodeHostName=gpu01 Version=23.02.6\n"
      "   OS=Linux 5.15.0-91-generic #101-Ubuntu SMP\n"
      "   State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0\n"
      "   Partitions=gpu,debug\n"
      "   CfgTRES=cpu=64,mem=500G,gres/gpu=4\n"
      "   AllocTRES=cpu=12,mem=64G,gres/gpu=1\n"
      "   Reason=GPU 2 fell off the bus [root@2025-03-01T10:00:00]\n\n"
      "NodeName=gpu02 Gres=(null) State=IDLE CfgTRES=cpu=64,gres/gpu=8 AllocTRES=\n");
  ASSERT_THAT(cluster.nodes, SizeIs(2));
  const auto& node = cluster.nodes[0];
  EXPECT_EQ(node.state, "MIXED+DRAIN");
  EXPECT_EQ(node.gpus, 4);
  EXPECT_EQ(node.gpus_allocated, 1);
  EXPECT_EQ(node.cpus, 64);
  EXPECT_THAT(node.partitions, ElementsAre("gpu", "debug"));
  EXPECT_EQ(node.reason, "GPU 2 fell off the bus [root@2025-03-01T10:00:00]");
  EXPECT_EQ(cluster.nodes[1].gpus, 8) << "where Gres is not told, the trackable resources tell";
  EXPECT_EQ(cluster.nodes[1].gpus_allocated, std::nullopt);
}

TEST(SlurmRecords, AJobTellsWhichGpusItHas) {
  const auto cluster = cluster_of(
      "$ scontrol show job -d 4711\n"
      "JobId=4711 ArrayJobId=4700 ArrayTaskId=11 JobName=train\n"
      "   UserId=ada(1001) GroupId=ada(1001)\n"
      "   . . .\n"
      "   JobState=RUNNING Reason=None Dependency=(null)\n"
      "   ExitCode=0:0 Partition=gpu NodeList=gpu[01-02] NumNodes=2\n"
      "   AllocTRES=cpu=32,node=2,gres/gpu=8\n"
      "   JOB_GRES=gpu:a100:8\n"
      "     Nodes=gpu[01-02] CPU_IDs=0-15 Mem=0 GRES=gpu:a100:4(IDX:0-3)\n"
      "   Command=/home/ada/train.sh --lr=0.1\n"
      "   TresPerNode=gres/gpu:4\n");
  ASSERT_THAT(cluster.jobs, SizeIs(1));
  const auto& job = cluster.jobs[0];
  EXPECT_EQ(job.id, "4711");
  EXPECT_EQ(job.state, "RUNNING");
  EXPECT_EQ(job.gpus, 8);
  EXPECT_EQ(job.gpu_places, "gpu:a100:4(IDX:0-3)");
  EXPECT_EQ(job.nodes, "gpu[01-02]");
  EXPECT_EQ(job.reason, "") << "None is no reason";
}

TEST(SlurmRecords, PartitionsAndTheConfiguration) {
  const auto cluster = cluster_of(
      "PartitionName=gpu AllowGroups=ALL Default=YES MaxTime=2-00:00:00 State=UP TotalNodes=12 "
      "TRES=cpu=768,node=12,gres/gpu=48\n"
      "Configuration data as of 2025-01-02T03:04:05\n"
      "ClusterName             = alpha\n"
      "SLURM_VERSION           = 24.05.4\n\n"
      "Cgroup Support Configuration:\n"
      "ConstrainDevices        = no\n\n"
      "Slurmctld(primary) at head is UP\n");
  ASSERT_THAT(cluster.partitions, SizeIs(1));
  EXPECT_EQ(cluster.partitions[0].state, "up");
  EXPECT_EQ(cluster.partitions[0].nodes, 12);
  EXPECT_EQ(cluster.partitions[0].gpus, 48);
  EXPECT_EQ(cluster.cluster, "alpha");
  EXPECT_EQ(cluster.version, "24.05.4");
  EXPECT_EQ(cluster.constrain_devices, false);
}

TEST(SlurmRecords, GresPickedOutWithGrepIsOfTheNodeThatWasAsked) {
  const auto cluster = cluster_of("$ scontrol show node dgx7 | grep Gres\n   Gres=gpu:h100:8(S:0-1)\n");
  ASSERT_THAT(cluster.nodes, SizeIs(1));
  EXPECT_EQ(cluster.nodes[0].name, "dgx7");
  EXPECT_EQ(cluster.nodes[0].gpus, 8);
}

TEST(SlurmTables, SinfoCountsNodesOfAState) {
  const auto cluster = cluster_of(
      "$ sinfo\n"
      "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
      "gpu*         up 2-00:00:00      3  alloc gpu[01-03]\n"
      "gpu*         up 2-00:00:00      1 drain* gpu04\n"
      "debug        up    1:00:00      0    n/a\n");
  ASSERT_THAT(cluster.nodes, SizeIs(2));
  EXPECT_EQ(cluster.nodes[0].count, 3);
  EXPECT_EQ(cluster.nodes[1].state, "drain*");
  EXPECT_THAT(cluster.nodes[1].partitions, ElementsAre("gpu"));
  ASSERT_THAT(cluster.partitions, SizeIs(2));
  EXPECT_EQ(cluster.partitions[1].time_limit, "1:00:00") << "an empty cell moves no other";
}

TEST(SlurmTables, SinfoByNodeWithGres) {
  const auto cluster = cluster_of(
      "NODELIST  STATE     CPUS(A/I/O/T)  GRES                 GRES_USED\n"
      "g01       mixed     12/52/0/64     gpu:a100:2(S:1)      gpu:a100:1(IDX:0)\n"
      "g01       mixed     12/52/0/64     gpu:a100:2(S:1)      gpu:a100:1(IDX:0)\n"
      "g02       idle      0/64/0/64      (null)               gpu:0\n");
  ASSERT_THAT(cluster.nodes, SizeIs(2)) << "a node stands there once for each of its partitions";
  EXPECT_EQ(cluster.nodes[0].gpus, 2);
  EXPECT_EQ(cluster.nodes[0].gpus_allocated, 1);
  EXPECT_EQ(cluster.nodes[0].cpus, 64);
  EXPECT_EQ(cluster.nodes[1].gpus, std::nullopt);
}

TEST(SlurmTables, SinfoTellsWhyNodesAreDown) {
  const auto cluster = cluster_of(
      "REASON               USER      TIMESTAMP           NODELIST\n"
      "NVML: GPU lost       root      2025-03-01T10:00:00 gpu[04,07]\n");
  ASSERT_THAT(cluster.nodes, SizeIs(1));
  EXPECT_EQ(cluster.nodes[0].reason, "NVML: GPU lost");
  EXPECT_EQ(cluster.nodes[0].name, "gpu[04,07]");
}

TEST(SlurmTables, SinfoCountsCpusOfTheCluster) {
  const auto cluster = cluster_of("100/20/4/124\n");
  ASSERT_TRUE(cluster.cpus);
  EXPECT_EQ(cluster.cpus->idle, 20);
  EXPECT_FALSE(read_capture("100/20/4/12", "cut")) << "numbers that do not add up are none";
}

TEST(SlurmTables, SinfoWithoutAHeader) {
  const auto states = cluster_of("28,idle\n1,drained*\n");
  ASSERT_THAT(states.nodes, SizeIs(2));
  EXPECT_EQ(states.nodes[0].count, 28);
  EXPECT_EQ(states.nodes[1].state, "drained*");
  EXPECT_EQ(states.nodes[1].name, "") << "nobody said which";
  const auto gpus = cluster_of("4 gpu:a100:8(S:0-1) gpu:a100:2(IDX:0-1)\n10 gpu:l4:1\n");
  ASSERT_THAT(gpus.nodes, SizeIs(2));
  EXPECT_EQ(gpus.nodes[0].gpus, 8);
  EXPECT_EQ(gpus.nodes[0].gpus_allocated, 2);
  const auto named = cluster_of("gpu01   163840   193000   12/4/0/16   mixed\n");
  ASSERT_THAT(named.nodes, SizeIs(1));
  EXPECT_EQ(named.nodes[0].name, "gpu01");
  EXPECT_EQ(named.nodes[0].cpus, 16);
  EXPECT_FALSE(read_capture("3,error\n4,unknown\n2 gpu\n12 apples idle\nfrom 1/2/3/5 to idle\n", "prose"));
}

TEST(SlurmTables, SqueueHasNodesOrAReason) {
  const auto cluster = cluster_of(
      "  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
      "    101       gpu    train      ada  R    1:02:03      2 gpu[01-02]\n"
      "    102       gpu my train      ada PD       0:00      1 (Resources)\n"
      "103_[1-       gpu    array      ada PD       0:00      1 (JobArrayTaskLimit)\n");
  ASSERT_THAT(cluster.jobs, SizeIs(3));
  EXPECT_EQ(cluster.jobs[0].state, "RUNNING");
  EXPECT_EQ(cluster.jobs[0].nodes, "gpu[01-02]");
  EXPECT_EQ(cluster.jobs[1].name, "my train") << "a blank in a name moves no column";
  EXPECT_EQ(cluster.jobs[1].reason, "Resources");
  EXPECT_EQ(cluster.jobs[2].id, "103_[1-");
}

TEST(SlurmTables, SacctWithDashesAndWithBars) {
  const auto ruled = cluster_of(
      "JobID           JobName  AllocTRES      State ExitCode\n"
      "------------ ---------- ---------- ---------- --------\n"
      "22171            my job cpu=4,gre+  COMPLETED      0:0\n"
      "22171.batch       batch            OUT_OF_ME+      0:9\n");
  ASSERT_THAT(ruled.jobs, SizeIs(2));
  EXPECT_EQ(ruled.jobs[0].name, "my job");
  EXPECT_EQ(ruled.jobs[0].gpus, std::nullopt);
  EXPECT_EQ(ruled.jobs[1].state, "OUT_OF_MEMORY");
  EXPECT_EQ(ruled.jobs[1].exit_code, "0:9");
  const auto barred = cluster_of(
      "JobID|JobName|Partition|AllocTRES|State|ExitCode|NodeList\n"
      "5001|train|gpu|billing=4,cpu=4,gres/gpu=2,node=1|CANCELLED by 1001|0:0|gpu01\n");
  ASSERT_THAT(barred.jobs, SizeIs(1));
  EXPECT_EQ(barred.jobs[0].gpus, 2);
  EXPECT_EQ(barred.jobs[0].state, "CANCELLED");
}

TEST(SlurmTables, SacctOfUnfinishedJobsCutRecordsAndNamesWithLineBreaks) {
  const auto cluster = cluster_of(
      "JobID|JobName|State|ExitCode|AllocTRES|ReqTRES|NodeList\n"
      "1234|train|RUNNING|0:0|cpu=64,gres/gpu:h100=8,gres/gpu=8,node=1|cpu=64,gres/gpu=4,node=1|node01\n"
      "1235|eval|PENDING|0:0||cpu=8,gres/gpu=3,node=1|None assigned\n"
      "1236|cut|COMPLETED|0:0|cpu=8,gres/gpu=1\n"
      "1237|two\n\nlines\nof a name|FAILED|1:0|cpu=8,gres/gpu=2,node=1|x|node02\n"
      "1238|last|FAILED|1:0|cpu=8,gres/gpu=5,node=1|x|node03\n");
  ASSERT_THAT(cluster.jobs, SizeIs(5));
  EXPECT_EQ(cluster.jobs[0].gpus, 8) << "what was granted, not what was asked for";
  EXPECT_EQ(cluster.jobs[1].gpus, 3) << "what was asked for, as long as nothing is granted";
  EXPECT_EQ(cluster.jobs[1].nodes, "") << "'None assigned' is no node";
  EXPECT_EQ(cluster.jobs[2].state, "COMPLETED");
  EXPECT_EQ(cluster.jobs[2].gpus, std::nullopt) << "1 may have been 16";
  EXPECT_EQ(cluster.jobs[3].id, "1237");
  EXPECT_EQ(cluster.jobs[3].state, "FAILED");
  EXPECT_EQ(cluster.jobs[3].gpus, 2);
  EXPECT_EQ(cluster.jobs[3].nodes, "node02");
  EXPECT_EQ(cluster.jobs[4].nodes, "node03") << "the record behind it is its own";
}

TEST(GresConf, LinesOfANodeAddUpAndFilesAreCounted) {
  const auto cluster = cluster_of(
      "# the site's GPUs\n"
      "AutoDetect=off\n"
      "NodeName=node[01-04] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n"
      "NodeName=node05 Name=gpu Type=a100 File=/dev/nvidia2,/dev/nvidia0 Cores=0-31\n"
      "NodeName=node05 name=gpu type=a100 file=/dev/nvidia[5-4,7] COREs=32-63   # the other way round\n"
      "NodeName=node06 Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21\n"
      "NodeName=node06 Name=shard Count=8\n");
  ASSERT_THAT(cluster.nodes, SizeIs(3));
  EXPECT_EQ(cluster.nodes[0].name, "node[01-04]");
  EXPECT_EQ(cluster.nodes[0].gpus, 8);
  EXPECT_EQ(cluster.nodes[0].gres, "gpu:h100:8");
  EXPECT_EQ(cluster.nodes[1].gpus, 5);
  EXPECT_EQ(cluster.nodes[1].gres, "gpu:a100:2,gpu:a100:3");
  EXPECT_EQ(cluster.nodes[2].gpus, 1);
}

TEST(GresConf, LinesWithoutANodeAreOfTheNodeItselfAndWhatSlurmFindsIsNotCounted) {
  const auto own = cluster_of("AutoDetect=nvml\nName=gpu Type=gh200 File=/dev/nvidia[0-3]\n");
  EXPECT_THAT(own.gres, ElementsAre("gpu", "gpu:gh200:4"));
  EXPECT_THAT(own.nodes, IsEmpty());
  const auto counted = cluster_of("Name=gpu Count=2\n");
  EXPECT_THAT(counted.gres, ElementsAre("gpu:2"));
  const auto found = cluster_of("NodeName=n1 AutoDetect=nvml Name=gpu Type=a100\n");
  ASSERT_THAT(found.nodes, SizeIs(1));
  EXPECT_EQ(found.nodes[0].gpus, std::nullopt);
  for (const auto* const other :
       {"Name=gpu", "Name=Ada Type=person Age=36", "NodeName=n1 Gres=gpu:8", "AutoDetect=yes"})
    EXPECT_FALSE(read_gres_line({.text = other, .number = 1}).has_value()) << other;
  EXPECT_EQ(count_of_files("/dev/nvidia[0-99999999]"), std::nullopt);
  EXPECT_EQ(count_of_files("/dev/nvidia[0-"), std::nullopt);
}

TEST(SlurmTables, RowsWithoutAHeaderAreKnownByNumberAndState) {
  const auto short_rows = cluster_of("15001,RUNNING\n15002,NODE_FAIL\n");
  ASSERT_THAT(short_rows.jobs, SizeIs(2));
  EXPECT_EQ(short_rows.jobs[1].state, "NODE_FAIL");
  const auto wide =
      cluster_of("gres/gpu:8|#1|#42953390_320|#42953598|#run|#3-00:00:00|#PENDING|#cpu=1,node=1,gres/gpu=8|#ada|#1\n");
  ASSERT_THAT(wide.jobs, SizeIs(1));
  EXPECT_EQ(wide.jobs[0].id, "42953390_320");
  EXPECT_EQ(wide.jobs[0].gpus, 8);
  EXPECT_FALSE(read_capture("1500,apples\nvalue,RUNNING\n", "prose"));
}

TEST(Slurm, ACutLosesValuesAndChangesNone) {
  const std::string text =
      "NodeName=gpu01 CPUTot=64 Gres=gpu:a100:16 State=IDLE Partitions=gpu\n\n"
      "JobId=4711 JobName=train JobState=RUNNING ReqTRES=cpu=32,gres/gpu=16\n\n"
      "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
      "gpu          up 2-00:00:00     30  alloc gpu[02-31]\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto capture = read_capture(text.substr(0, length), "cut");
    if (!capture) continue;
    const auto& cluster = *capture->snapshot.environment->slurm;
    for (const auto& node : cluster.nodes) {
      EXPECT_TRUE(node.name == "gpu01" || node.name == "gpu[02-31]") << node.name;
      if (node.gpus) {
        EXPECT_EQ(node.gpus, 16) << length;
      }
    }
    for (const auto& job : cluster.jobs) {
      EXPECT_EQ(job.id, "4711");
      if (job.gpus) {
        EXPECT_EQ(job.gpus, 16) << length;
      }
    }
  }
}

TEST(Slurm, StandsBesideTheGpusAndComesBackFromJson) {
  const auto capture = read_capture(
      "GPU 0: NVIDIA L4 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n\n"
      "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n7 gpu a b R 0:01 1 g1\n",
      "both");
  ASSERT_THAT(capture, IsOk());
  EXPECT_THAT(capture->snapshot.gpus, SizeIs(1));
  EXPECT_THAT(capture->snapshot.origin, HasSubstr("Slurm"));
  const auto again = facts::snapshot_from_json(facts::to_json(capture->snapshot));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->environment, capture->snapshot.environment);
  EXPECT_THAT(again->environment->slurm->jobs, SizeIs(1));
  EXPECT_THAT(again->environment->slurm->nodes, IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::capture
