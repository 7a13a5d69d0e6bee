// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::knowledge {
namespace {

using ::testing::HasSubstr;

Result<Knowledge> over(std::string_view yaml) { return Knowledge::built_in().with_overlay(yaml, "site.yaml"); }

/// The error of a text that must be refused.
Error refused(std::string_view yaml) {
  const auto result = over(yaml);
  EXPECT_FALSE(result.has_value()) << yaml;
  const Error error = result ? Error{} : result.error();
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.message, ::testing::StartsWith("site.yaml:"));
  return error;
}

TEST(Overlay, AddsTomorrowsToolkitAndDriver) {
  const auto knowledge = over(R"(source: release notes of tomorrow
toolkits:
  - {version: 14.0.0, released: 2027-01, min_driver: 640.10, min_driver_minor_version: 640, branch: 640, max_gcc: 16, lowest: 80, highest: 130, ptx: 10.0}
architectures: [{number: 130, name: Rubin, first_cuda: 14.0}]
drivers: [{branch: 640, type: PB, max_cuda: 14.0, end_of_life: 2028-01}]
)");
  ASSERT_TRUE(knowledge) << knowledge.error().message;
  const CudaToolkit* toolkit = knowledge->toolkit({14, 0});
  ASSERT_NE(toolkit, nullptr);
  EXPECT_EQ(toolkit->name, "14.0.0");
  EXPECT_EQ(toolkit->source, "release notes of tomorrow (site.yaml)");
  EXPECT_EQ(knowledge->newest_toolkit(), (Version{14, 0}));
  EXPECT_EQ(knowledge->runs_on({14, 0}, {640, 20}), RunsOn::natively);
  EXPECT_EQ(knowledge->min_driver({14, 3}, false), (Version{640})) << "the major release's rule, as the file has it";
  EXPECT_EQ(knowledge->can_target({14, 0}, 130), true);
  EXPECT_EQ(knowledge->max_cuda({640, 1}), (Version{14, 0}));
  EXPECT_EQ(Knowledge::built_in().toolkit({14, 0}), nullptr) << "what is built in stays as it is";
}

TEST(Overlay, ChangesOnlyWhatItNamesOfARowThatIsKnown) {
  const auto knowledge = over("gpus: [{name: NVIDIA H100 PCIe, memory_gb: 96, source: our label}]\n");
  ASSERT_TRUE(knowledge) << knowledge.error().message;
  const GpuModel* model = knowledge->model("NVIDIA H100 PCIe");
  const GpuModel* before = Knowledge::built_in().model("NVIDIA H100 PCIe");
  ASSERT_TRUE(model != nullptr && before != nullptr);
  EXPECT_EQ(model->memory_gb, 96);
  EXPECT_EQ(before->memory_gb, 80);
  EXPECT_EQ(model->multiprocessors, before->multiprocessors);
  EXPECT_THAT(std::string(model->source), ::testing::StartsWith("our label | over: "));
  EXPECT_EQ(knowledge->models().size(), Knowledge::built_in().models().size());
}

TEST(Overlay, ReadsEverySection) {
  const auto knowledge = over(R"(torch:
  - {version: 2.15.0, build: cu134, released: 2026-12, default: true, architectures: [8.0, 9.0, 12.0+PTX], min_driver: 580, python_lowest: 3.11, python_highest: 3.15}
vllm: [{first: 0.30.0, last: 0.31.0, torch: 2.15.0, cuda: 13.4, min_capability: 8.0}]
components: [{component: nccl, version: 2.40, needs: CUDA 13}]
xids: [{code: 900, description: our switch, severity: error, action_plain: call us}, {code: 79, severity: warning}]
gpus:
  - {name: NVIDIA R100, architecture: Rubin, compute_capability: 13.0, memory_gb: 288, memory_bandwidth_gb_s: 13000, bf16_dense_tflops: 8000,
     pci_device_ids: [3333], first_cuda: 14.0, first_driver_branch: 640, open_module: required}
)");
  ASSERT_TRUE(knowledge) << knowledge.error().message;
  ASSERT_NE(knowledge->torch({2, 15}, "cu134"), nullptr);
  EXPECT_EQ(knowledge->torch({2, 15}, "cu134")->architectures, "8.0;9.0;12.0+PTX");
  EXPECT_EQ(knowledge->newest_torch(), (Version{2, 15}));
  ASSERT_NE(knowledge->vllm({0, 30, 5}), nullptr);
  EXPECT_EQ(knowledge->vllm({0, 30, 5})->min_capability, 80);
  EXPECT_EQ(knowledge->components().back().needs, "CUDA 13");
  ASSERT_NE(knowledge->xid(900), nullptr);
  EXPECT_EQ(knowledge->xid(79)->severity, "warning");
  EXPECT_EQ(knowledge->xid(79)->description, Knowledge::built_in().xid(79)->description);
  const GpuModel* model = knowledge->model("unheard of", 0x333310DEU);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->open_module, OpenModule::required);
  EXPECT_EQ(knowledge->architecture_of_name("NVIDIA R100"), 130);
}

TEST(Overlay, SaysOfAnXidWhatItMeansOnOlderGpusToo) {
  const auto knowledge = over("xids: [{code: 63, action_plain: call us}]\n");
  ASSERT_TRUE(knowledge) << knowledge.error().message;
  EXPECT_EQ(knowledge->xid(63, MemoryRepair::pages)->action_plain, "call us");
  EXPECT_NE(knowledge->xid(64, MemoryRepair::pages), knowledge->xid(64));
}

