// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/request.hpp"

#include "gpuwarden/doctor/compare.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::doctor {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;

const knowledge::Knowledge& known() { return knowledge::Knowledge::built_in(); }

TEST(ExaminationRequests, AreReadFromWords) {
  NamedValues values;
  EXPECT_EQ(read_request(values, known())->fail_on, Severity::error);
  values.set("for", {"vllm"});
  values.set("only", {"driver,device"});
  values.set("skip", {"no-gpu"});
  values.set("fail-on", {"info"});
  const auto request = read_request(values, known());
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->purpose.text, "vllm");
  EXPECT_THAT(request->choice.only, ElementsAre("driver", "device"));
  EXPECT_THAT(request->choice.skip, ElementsAre("no-gpu"));
  EXPECT_EQ(request->fail_on, Severity::info);
}

TEST(ExaminationRequests, WhatIsNotKnownIsNamed) {
  for (const auto& [name, value, message] :
       {std::tuple("fail-on", "sometimes", "fail-on: unknown severity 'sometimes'"),
        std::tuple("fail-on", "ok", "fail-on: unknown severity 'ok'"),
        std::tuple("only", "gpu-lots", "unknown check or area 'gpu-lots'")}) {
    NamedValues values;
    values.set(name, {value});
    EXPECT_THAT(read_request(values, known()), FailsWith(ErrorCode::invalid_argument, std::string(message)));
  }
}

TEST(NamesOfMachines, AreTheFilesUnlessTwoAreCalledAlike) {
  EXPECT_THAT(names_of_machines({"a/node1.json", "b/node2.json", "node3"}), ElementsAre("node1", "node2", "node3"));
  EXPECT_THAT(names_of_machines({"a/smi.txt", "b/smi.txt", "c/node.txt"}),
              ElementsAre("a/smi.txt", "b/smi.txt", "node"));
}

}  // namespace
}  // namespace gpuwarden::doctor
