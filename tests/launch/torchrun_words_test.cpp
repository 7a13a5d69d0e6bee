// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/torchrun_words.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::IsOkAnd;

TEST(TorchrunDefaults, AreTheVariablesThatSaySomething) {
  const auto defaults = torchrun_defaults({{"PET_NNODES", "2"},
                                           {"PET_STANDALONE", "1"},
                                           {"PET_NO_PYTHON", "0"},
                                           {"PET_RDZV_ID", ""},
                                           {"PET_MASTER_ADDR", "a"},
                                           {"PET_RDZV_ENDPOINT", "b:1"},
                                           {"PET_UNKNOWN", "x"},
                                           {"NNODES", "7"}});
  ASSERT_THAT(defaults, IsOk());
  std::vector<std::string> words;
  for (const TorchrunDefault& one : *defaults) words.push_back(one.word());
  EXPECT_THAT(words, ElementsAre("--nnodes=2", "--rdzv-endpoint=b:1", "--standalone", "--master-addr=a"))
      << "the endpoint before the address, as torchrun takes them";
  EXPECT_EQ(defaults->at(0).variable, "PET_NNODES");
  EXPECT_TRUE(defaults->at(1).place);
  EXPECT_FALSE(defaults->at(2).place);
}

TEST(TorchrunDefaults, CountBehindWhatWasGiven) {
  const auto counted = [](const Environment& environment, std::initializer_list<const char*> names) {
    NamedValues given;
    for (const char* name : names) given.set(name, {"x"});
    const auto defaults = torchrun_defaults(environment);
    EXPECT_THAT(defaults, IsOk());
    std::vector<std::string> options;
    for (const TorchrunDefault& one : which_count(*defaults, given)) options.emplace_back(one.option);
    return options;
  };
  const Environment nodes{{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "a"}};
  EXPECT_THAT(counted(nodes, {}), ElementsAre("nnodes", "node-rank", "master-addr"));
  EXPECT_THAT(counted(nodes, {"master-port"}), ElementsAre("nnodes", "node-rank")) << "a place was given";
  EXPECT_THAT(counted(nodes, {"standalone"}), ElementsAre());
  Environment endpoint = nodes;
  endpoint["PET_RDZV_ENDPOINT"] = "b:1";
  EXPECT_THAT(counted(endpoint, {}), ElementsAre("nnodes", "rdzv-endpoint", "node-rank"));
  Environment alone = endpoint;
  alone["PET_STANDALONE"] = "1";
  EXPECT_THAT(counted(alone, {}), ElementsAre("nnodes", "standalone"));
  EXPECT_THAT(counted(alone, {"nnodes"}), ElementsAre("nnodes", "rdzv-endpoint", "node-rank"))
      << "nodes were given: it is not alone";
}

TEST(TorchrunDefaults, AFlagIsANumber) {
  EXPECT_THAT(torchrun_defaults({{"PET_STANDALONE", "yes"}}),
              FailsWith(ErrorCode::invalid_argument, "PET_STANDALONE: 'yes' is not 0 or 1"));
}

TEST(RendezvousEndpoint, HasAHostAndMayHaveAPort) {
  EXPECT_THAT(parse_rendezvous_endpoint("node-1:1234"), IsOkAnd(Endpoint{"node-1", 1234}));
  EXPECT_THAT(parse_rendezvous_endpoint("node-1"), IsOkAnd(Endpoint{"node-1", 29400}));
  EXPECT_THAT(parse_rendezvous_endpoint("node-1:0"), IsOkAnd(Endpoint{"node-1", 0}));
  EXPECT_THAT(parse_rendezvous_endpoint("[::1]:7"), IsOkAnd(Endpoint{"[::1]", 7}));
  EXPECT_THAT(parse_rendezvous_endpoint("[::1]"), IsOkAnd(Endpoint{"[::1]", 29400}));
  for (const char* wrong : {"", ":1", "a:", "a:x", "a:65536", "a:-1"})
    EXPECT_THAT(parse_rendezvous_endpoint(wrong),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("is not HOST or HOST:PORT")))
        << wrong;
}

TEST(RendezvousTimes, AreInSeconds) {
  const auto times = parse_rendezvous_times("join_timeout=600, last_call_timeout=0.5,close_timeout=3,mine=1");
  ASSERT_THAT(times, IsOk());
  EXPECT_EQ(times->join, 600s);
  EXPECT_EQ(times->last_call, 500ms);
  EXPECT_THAT(times->needless, ElementsAre(HasSubstr("close_timeout is not needed"), HasSubstr("mine is not known")));
  EXPECT_FALSE(parse_rendezvous_times("")->join.has_value());
}

TEST(RendezvousTimes, MistakesAreTold) {
  EXPECT_THAT(parse_rendezvous_times("join_timeout"), FailsWith(ErrorCode::invalid_argument, HasSubstr("KEY=VALUE")));
  EXPECT_THAT(parse_rendezvous_times("join_timeout=0"), FailsWith(ErrorCode::invalid_argument, HasSubstr("seconds")));
  const auto nearly = parse_rendezvous_times("join_timeot=5");
  ASSERT_FALSE(nearly);
  EXPECT_EQ(nearly.error().hint, "did you mean join_timeout?");
}

TEST(LocalRanks, HaveCommasBetween) {
  EXPECT_THAT(parse_local_ranks("0, 2"), IsOkAnd(ElementsAre(0U, 2U)));
  for (const char* wrong : {"", "0,", "a", "-1", "65536"})
    EXPECT_THAT(parse_local_ranks(wrong), FailsWith(ErrorCode::invalid_argument, HasSubstr("is not a rank"))) << wrong;
}

}  // namespace
}  // namespace gpuwarden::launch
