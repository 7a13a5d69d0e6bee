// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/prometheus.hpp"

#include <cmath>
#include <mutex>

#include "gpuwarden/facts/metrics.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::eventually;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::kSoon;
using ::testing::SizeIs;

std::string vector_of(const std::string& samples) {
  return R"({"status":"success","data":{"resultType":"vector","result":[)" + samples + "]}}";
}

TEST(InstantVector, HasItsLabelsAndValues) {
  const auto samples = parse_instant_vector(
      vector_of(R"({"metric":{"__name__":"up","job":"gpu","instance":"gpu-1:10478"},"value":[1763900000.125,"1"]},)"
                R"({"metric":{},"value":[1763900000,"NaN"]},{"metric":{},"value":[1763900000,"+Inf"]},)"
                R"({"metric":{},"value":[1763900000,"1.5e+09"]})"));
  ASSERT_THAT(samples, IsOk());
  ASSERT_EQ(samples->size(), 4U);
  EXPECT_EQ((*samples)[0].metric, "up");
  EXPECT_EQ((*samples)[0].labels.at("instance"), "gpu-1:10478");
  EXPECT_EQ((*samples)[0].value, 1);
  EXPECT_EQ((*samples)[0].time.time_since_epoch(), 1763900000125ms);
  EXPECT_TRUE(std::isnan((*samples)[1].value));
  EXPECT_EQ((*samples)[2].value, HUGE_VAL);
  EXPECT_EQ((*samples)[3].value, 1.5e9);
}

TEST(InstantVector, OfNobodyIsEmpty) {
  const auto samples = parse_instant_vector(vector_of(""));
  ASSERT_THAT(samples, IsOk());
  EXPECT_THAT(*samples, IsEmpty());
}

TEST(InstantVector, ARefusalIsToldInPrometheussWords) {
  EXPECT_THAT(parse_instant_vector(R"({"status":"error","errorType":"bad_data","error":"parse error: no"})"),
              FailsWith(ErrorCode::failed, HasSubstr("bad_data: parse error: no")));
}

TEST(InstantVector, WhatIsNoneIsCorrupt) {
  for (const char* text :
       {"", "<html>", "[]", "{}", R"({"status":"success"})", R"({"status":"success","data":[]})",
        R"({"status":"success","data":{"resultType":"matrix","result":[]}})",
        R"({"status":"success","data":{"resultType":"vector","result":{}}})",
        R"({"status":"success","data":{"resultType":"vector","result":[1]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]}]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1e300,"1"]}]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":[],"value":[1,"1"]}]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":1},"value":[1,"1"]}]}})"})
    EXPECT_THAT(parse_instant_vector(text), FailsWith(ErrorCode::corrupt, HasSubstr("none of Prometheus's"))) << text;
}

/// Samples as a Prometheus has them that scrapes machines.
class Scraped : public ::testing::Test {
 protected:
  using Labels = std::map<std::string, std::string>;
  void add(const std::string& metric, double value, Labels labels, const std::string& instance = "gpu-1:10478") {
    labels["instance"] = instance;
    labels["job"] = "gpu";
    samples_.push_back({metric, std::move(labels), value, std::chrono::system_clock::time_point(1763900000s)});
  }
  void add_gpu(const std::string& metric, double value, Labels more = {}) {
    more["gpu"] = "3";
    more["uuid"] = "GPU-a";
    add(metric, value, std::move(more));
  }
  void know_job() { samples_.push_back({"", {{"job", "gpu"}}, 2, {}}); }
  std::vector<Node> nodes() const { return nodes_of(samples_, {}); }
  facts::GpuRecord only_gpu() const {
    const auto all = nodes();
    EXPECT_THAT(all, SizeIs(1));
    EXPECT_TRUE(all.at(0).reading);
    EXPECT_THAT(all.at(0).reading->snapshot.gpus, SizeIs(1));
    return all.at(0).reading->snapshot.gpus.at(0);
  }
  std::vector<PrometheusSample> samples_;
};

TEST_F(Scraped, EveryMetricOfTheTableComesBack) {
  for (const facts::Metric& metric : facts::metrics())
    add_gpu(std::string(metric.prometheus), std::clamp(7.0, metric.range.low, metric.range.high));
  const auto gpu = only_gpu();
  EXPECT_EQ(gpu.gpu.index, GpuIndex{3});
  EXPECT_EQ(gpu.gpu.uuid, Uuid("GPU-a"));
  for (const facts::Metric& metric : facts::metrics()) {
    const auto value = facts::value_of(metric, gpu.sample);
    ASSERT_TRUE(value) << metric.id;
    EXPECT_NEAR(*value, std::clamp(7.0, metric.range.low, metric.range.high), 0.01) << metric.id;
  }
}

