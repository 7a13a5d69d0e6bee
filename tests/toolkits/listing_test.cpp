// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/listing.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/toolkits/activation.hpp"
#include "gpuwarden/toolkits/json.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::toolkits {
namespace {

using knowledge::Knowledge;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

facts::Snapshot machine() {
  facts::Snapshot snapshot;
  snapshot.driver_version = "550.54.15";
  snapshot.environment.emplace();
  snapshot.environment->toolkits = {{.version = "11.8.89", .path = "/usr/local/cuda-11.8"},
                                    {.version = "12.4.131", .path = "/usr/local/cuda-12.4"}};
  snapshot.environment->toolkits[1].nvcc = "/usr/local/cuda-12.4/bin/nvcc";
  return snapshot;
}

facts::GpuRecord gpu(const char* name, const char* vendor = "NVIDIA") {
  facts::GpuRecord record;
  record.gpu.name = name;
  record.gpu.vendor = vendor;
  return record;
}

TEST(DriverOf, IsTheDriversOwnWordThenTheModules) {
  facts::Snapshot snapshot = machine();
  snapshot.environment->driver.loaded_version = "535.104.12";
  snapshot.environment->driver.library_version = "570.1";
  EXPECT_EQ(to_string(*driver_of(snapshot)), "550.54.15");
  snapshot.driver_version.reset();
  EXPECT_EQ(to_string(*driver_of(snapshot)), "535.104.12");
  snapshot.environment->driver.loaded_version.reset();
  EXPECT_FALSE(driver_of(snapshot)) << "libraries alone are no driver";
  EXPECT_FALSE(driver_of({}));
}

TEST(ArchitecturesOf, AreEachNvidiaGpusOnceByItsOwnWordOrItsName) {
  facts::Snapshot snapshot;
  snapshot.gpus = {gpu("NVIDIA H100 80GB HBM3"), gpu("Tesla T4"), gpu("NVIDIA H100 80GB HBM3"), gpu("MI300X", "AMD"),
                   gpu("of tomorrow")};
  snapshot.gpus[1].gpu.compute_capability = facts::ComputeCapability{7, 5};
  EXPECT_THAT(architectures_of(snapshot, Knowledge::built_in()), ElementsAre(75, 90));
  EXPECT_THAT(architectures_of({}, Knowledge::built_in()), IsEmpty());
}

TEST(ToolkitListing, IsNewestFirstAndKnowsWhatTheShellChose) {
  const facts::Snapshot snapshot = machine();
  const auto& toolkits = snapshot.environment->toolkits;
  const Environment chosen = with_changes({}, activate(toolkits[0], toolkits, {}));
  const ToolkitListing listing = list_toolkits(snapshot, chosen, Knowledge::built_in());
  ASSERT_EQ(listing.toolkits.size(), 2U);
  EXPECT_EQ(listing.toolkits[0].toolkit.version, "12.4.131");
  EXPECT_FALSE(listing.toolkits[0].chosen);
  EXPECT_TRUE(listing.toolkits[1].chosen);
  EXPECT_EQ(listing.toolkits[0].on_driver, "as they are");
  EXPECT_NE(listing.toolkits[0].targets, "");
}

TEST(ToolkitListing, AsJsonSaysNullWhereNothingIsKnown) {
  facts::Snapshot snapshot = machine();
  const Json json = to_json(list_toolkits(snapshot, {}, Knowledge::built_in()));
  EXPECT_EQ(json["schema"], facts::kJsonSchema);
  EXPECT_EQ(json["driver"], "550.54.15");
  EXPECT_EQ(json["toolkits"][0]["nvcc"], "/usr/local/cuda-12.4/bin/nvcc");
  EXPECT_TRUE(json["toolkits"][1]["nvcc"].is_null());
  EXPECT_EQ(json["toolkits"][1]["chosen_by_env_use"], false);
  snapshot.driver_version.reset();
  EXPECT_TRUE(to_json(list_toolkits(snapshot, {}, Knowledge::built_in()))["driver"].is_null());
}

TEST(ToolkitsJson, AVariableToUnsetIsNull) {
  const Json json = to_json(std::vector<Change>{{"CUDA_HOME", "/c"}, {"CUDA_PATH", std::nullopt}});
  EXPECT_EQ(json["variables"], Json({{"CUDA_HOME", "/c"}, {"CUDA_PATH", nullptr}}));
}

TEST(ToolkitsJson, AKnownVariableTellsWhatItIsHere) {
  const auto variables = knowledge::find_known_variables({"NCCL_SOCKET_IFNAME", "NCCL_DEBUG"}).value();
  const Json json = to_json(variables, {{"NCCL_DEBUG", "INFO"}});
  EXPECT_EQ(json["variables"][0]["name"], "NCCL_SOCKET_IFNAME");
  EXPECT_TRUE(json["variables"][0]["here"].is_null());
  EXPECT_EQ(json["variables"][1]["here"], "INFO");
  EXPECT_EQ(json["variables"][1]["software"], "nccl");
}

TEST(ToolkitsJson, AdviceHasNoVariable) {
  facts::Snapshot fleet;
  fleet.simulated = true;
  const Json json =
      to_json(std::vector<Suggestion>{{"NCCL_P2P_LEVEL", "NVL", "they are joined"}, {"", "", "more"}}, fleet);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["suggestions"][0]["value"], "NVL");
  EXPECT_EQ(json["suggestions"][1], Json({{"name", nullptr}, {"value", nullptr}, {"why", "more"}}));
}

TEST(ChoosingAToolkit, NativeMeansAllGpusThatAreThere) {
  facts::Snapshot here;
  here.environment.emplace();
  for (const auto& [version, highest] : {std::pair("11.8.89", "sm_90"), std::pair("13.0.88", "sm_120")}) {
    facts::Toolkit toolkit;
    toolkit.version = version;
    toolkit.path = std::string("/opt/") + version;
    toolkit.nvcc = toolkit.path + "/bin/nvcc";
    toolkit.architectures = {"sm_75", "sm_80", highest};
    here.environment->toolkits.push_back(toolkit);
  }
  const auto& known = knowledge::Knowledge::built_in();
  EXPECT_THAT(choose_toolkit_for("native", here, known),
              FailsWith(ErrorCode::unsatisfied, HasSubstr("no NVIDIA GPU here")));
  here.gpus.resize(2);
  here.gpus[0].gpu.vendor = here.gpus[1].gpu.vendor = "NVIDIA";
  here.gpus[0].gpu.compute_capability = {{8, 0}};
  here.gpus[1].gpu.compute_capability = {{9, 0}};
  EXPECT_EQ(choose_toolkit_for("native", here, known)->toolkit->version, "11.8.89") << "13.0 lacks sm_90";
  EXPECT_EQ(choose_toolkit_for("sm_80", here, known)->toolkit->version, "13.0.88");
  EXPECT_THAT(choose_toolkit_for("sm_999", here, known), FailsWith(ErrorCode::invalid_argument, HasSubstr("sm_999")));
}

}  // namespace
}  // namespace gpuwarden::toolkits
