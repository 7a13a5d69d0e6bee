// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/on_hosts.hpp"

#include <algorithm>

#include "jobs/values.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::refusal;
using testing::said;

Result<hosts::JobOnHosts> hosts_job_of(const NamedValues& values) {
  return job_on_hosts_from(values, {.argv = {"train"},
                                    .environment = {{"PATH", "/usr/bin:/bin"}, {"TOKEN", "t"}},
                                    .version = "0.1.0",
                                    .options = {"--min-memory=40GiB"}});
}
/// An ssh that is there wherever the tests run.
NamedValues on(const char* hosts, std::initializer_list<std::pair<const char*, const char*>> more = {}) {
  NamedValues values = said(more);
  values.set("hosts", {hosts});
  values.set("ssh", {"sh -c true"});
  return values;
}

TEST(JobOnHostsFromValues, HasAnOrderForEachHost) {
  const auto job = hosts_job_of(on("a,b:4", {{"num-gpus", "2"},
                                             {"env", "TOKEN"},
                                             {"chdir", "/data"},
                                             {"master-port", "2222"},
                                             {"max-restarts", "2"},
                                             {"grace", "3s"},
                                             {"time-limit", "1h"},
                                             {"wait", ""}}));
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->hosts.size(), 2U);
  EXPECT_THAT(job->hosts[0].order.options, ElementsAre("--min-memory=40GiB", "--num-gpus=2"));
  EXPECT_THAT(job->hosts[1].order.options, ElementsAre("--min-memory=40GiB", "--num-gpus=4")) << "its own number";
  EXPECT_EQ(job->hosts[1].order.run_id, job->run_id + "-1");
  EXPECT_EQ(job->hosts[0].order.environment.at("TOKEN"), "t");
  EXPECT_EQ(job->hosts[0].order.folder, "/data");
  EXPECT_TRUE(job->hosts[0].order.needs_folder);
  EXPECT_EQ(job->master_port, 2222);
  EXPECT_EQ(job->restarts.max_restarts, 2U);
  EXPECT_EQ(job->grace, std::chrono::seconds(3));
  EXPECT_TRUE(job->one_by_one);
  EXPECT_TRUE(job->time_limit().end);
}

TEST(JobOnHostsFromValues, WhatMeansNothingThereIsRefused) {
  EXPECT_EQ(refusal(hosts_job_of(on("a", {{"rdzv-id", "x"}}))), "--hosts and --rdzv-id cannot be used together");
  EXPECT_EQ(refusal(hosts_job_of(on("a", {{"num-gpus", "1:4"}}))),
            "--hosts and a range of --num-gpus cannot be used together");
  EXPECT_EQ(refusal(hosts_job_of(on("a,b", {{"nnodes", "3"}}))), "--nnodes 3, but 2 hosts are given");
  EXPECT_EQ(refusal(hosts_job_of(on("a:2", {{"all", ""}}))), "a:2 and --all cannot be used together");
  EXPECT_EQ(refusal(hosts_job_of(on("a:2", {{"device", "cpu"}}))), "a:2 and --device cpu cannot be used together");
  EXPECT_EQ(refusal(hosts_job_of(on("a:2", {{"num-gpus", "2"}}))),
            "-n 2 is for hosts without a number of their own, and each has one");
  EXPECT_EQ(refusal(hosts_job_of(on("a", {{"tee", "3"}}))), "--redirects and --tee need --log-dir with --hosts");
  EXPECT_EQ(refusal(hosts_job_of(on("a:2", {{"gpus", "4"}}))), "a:2 and --gpus cannot be used together");
  EXPECT_EQ(refusal(hosts_job_of(on("a", {{"gpus", "4"}, {"num-gpus", "2"}}))),
            "--gpus and --num-gpus cannot be used together");
  EXPECT_EQ(refusal(hosts_job_of(on("a", {{"gpus", "4"}, {"device", "cpu"}}))),
            "--gpus and --device cpu cannot be used together");
  EXPECT_EQ(refusal(hosts_job_of(on("a", {{"env", "UNSET"}}))).substr(0, 7), "--env: ");
}

TEST(HostsFromValues, AreNamedInOnePlace) {
  const gpuwarden::testing::TempDir dir;
  const std::string file = (dir / "hosts").string();
  gpuwarden::testing::put(file, "a slots=2\nb\n");
  EXPECT_TRUE(names_hosts(said({{"hostfile", file.c_str()}})));
  EXPECT_FALSE(names_hosts(said({{"ssh", "ssh"}})));
  const auto hosts = hosts_from(said({{"hostfile", file.c_str()}}));
  ASSERT_TRUE(hosts);
  EXPECT_THAT(*hosts, ElementsAre(hosts::Host{"a", 2}, hosts::Host{"b", {}}));
  EXPECT_EQ(refusal(hosts_from(said({{"hostfile", file.c_str()}, {"hosts", "a"}}))),
            "--hosts and --hostfile cannot be used together");
  EXPECT_EQ(refusal(hosts_from(said({{"hosts", "-x"}}))).substr(0, 9), "--hosts: ");
}

TEST(SshFromValues, IsAProgramThatIsThere) {
  const Environment environment{{"PATH", "/usr/bin:/bin"}};
  EXPECT_EQ(ssh_from(said({{"ssh", "sh -c true"}}), environment)->ssh, "sh -c true");
  const auto missing = ssh_from(said({{"ssh", "no-such-ssh -p 2"}}), environment);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().hint, "check --ssh");
  EXPECT_TRUE(ssh_from(said({{"ssh", "$SSH -p 2"}}), environment)) << "a shell's to know";
  EXPECT_EQ(refusal(ssh_from(said({{"remote-program", ""}}), environment)), "--remote-program: no program is given");
}

TEST(NamesForHosts, TheLaunchersAreNotSent) {
  const auto kept = names_kept_from_hosts();
  for (const std::string_view name : launchers_names()) EXPECT_THAT(kept, Contains(name));
  EXPECT_THAT(kept, Contains("hostfile"));
  EXPECT_EQ(std::ranges::count(kept, std::string_view("min-memory")), 0);
}

}  // namespace
}  // namespace gpuwarden::jobs