TEST_F(Scraped, AMachineIsWhatItSaysOfItself) {
  add("gpuwarden_up", 1, {});
  add("gpuwarden_info", 1,
      {{"hostname", "gpu-1"}, {"driver_version", "550.54.15"}, {"cuda_driver_version", "12.4"}, {"simulated", "true"}});
  add("gpuwarden_reading_timestamp_seconds", 1763899999.5, {});
  add_gpu("gpuwarden_gpu_info", 1, {{"name", "NVIDIA H100"}, {"pci_bus_id", "00000000:17:00.0"}, {"state", "lost"}});
  add_gpu("gpuwarden_gpu_health", 0, {{"state", "available"}});
  add_gpu("gpuwarden_gpu_health", 1, {{"state", "error"}});
  add_gpu("gpuwarden_gpu_throttle_reason", 0, {{"reason", "sw_power_cap"}});
  add_gpu("gpuwarden_gpu_throttle_reason", 1, {{"reason", "hw_slowdown"}});
  add_gpu("gpuwarden_gpu_leased", 1);
  add_gpu("gpuwarden_gpu_temperature_slowdown_celsius", 87);
  add_gpu("gpuwarden_gpu_power_limit_max_watts", 700);
  add_gpu("gpuwarden_process_memory_bytes", 1024, {{"pid", "77"}, {"user", "ann"}});
  add_gpu("gpuwarden_process_sm_percent", 33, {{"pid", "77"}, {"user", "ann"}});
  const auto all = nodes();
  ASSERT_THAT(all, SizeIs(1));
  const Node& node = all[0];
  EXPECT_EQ(node.name, "gpu-1");
  EXPECT_EQ(node.url, "http://gpu-1:10478");
  EXPECT_FALSE(node.problem);
  EXPECT_EQ(node.seen.time_since_epoch(), 1763899999500ms);
  const auto& snapshot = node.reading->snapshot;
  EXPECT_EQ(snapshot.driver_version, "550.54.15");
  EXPECT_TRUE(snapshot.simulated);
  ASSERT_THAT(node.health, SizeIs(1));
  EXPECT_EQ(node.health[0].state, facts::HealthState::error);
  EXPECT_THAT(node.reading->leases, SizeIs(1));
  const auto& gpu = snapshot.gpus.at(0);
  EXPECT_EQ(gpu.gpu.name, "NVIDIA H100");
  EXPECT_EQ(gpu.state, facts::GpuState::lost);
  EXPECT_EQ(gpu.gpu.temperature_slowdown, Celsius(87));
  EXPECT_EQ(gpu.gpu.power_limit_max, Milliwatts(700000));
  ASSERT_TRUE(gpu.sample.throttle_reasons);
  EXPECT_THAT(*gpu.sample.throttle_reasons, ElementsAre(facts::ThrottleReason::hw_slowdown));
  ASSERT_TRUE(gpu.processes);
  ASSERT_THAT(*gpu.processes, SizeIs(1));
  EXPECT_EQ(gpu.processes->at(0).pid, Pid{77});
  EXPECT_EQ(gpu.processes->at(0).user, "ann");
  EXPECT_EQ(gpu.processes->at(0).memory, Bytes(1024));
  EXPECT_EQ(gpu.processes->at(0).sm, Percent(33));
}

TEST_F(Scraped, WhatWasNotToldIsUnknown) {
  add_gpu("gpuwarden_gpu_power_watts", std::nan(""));
  add_gpu("gpuwarden_gpu_temperature_celsius", 9223372036854775794.0);
  const auto gpu = only_gpu();
  EXPECT_FALSE(gpu.sample.power);
  EXPECT_FALSE(gpu.sample.temperature);
  EXPECT_FALSE(gpu.sample.utilization_gpu);
  EXPECT_FALSE(gpu.processes);
}

