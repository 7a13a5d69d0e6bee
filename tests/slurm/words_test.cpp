// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/words.hpp"

#include <set>

namespace gpuwarden::slurm {
namespace {

using std::chrono::seconds;

TEST(SlurmWords, EveryStateHasItsOwnCodeNameAndWords) {
  std::set<std::string_view> codes;
  std::set<std::string_view> names;
  for (const JobStateRow& row : job_states()) {
    EXPECT_TRUE(codes.insert(row.code).second) << row.code;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.words.empty());
    EXPECT_EQ(find_job_state(row.code), &row);
    EXPECT_EQ(find_job_state(row.name), &row);
  }
  ASSERT_NE(find_job_state("CANCELLED by 1000"), nullptr);
  EXPECT_TRUE(find_job_state("CANCELLED by 1000")->over);
  EXPECT_FALSE(find_job_state("COMPLETING")->over);
  EXPECT_EQ(find_job_state("NEWSTATE"), nullptr);
  EXPECT_EQ(find_job_state(""), nullptr);
}

TEST(SlurmWords, ReasonsAreSentencesAndUnknownOnesStayThemselves) {
  EXPECT_EQ(reason_words("Priority"), "jobs with a higher priority are before it");
  EXPECT_EQ(reason_words("(Resources)"), reason_words("Resources"));
  EXPECT_EQ(reason_words("QOSMaxGRESPerUser"), "a limit of its quality of service for one user or job is reached");
  EXPECT_EQ(reason_words("AssocGrpGRES"), "a limit of its account for all its users together is reached");
  EXPECT_EQ(reason_words("ReqNodeNotAvail, UnavailableNodes:node[3-4]"),
            "nodes that it needs are down, drained or reserved: node[3-4]");
  EXPECT_EQ(reason_words("ReqNodeNotAvail, UnavailableNodes:"), "nodes that it needs are down, drained or reserved");
  EXPECT_EQ(reason_words("BrandNewReason"), "BrandNewReason");
  EXPECT_EQ(reason_words("None"), "");
  EXPECT_EQ(reason_words(""), "");
}

TEST(SlurmWords, OnlyWhatDoesNotPassNeedsAChange) {
  EXPECT_TRUE(needs_change("PartitionTimeLimit"));
  EXPECT_TRUE(needs_change("JobHeldUser"));
  EXPECT_FALSE(needs_change("Resources"));
  EXPECT_FALSE(needs_change("BrandNewReason"));
}

TEST(SlurmWords, TimesAreReadAsSbatchReadsThem) {
  EXPECT_EQ(parse_time("90"), seconds(90 * 60)) << "minutes";
  EXPECT_EQ(parse_time("30:10"), seconds(30 * 60 + 10));
  EXPECT_EQ(parse_time("1:30:00"), seconds(5400));
  EXPECT_EQ(parse_time("2-12"), seconds(2 * 86400 + 12 * 3600)) << "hours behind days";
  EXPECT_EQ(parse_time("2-12:30"), seconds(2 * 86400 + 12 * 3600 + 30 * 60));
  EXPECT_EQ(parse_time("1-00:00:05"), seconds(86405));
  for (const char* text : {"infinite", "UNLIMITED", "n/a", "", "1:2:3:4", "-5", "2h", "99999999"})
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
}

TEST(SlurmWords, TimesAreWrittenAsSbatchReadsThem) {
  for (const seconds time : {seconds(1), seconds(59), seconds(3600), seconds(86399), seconds(86400), seconds(900000)})
    EXPECT_EQ(parse_time(format_time(time)), time);
  EXPECT_EQ(format_time(seconds(5400)), "1:30:00");
  EXPECT_EQ(format_time(seconds(86400 * 2 + 60)), "48:01:00");
}

TEST(SlurmWords, GpusAreCountedByType) {
  using Counts = std::vector<GpuCount>;
  EXPECT_EQ(gpus_in_gres("gpu:a100:4(S:0-1),ssd:1"), (Counts{{"a100", 4}}));
  EXPECT_EQ(gpus_in_gres("gpu:a100:2,gpu:v100:1(IDX:0),gpu:a100:1"), (Counts{{"a100", 3}, {"v100", 1}}));
  EXPECT_EQ(gpus_in_gres("gres:gpu:h100:8"), (Counts{{"h100", 8}}));
  EXPECT_EQ(gpus_in_gres("gres/gpu=3"), (Counts{{"", 3}}));
  EXPECT_EQ(gpus_in_gres("gpu:(null):0(IDX:N/A)"), (Counts{{"", 0}}));
  EXPECT_EQ(gpus_in_gres("gpu"), (Counts{{"", 1}}));
  EXPECT_EQ(gpus_in_gres("gpu_mem:16280,(null),gpu:x:y"), Counts{});
  EXPECT_EQ(sum_of(gpus_in_gres("gpu:a:3,gpu:b:4")), 7);
}

}  // namespace
}  // namespace gpuwarden::slurm