TEST(Overlay, ReadsSiteRules) {
  const auto knowledge = over(R"(rules:
  - id: our-model
    severity: error
    gpu: H100
    workload: our-model
    driver: {minimum: 535.104, required: 550.54.15, recommended: 565.57, optimal: 570.47.03}
    message: "{gpu} has driver {driver}, {wanted} is needed"
    fix: apt install nvidia-driver-570
  - {id: idle, when: {gpus_unused: true, utilization_below: 30, memory_above: 90.5, cpu_above: 80}}
)");
  ASSERT_TRUE(knowledge) << knowledge.error().message;
  ASSERT_EQ(knowledge->rules().size(), 2U);
  const SiteRule& rule = knowledge->rules()[0];
  EXPECT_EQ(rule.driver_required, (Version{550, 54, 15}));
  EXPECT_EQ(rule.severity, "error");
  EXPECT_EQ(rule.source, "site.yaml");
  EXPECT_EQ(knowledge->rules()[1].severity, "warning");
  EXPECT_EQ(knowledge->rules()[1].memory_above, 90.5);
}

TEST(Overlay, LaysOneFileOverAnotherAndItsTextsOutliveTheFile) {
  std::optional<Knowledge> second;
  {
    const std::string yaml = "rules: [{id: a, gpu: H100, driver: {minimum: 550}}, {id: b, when: {gpus_unused: true}}]";
    const auto first = over(yaml);
    ASSERT_TRUE(first);
    const auto result = first->with_overlay("rules: [{id: a, severity: info}]\n", "second.yaml");
    ASSERT_TRUE(result) << result.error().message;
    second = *result;
  }
  ASSERT_EQ(second->rules().size(), 2U);
  EXPECT_EQ(second->rules()[0].gpu, "H100");
  EXPECT_EQ(second->rules()[0].severity, "info");
  EXPECT_EQ(second->rules()[0].source, "second.yaml | over: site.yaml");
  EXPECT_EQ(second->overlays(), (std::vector<std::string>{"site.yaml", "second.yaml"}));
}

TEST(Overlay, AnEmptyFileChangesNothing) {
  for (const char* yaml : {"", "# nothing yet\n", "toolkits:\n"}) {
    const auto knowledge = over(yaml);
    ASSERT_TRUE(knowledge) << yaml << knowledge.error().message;
    EXPECT_EQ(knowledge->toolkits().size(), Knowledge::built_in().toolkits().size());
  }
}

TEST(Overlay, NamesPlaceAndKeyOfWhatItRefuses) {
  const std::pair<const char*, const char*> cases[] = {
      {"toolkit: []\n", "site.yaml:1:1: the file has no key 'toolkit'"},
      {"toolkits:\n  - {version: 14.0, min_drivr: 1}\n", "site.yaml:2:21: toolkits[0] has no key 'min_drivr'"},
      {"toolkits:\n  - {version: 14.0}\n", "site.yaml:2:5: toolkits[0]: 'min_driver' is missing"},
      {"toolkits:\n  - {version: 12.4.x}\n", "site.yaml:2:15: toolkits[0].version should be a version"},
      {"toolkits: [{version: 12.4.1, lowest: 99, highest: 50}]\n", "toolkits[0].lowest should not be above highest"},
      {"drivers: [{branch: five}]\n", "drivers[0].branch should be a whole number from 1 to 9999"},
      {"drivers: [{branch: 550, end_of_life: soon}]\n", "drivers[0].end_of_life should be a month"},
      {"drivers: [{branch: 550, type: best}]\n", "drivers[0].type should be one of LTSB, PB, NFB, legacy"},
      {"drivers: [{branch: 550}, {branch: 550}]\n", "drivers[1].branch names a row that already exists"},
      {"drivers: 550\n", "drivers should be a list of rows"},
      {"drivers: [550]\n", "drivers[0] should be a map"},
      {"torch: [{version: 2.5.1, build: rocm6, architectures: 9.0, min_driver: 1}]\n",
       "torch[0].build should be a CUDA"},
      {"torch: [{version: 2.5.1, build: cu124, default: perhaps}]\n", "torch[0].default should be true or false"},
      {"vllm: [{first: 0.9.0, last: 0.8.0}]\n", "vllm[0].last should not be before first"},
      {"gpus: [{name: X, architecture: Y, compute_capability: nine, memory_gb: 1}]\n",
       "should be a compute capability"},
      {"gpus: [{name: NVIDIA L4, memory_gb: -1}]\n", "gpus[0].memory_gb should be a number from 0.1"},
      {"gpus: [{name: [a]}]\n", "gpus[0].name should be a plain text"},
      {"xids: [{code: 79, severity: bad}]\n", "xids[0].severity should be one of info, warning, error, critical"},
      {"rules: [{id: a}]\n", "rules[0].id says nothing about the driver or about use"},
      {"rules: [{id: a, driver: {least: 1}}]\n", "rules[0].driver has no key 'least'"},
      {"rules: [{id: a, when: {memory_above: 101}}]\n", "rules[0].when.memory_above should be a number from 0 to 100"},
      {"rules: [{id: a, driver: {minimum: 1}, message: 'on {host}'}]\n", "rules[0].message names {host}"},
      {"rules: &a [*a]\n", "anchors and aliases"},
      {"rules: [", "site.yaml:"}};
  for (const auto& [yaml, what] : cases) EXPECT_THAT(refused(yaml).message, HasSubstr(what)) << yaml;
  EXPECT_EQ(refused("toolkits: [{versoin: 1}]\n").hint, "did you mean 'version'?");
}

}  // namespace
}  // namespace gpuwarden::knowledge
