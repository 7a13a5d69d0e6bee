// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/other_machines.hpp"

#include <atomic>

#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::cluster {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::SizeIs;
using testing::TempDir;

AskAll always(const Result<net::HttpAnswer>& answer) {
  return [answer](std::span<const net::HttpRequest> requests, unsigned, const std::stop_token&) {
    return std::vector<Result<net::HttpAnswer>>(requests.size(), answer);
  };
}

TEST(OtherMachines, ANameWithoutMachinesIsOneNodeThatSaysWhy) {
  const auto nobody = [](const std::string& name, const std::stop_token&) -> Result<std::vector<std::string>> {
    return fail(ErrorCode::not_found, name + " has no address");
  };
  const auto others = OtherMachines::open({.peers = "dns:gpus.example.org:10478",
                                           .once = true,
                                           .ask = always(fail(ErrorCode::failed, "")),
                                           .resolve = nobody});
  ASSERT_THAT(others, IsOk());
  const auto nodes = (*others)->first_answers();
  ASSERT_THAT(nodes, SizeIs(1));
  EXPECT_EQ(nodes[0].name, "dns:gpus.example.org:10478");
  ASSERT_TRUE(nodes[0].problem.has_value());
  EXPECT_THAT(nodes[0].problem->message, HasSubstr("has no address"));
}

TEST(OtherMachines, APeerThatIsLostSaysWhy) {
  const TempDir dir;
  testing::put(dir / "peers", "gpu-1:10478\n");
  const auto others = OtherMachines::open({.peers = (dir / "peers").string(),
                                           .once = true,
                                           .ask = always(fail(ErrorCode::unavailable, "connection refused"))});
  ASSERT_THAT(others, IsOk());
  const auto nodes = (*others)->first_answers();
  ASSERT_THAT(nodes, SizeIs(1));
  ASSERT_TRUE(nodes[0].problem.has_value());
  EXPECT_THAT(nodes[0].problem->message, HasSubstr("connection refused"));
}

TEST(OtherMachines, APrometheusWithoutGpusIsOneNodeToo) {
  const net::HttpAnswer empty{.status = 200,
                              .body = R"({"status":"success","data":{"resultType":"vector","result":[]}})"};
  const auto others = OtherMachines::open({.prometheus = "http://prometheus:9090", .once = true, .ask = always(empty)});
  ASSERT_THAT(others, IsOk());
  const auto nodes = (*others)->first_answers();
  ASSERT_THAT(nodes, SizeIs(1));
  EXPECT_EQ(nodes[0].problem->message, "Prometheus knows no GPUs");
}

TEST(OtherMachines, APlaceThatIsNoneIsRefused) {
  EXPECT_THAT(OtherMachines::open({.peers = "dns:name"}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("is not dns:NAME:PORT")));
  EXPECT_FALSE(OtherMachines::open({.prometheus = "ftp://prometheus"}));
}

}  // namespace
}  // namespace gpuwarden::cluster