TEST_F(Scraped, DcgmsNamesAndUnitsAreUnderstood) {
  const Labels labels{{"gpu", "0"},
                      {"UUID", "GPU-d"},
                      {"modelName", "NVIDIA A100"},
                      {"pci_bus_id", "00000000:07:00.0"},
                      {"Hostname", "old-node"},
                      {"DCGM_FI_DRIVER_VERSION", "535.1"}};
  add("DCGM_FI_DEV_GPU_UTIL", 97, labels);
  add("DCGM_FI_DEV_FB_USED", 1024, labels);
  add("DCGM_FI_DEV_FB_FREE", 3072, labels);
  add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 5000, labels);
  add("DCGM_FI_PROF_SM_ACTIVE", 0.5, labels);
  add("DCGM_FI_DEV_MEMORY_TEMP", 9223372036854775794.0, labels);
  add("DCGM_FI_DEV_XID_ERRORS", 0, labels);
  const auto all = nodes();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].name, "old-node");
  EXPECT_EQ(all[0].reading->snapshot.driver_version, "535.1");
  const auto& gpu = all[0].reading->snapshot.gpus.at(0);
  EXPECT_EQ(gpu.gpu.name, "NVIDIA A100");
  EXPECT_EQ(gpu.sample.utilization_gpu, Percent(97));
  EXPECT_EQ(gpu.sample.memory_used, 1_GiB);
  EXPECT_EQ(gpu.sample.memory_total, 4_GiB);
  EXPECT_EQ(gpu.sample.energy, Millijoules(5000));
  EXPECT_NEAR(*facts::value_of(*facts::find_metric("sm_active"), gpu.sample), 50, 0.01);
  EXPECT_FALSE(gpu.sample.temperature_memory) << "DCGM's blank";
}

