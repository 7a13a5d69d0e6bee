// SPDX-License-Identifier: Apache-2.0
// What the survey tells of networks, and of what leads to a toolkit, in trees of its own.
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/survey.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using facts::NetworkInterface;
using facts::RdmaAdapter;
using ::testing::ElementsAre;
using testing::put;

class Survey : public ::testing::Test {
 protected:
  facts::Environment surveyed() const {
    return survey({.root = dir_.path(), .variables = variables_, .deadline = testing::kSoon});
  }
  testing::TempDir dir_;
  Environment variables_;
};

TEST_F(Survey, TellsInterfacesWithTheirLinkAndRoute) {
  put(dir_ / "sys/class/net/lo/operstate", "unknown\n");
  put(dir_ / "sys/class/net/bonding_masters", "bond0\n");
  put(dir_ / "sys/class/net/docker0/operstate", "down\n");
  put(dir_ / "sys/class/net/ens3/operstate", "up\n");
  put(dir_ / "sys/class/net/ens3/speed", "25000\n");
  put(dir_ / "sys/class/net/ens3/device/vendor", "0x15b3\n");
  put(dir_ / "sys/class/net/ens4/operstate", "up\n");
  put(dir_ / "sys/class/net/ens4/speed", "-1\n");
  put(dir_ / "proc/net/route",
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "ens4\t0000A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
      "ens3\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n");
  EXPECT_THAT(surveyed().interfaces, ElementsAre(NetworkInterface{"docker0", false, false, false, std::nullopt},
                                                 NetworkInterface{"ens3", true, true, true, 25000},
                                                 NetworkInterface{"ens4", true, false, false, std::nullopt}));
}

TEST_F(Survey, TellsAdaptersByTheirBestPort) {
  put(dir_ / "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  put(dir_ / "sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
  put(dir_ / "sys/class/infiniband/mlx5_0/ports/2/state", "4: ACTIVE\n");
  put(dir_ / "sys/class/infiniband/mlx5_0/ports/2/link_layer", "InfiniBand\n");
  put(dir_ / "sys/class/infiniband/mlx5_0/ports/2/rate", "200 Gb/sec (4X HDR)\n");
  put(dir_ / "sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  put(dir_ / "sys/class/infiniband/mlx5_2/board_id", "without ports\n");
  EXPECT_THAT(surveyed().rdma_adapters, ElementsAre(RdmaAdapter{"mlx5_0", true, "InfiniBand", 200},
                                                    RdmaAdapter{"mlx5_1", false, "", std::nullopt},
                                                    RdmaAdapter{"mlx5_2", false, "", std::nullopt}));
}

TEST_F(Survey, TellsWhatLeadsToAToolkit) {
  for (const char* version : {"11.8", "12.4"}) {
    const std::string folder = std::string("usr/local/cuda-") + version;
    put(dir_ / (folder + "/version.json"), std::string(R"({"cuda_nvcc": {"version": ")") + version + ".1\"}}");
    put(dir_ / (folder + "/bin/nvcc"), "");
    put(dir_ / (folder + "/targets/x86_64-linux/lib/libcudart.so"), "");
  }
  std::filesystem::create_directories(dir_ / "etc/alternatives");
  std::filesystem::create_symlink("/etc/alternatives/cuda", dir_ / "usr/local/cuda");
  std::filesystem::create_symlink("/usr/local/cuda-11.8", dir_ / "etc/alternatives/cuda");
  variables_ = {{"CUDA_HOME", "/usr/local/cuda/"},
                {"CUDA_PATH", "/usr/local/cuda-12.4"},
                {"LD_LIBRARY_PATH", "/nowhere::/usr/local/cuda-12.4/targets/x86_64-linux/lib:/usr/local/cuda/targets"}};
  const auto found = surveyed();
  ASSERT_EQ(found.toolkits.size(), 2U);
  EXPECT_THAT(found.toolkits[0].named_by, ElementsAre("CUDA_HOME", "/usr/local/cuda", "update-alternatives"));
  EXPECT_THAT(found.toolkits[1].named_by, ElementsAre("CUDA_PATH", "LD_LIBRARY_PATH"));
  EXPECT_EQ(found.toolkits[1].libraries, "/usr/local/cuda-12.4/targets/x86_64-linux/lib");
  const auto read_back = facts::environment_from_json(facts::to_json(found));
  ASSERT_TRUE(read_back);
  EXPECT_EQ(*read_back, found);
}

}  // namespace
}  // namespace gpuwarden::probe