TEST_F(Scraped, DcgmsLaterNamesToo) {
  const Labels labels{{"gpu", "0"}, {"UUID", "GPU-d"}, {"hostname", "new-node"}};
  add("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.25, labels);
  add("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1.98e9, labels);
  add("DCGM_FI_DEV_FB_CAPACITY_BYTES", 1 << 30, labels);
  const auto gpu = only_gpu();
  EXPECT_EQ(gpu.sample.utilization_gpu, Percent(25));
  EXPECT_EQ(gpu.sample.clock_sm, Megahertz(1980));
  EXPECT_EQ(gpu.sample.memory_total, 1_GiB);
}

TEST_F(Scraped, FiguresOfAMigInstanceAreNotTheGpus) {
  add("DCGM_FI_DEV_FB_USED", 5, {{"gpu", "0"}, {"UUID", "GPU-d"}, {"GPU_I_ID", "3"}});
  const auto gpu = only_gpu();
  EXPECT_EQ(gpu.gpu.mig_enabled, true);
  EXPECT_EQ(gpu.mig_listed, false);
  EXPECT_FALSE(gpu.sample.memory_used);
}

TEST_F(Scraped, AGpuThatBothWatchIsShownOnce) {
  add_gpu("gpuwarden_gpu_power_watts", 300);
  add("DCGM_FI_DEV_POWER_USAGE", 301, {{"gpu", "3"}, {"UUID", "GPU-a"}}, "gpu-1:9400");
  EXPECT_THAT(nodes(), SizeIs(1));
  EXPECT_EQ(only_gpu().sample.power, Milliwatts(300000));
}

TEST_F(Scraped, ATargetThatIsDownIsANodeWithAProblem) {
  know_job();
  add_gpu("gpuwarden_gpu_power_watts", 300);
  add("up", 1, {});
  add("up", 0, {}, "gpu-2:10478");
  samples_.push_back({"up", {{"job", "databases"}, {"instance", "db:1"}}, 0, {}});
  const auto all = nodes();
  ASSERT_THAT(all, SizeIs(2)) << "other jobs are not ours";
  EXPECT_FALSE(all[0].problem);
  EXPECT_EQ(all[1].name, "gpu-2:10478");
  ASSERT_TRUE(all[1].problem);
  EXPECT_THAT(all[1].problem->message, HasSubstr("Prometheus cannot scrape gpu-2:10478"));
  EXPECT_FALSE(all[1].reading);
}

TEST_F(Scraped, AServerThatReadsNoGpusAnyMoreIsAProblemToo) {
  add("gpuwarden_up", 0, {});
  const auto all = nodes();
  ASSERT_THAT(all, SizeIs(1));
  ASSERT_TRUE(all[0].problem);
  EXPECT_THAT(all[0].problem->message, HasSubstr("could not be read"));
}

TEST_F(Scraped, AServerWithPeersIsAsManyNodes) {
  add_gpu("gpuwarden_gpu_power_watts", 300, {{"node", "a"}});
  add("gpuwarden_gpu_power_watts", 200, {{"node", "b"}, {"gpu", "0"}, {"uuid", "GPU-b"}});
  const auto all = nodes();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[1].name, "b");
}

/// A Prometheus that answers from memory.
class Source : public ::testing::Test {
 protected:
  Source() {
    options_.url = "prometheus:9090/";
    options_.interval = 10ms;
    options_.ask = [this](std::span<const net::HttpRequest> requests, unsigned, const std::stop_token&) {
      const std::scoped_lock lock(mutex_);
      std::vector<Result<net::HttpAnswer>> answers;
      for (const auto& request : requests) {
        asked_.push_back(request);
        answers.push_back(answer_);
      }
      if (answer_ && answer_->status == 200 && answer_->body.empty()) {
        answers[0] = body(gpu_);
        answers[1] = body("");
        answers[2] = body(up_);
        answers[3] = body(R"({"metric":{"job":"gpu"},"value":[1763900000,"1"]})");
      }
      return answers;
    };
  }
  static Result<net::HttpAnswer> body(const std::string& samples) {
    return net::HttpAnswer{200, "application/json", vector_of(samples)};
  }
  void answer_with(Result<net::HttpAnswer> answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
  }
  bool shows(const PrometheusSource& source, const std::string& problem) const {
    return eventually(kSoon, [&] {
      const auto nodes = source.nodes();
      const std::string said = nodes.size() == 1 && nodes[0].problem ? nodes[0].problem->message : "";
      return nodes.size() == 1 && (problem.empty() ? said.empty() : said.contains(problem));
    });
  }

  PrometheusOptions options_;
  std::mutex mutex_;
  std::vector<net::HttpRequest> asked_;
  Result<net::HttpAnswer> answer_ = net::HttpAnswer{200, "application/json", ""};
  std::string gpu_ =
      R"({"metric":{"__name__":"gpuwarden_gpu_power_watts","job":"gpu","instance":"gpu-1:1","gpu":"0","uuid":"GPU-a"},)"
      R"("value":[1763900000,"300"]})";
  std::string up_ = R"({"metric":{"__name__":"up","job":"gpu","instance":"gpu-1:1"},"value":[1763900000,"1"]})";
};

TEST_F(Source, ShowsWhatPrometheusKnows) {
  const auto source = PrometheusSource::open(options_);
  ASSERT_THAT(source, IsOk());
  ASSERT_TRUE(shows(**source, ""));
  EXPECT_EQ((*source)->nodes()[0].reading->snapshot.gpus[0].sample.power, Milliwatts(300000));
  const std::scoped_lock lock(mutex_);
  EXPECT_THAT(asked_[0].url,
              HasSubstr("http://prometheus:9090/api/v1/query?query=%7B__name__%3D%7E%22gpuwarden_%28up%7C"));
}

TEST_F(Source, AMachineThatGoesDownKeepsItsLastReading) {
  const auto source = PrometheusSource::open(options_);
  ASSERT_THAT(source, IsOk());
  ASSERT_TRUE(shows(**source, ""));
  {
    const std::scoped_lock lock(mutex_);
    gpu_.clear();
    up_ = R"({"metric":{"__name__":"up","job":"gpu","instance":"gpu-1:1"},"value":[1763900000,"0"]})";
  }
  ASSERT_TRUE(shows(**source, "cannot scrape"));
  ASSERT_TRUE((*source)->nodes()[0].reading);
  EXPECT_EQ((*source)->nodes()[0].reading->snapshot.gpus[0].gpu.uuid, Uuid("GPU-a"));
}

TEST_F(Source, WhileItDoesNotAnswerThatIsSaidOfEveryNode) {
  answer_with(fail(ErrorCode::unavailable, "connection refused"));
  const auto source = PrometheusSource::open(options_);
  ASSERT_THAT(source, IsOk());
  ASSERT_TRUE(shows(**source, "connection refused"));
  EXPECT_TRUE((*source)->asked_all());
  EXPECT_EQ((*source)->nodes()[0].name, "http://prometheus:9090");
  answer_with(net::HttpAnswer{401, "text/plain", "no"});
  ASSERT_TRUE(shows(**source, "refused the request (HTTP 401)"));
  answer_with(net::HttpAnswer{502, "text/html", "<html>"});
  ASSERT_TRUE(shows(**source, "HTTP 502"));
  answer_with(
      net::HttpAnswer{422, "application/json", R"({"status":"error","errorType":"execution","error":"too many"})"});
  ASSERT_TRUE(shows(**source, "execution: too many"));
  answer_with(net::HttpAnswer{200, "application/json", ""});
  EXPECT_TRUE(shows(**source, ""));
}

TEST_F(Source, WhatIsNoUrlIsRefused) {
  for (const char* url : {"", "ftp://x", "http://", "file:///etc/passwd"}) {
    options_.url = url;
    EXPECT_FALSE(PrometheusSource::open(options_).has_value()) << url;
  }
  options_.url = "http://x";
  options_.token_file = "/nonexistent/token";
  EXPECT_THAT(PrometheusSource::open(options_),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("/nonexistent/token")));
}

}  // namespace
}  // namespace gpuwarden::cluster
