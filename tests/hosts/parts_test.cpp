// SPDX-License-Identifier: Apache-2.0
// The pure parts: hosts as people write them, ssh's command line, messages, what follows from what was told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "gpuwarden/hosts/host.hpp"
#include "gpuwarden/hosts/ssh.hpp"
#include "hosts/decide.hpp"
#include "hosts/meeting.hpp"
#include "hosts/message.hpp"
#include "hosts/rank_lines.hpp"
#include "hosts/session.hpp"

namespace gpuwarden::hosts {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Host> hosts_of(const std::vector<std::string>& words) {
  return parse_hosts(words).value_or(std::vector<Host>{});
}
std::string refusal_of(const std::vector<std::string>& words) {
  const auto hosts = parse_hosts(words);
  return hosts ? "" : hosts.error().message;
}

TEST(Hosts, ANameMayCarryANumberOfGpus) {
  EXPECT_THAT(hosts_of({"a", "b:4", "ada@c.example:8"}),
              ElementsAre(Host{"a", {}}, Host{"b", 4}, Host{"ada@c.example", 8}));
  EXPECT_THAT(hosts_of({"fe80::7", "[fe80::8]:2", "[fe80::9]"}),
              ElementsAre(Host{"fe80::7", {}}, Host{"fe80::8", 2}, Host{"fe80::9", {}}));
}

TEST(Variables, HaveAValueOrTheOneThatTheyHaveHere) {
  const Environment own{{"HF_HOME", "/data"}};
  const auto variables = parse_variables({"A=1", "HF_HOME", "EMPTY=", "B=x=y"}, own);
  ASSERT_TRUE(variables) << variables.error().message;
  EXPECT_EQ(*variables, (Environment{{"A", "1"}, {"B", "x=y"}, {"EMPTY", ""}, {"HF_HOME", "/data"}}));
  EXPECT_EQ(parse_variables({"=1"}, own).error().message, "'=1' has no name");
  EXPECT_EQ(parse_variables({"NOWHERE"}, own).error().message, "NOWHERE is not set here");
}

TEST(Hosts, WhatIsNoHostIsRefused) {
  EXPECT_EQ(refusal_of({"a", "a:2"}), "host 'a' is listed twice");
  EXPECT_EQ(refusal_of({"-oProxyCommand=x"}), "'-oProxyCommand=x' is not a host");
  EXPECT_EQ(refusal_of({"a b"}), "'a b' is not a host");
  EXPECT_EQ(refusal_of({"a;b"}), "'a;b' is not a host");
  EXPECT_EQ(refusal_of({".."}), "'..' is not a host") << "logs are kept below its name";
  EXPECT_EQ(refusal_of({""}), "'' is not a host");
  EXPECT_EQ(refusal_of({"a:0"}), "'0' is not a number of GPUs of host 'a'");
  EXPECT_EQ(refusal_of({"a:"}), "'' is not a number of GPUs of host 'a'");
  EXPECT_EQ(refusal_of({"[a:2"}), "'[a:2' has no closing ']'");
  EXPECT_EQ(refusal_of({}), "no host is given");
}

TEST(Hosts, AHostfileIsMpirunsOrOurs) {
  const auto hosts = parse_hostfile("# rack 1\na slots=8\n\n b:4 # new\nc\n", "hosts");
  ASSERT_TRUE(hosts.has_value()) << hosts.error().message;
  EXPECT_THAT(*hosts, ElementsAre(Host{"a", 8}, Host{"b", 4}, Host{"c", {}}));
  EXPECT_EQ(parse_hostfile("a\nb slots=x\n", "hosts").error().message,
            "hosts:2: 'x' is not a number of GPUs of host 'b'");
  EXPECT_EQ(parse_hostfile("a\na\n", "hosts").error().message, "hosts:2: host 'a' is listed twice");
  EXPECT_EQ(parse_hostfile("b:4 slots=2", "hosts").error().message, "hosts:1: 'slots=2' is unexpected");
  EXPECT_EQ(parse_hostfile("# none\n", "hosts").error().message, "hosts lists no host");
}

TEST(Ssh, TheUsersOptionsComeFirstAndNoJobStandsInTheCommandLine) {
  const Command command = ssh_command({"ada@b", 4}, {.ssh = "ssh -p 2222 -o ConnectTimeout=2"});
  EXPECT_THAT(command.argv,
              ElementsAre("sh", "-c", "exec ssh -p 2222 -o ConnectTimeout=2 \"$@\"", "ssh", "-o", "BatchMode=yes", "-o",
                          "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o",
                          "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-T", "ada@b",
                          "gpuwarden --version && exec gpuwarden host-agent"));
}

TEST(Ssh, AProgramOfAnyNameReachesTheOtherShellUnharmed) {
  // The remote side: what a login shell makes of the last word.
  const std::string odd = "/tmp/a'; echo foo";
  const Command command = ssh_command({"b", {}}, {.program = odd});
  const auto shown =
      run_command({.argv = {"sh", "-c",
                            "set -- " + command.argv.back().substr(0, command.argv.back().find(" --version")) +
                                "; printf %s \"$1\""}});
  ASSERT_TRUE(shown.has_value());
  EXPECT_EQ(shown->standard_output, odd);
  EXPECT_EQ(ssh_command({"b", {}}, {.program = "~/my bin/gpuwarden"}).argv.back(),
            "~/'my bin/gpuwarden' --version && exec ~/'my bin/gpuwarden' host-agent");
}

TEST(Ssh, EachEndHasItsMeaning) {
  const auto told = [](std::optional<int> code, const std::string& said) {
    return explain({"b", {}}, {code, {}, said}, {});
  };
  EXPECT_EQ(told(255, "ssh: connect to host b port 22: Connection refused\r\n").message,
            "cannot connect to b: ssh: connect to host b port 22: Connection refused");
  EXPECT_THAT(told(127, "sh: 1: gpuwarden: not found\n").message, HasSubstr("there is no gpuwarden on b"));
  EXPECT_THAT(told(126, "").message, HasSubstr("there is no gpuwarden on b"));
  EXPECT_THAT(told(1, "boom\n").message, HasSubstr("ended with exit code 1 instead of an answer: boom"));
  EXPECT_THAT(told(std::nullopt, "").message, HasSubstr("b"));
  EXPECT_EQ(explain_loss({"b", {}}, {255, {}, "Timeout, server b not responding.\r\n"}).message,
            "lost b: Timeout, server b not responding.");
  EXPECT_EQ(explain_loss({"b", {}}, {137, {}, ""}).message, "lost b: gpuwarden there ended with exit code 137");
  for (const int code : {255, 127}) EXPECT_NE(told(code, "").hint, "") << code;
}

TEST(Ssh, OnlyALineOfItsOwnIsAVersion) {
  EXPECT_EQ(version_in("gpuwarden 0.1.0\r"), "0.1.0");
  EXPECT_EQ(version_in("gpuwarden is great"), "");
  EXPECT_EQ(version_in("welcome"), "");
}

TEST(Messages, ComeThroughInPiecesOfAnySize) {
  const std::string bytes("\0\n{\xff", 4);
  const std::string wire = encode("output", {{"rank", 3}}, bytes) + encode("beat");
  for (std::size_t size = 1; size <= wire.size(); ++size) {
    MessageReader reader;
    std::vector<Message> all;
    for (std::size_t at = 0; at < wire.size(); at += size) {
      reader.add(std::string_view(wire).substr(at, size));
      for (;;) {
        auto message = reader.next();
        ASSERT_TRUE(message.has_value());
        if (!*message) break;
        all.push_back(**message);
      }
    }
    ASSERT_EQ(all.size(), 2U) << size;
    EXPECT_EQ(all[0].body, bytes) << size;
    EXPECT_EQ(number_in(all[0].head, "rank"), 3);
    EXPECT_EQ(all[1].type, "beat");
  }
}

TEST(Messages, WhatIsNoneIsAnError) {
  for (const char* line : {"hello\n", "[1]\n", "{\"type\":1}\n", "{\"type\":\"output\",\"bytes\":-1}\n",
                           "{\"type\":\"output\",\"bytes\":99999999}\n", "{\n"}) {
    MessageReader reader;
    reader.add(line);
    const auto message = reader.next();
    ASSERT_FALSE(message.has_value()) << line;
    EXPECT_EQ(message.error().code, ErrorCode::corrupt);
  }
}

TEST(Messages, ValuesComeBackAsTheyWere) {
  Order order;
  order.run_id = "r-0";
  order.nodes = 2;
  order.options = {"--num-gpus=4", "--name=a'; echo foo"};
  order.command = {"python", "-c", "print('\n\"')", ""};
  order.environment = {{"A", "b c"}};
  order.folder = "/tmp/a'; echo foo";
  order.needs_folder = true;
  order.without = {Uuid("GPU-1")};
  EXPECT_EQ(order_from_json(to_json(order)), order);
  const Held held{{0, 5}, "H100", 2, true};
  EXPECT_EQ(held_from_json(to_json(held)), held);
  const Meeting meeting{15000, {"10.0.0.1"}, "w"};
  EXPECT_EQ(meeting_from_json(to_json(meeting)), meeting);
  Start start;
  start.node = 1;
  start.first_rank = 3;
  start.changes = {{"X", "1"}};
  EXPECT_EQ(start_from_json(to_json(start)), start);
  Done done;
  done.exit_code = 9;
  done.first_failure = 2;
  done.wall_time = seconds(3);
  done.gpus_at_fault = {Uuid("GPU-2")};
  EXPECT_EQ(done_from_json(to_json(done)), done);
  Json broken = to_json(start);
  broken["node"] = -1;
  EXPECT_EQ(start_from_json(broken).error().message, "a message without a proper 'node'");
  EXPECT_FALSE(order_from_json(Json(3)).has_value());
}

TEST(Lines, BelongToTheRankBeforeThem) {
  RankLines lines;
  EXPECT_THAT(lines.add("[rank 3] a\n[rank 3] b\n[rank 12] "), ElementsAre(RankText{3, "a\nb\n"}));
  EXPECT_THAT(lines.add("[rank 3] not mine\nplain\n"),
              ElementsAre(RankText{12, "[rank 3] not mine\n"}, RankText{{}, "plain\n"}));
  lines.begin(7);
  EXPECT_THAT(lines.add("no end"), ElementsAre(RankText{7, "no end"}));
  lines.begin({});
  EXPECT_TRUE(lines.add("[rank 1] x").empty());
  EXPECT_THAT(lines.finish(), ElementsAre(RankText{1, "x"}));
}

TEST(Meeting, SshsAddressIsTriedFirstAndLoopbackLast) {
  EXPECT_THAT(addresses_to_try("10.1.0.9 5000 10.1.0.2 22", {"192.168.0.2", "10.1.0.2"}),
              ElementsAre("10.1.0.2", "192.168.0.2", "127.0.0.1"));
  EXPECT_THAT(addresses_to_try("127.0.0.1 5000 127.0.0.1 22", {"10.1.0.2"}), ElementsAre("10.1.0.2", "127.0.0.1"));
  EXPECT_THAT(addresses_to_try("fe80::1 5000 fe80::2 22", {}), ElementsAre("127.0.0.1"));
  EXPECT_THAT(addresses_to_try("nonsense", {}), ElementsAre("127.0.0.1"));
}

TEST(Meeting, IsReachedByItsWordAlone) {
  auto place = MeetingPlace::open(std::nullopt, "");
  ASSERT_TRUE(place.has_value()) << place.error().message;
  Meeting meeting = place->meeting();
  meeting.addresses = {"127.0.0.1"};
  std::jthread host([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      place->greet();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  EXPECT_EQ(try_to_reach(meeting).at(0).problem, "");
  meeting.word = "another word, as long as it is\n";
  EXPECT_EQ(try_to_reach(meeting).at(0).problem, "another program answers there");
  host.request_stop();
  host.join();
  EXPECT_FALSE(MeetingPlace::open(meeting.port, "").has_value()) << "it is held";
  place->hand_over();
  meeting.addresses = {"127.0.0.1", "no address"};
  EXPECT_EQ(try_to_reach(meeting).at(0).problem, "Connection refused");
  EXPECT_EQ(try_to_reach(meeting).at(1).problem, "not an IPv4 address");
}

TEST(ClockOffsets, NoTimesAreTakenThatNoMachineHas) {
  ClockOffset offset;
  offset.add(0, std::numeric_limits<std::int64_t>::min(), 2);
  offset.add(std::numeric_limits<std::int64_t>::min(), 1, 2);
  EXPECT_FALSE(offset.to_ours(1));
  offset.add(0, 1, 2);
  EXPECT_FALSE(offset.to_ours(std::numeric_limits<std::int64_t>::max()));
  EXPECT_TRUE(offset.to_ours(1));
}

TEST(ClockOffsets, AreTakenFromTheQuickestAnswer) {
  ClockOffset offset;
  EXPECT_FALSE(offset.to_ours(0).has_value());
  offset.add(1'000'000, 51'000'000, 3'000'000);  // two seconds: somewhere around 49 s ahead
  offset.add(5'000'000, 55'000'100, 5'000'200);
  offset.add(6'000'000, 10'000'000, 9'000'000);
  EXPECT_EQ(micros(offset.to_ours(56'000'000).value()), 6'000'000);
}

TEST(Decisions, TheFirstFailureIsTheEarliest) {
  const auto at = [](int s) { return Clock::SteadyTime(seconds(s)); };
  EXPECT_FALSE(first_of({}).has_value());
  const std::vector<HostFailure> failures{{0, 4, 1, at(9)}, {1, {}, kHostLost, at(7)}, {2, 5, 2, at(8)}};
  EXPECT_EQ(first_of(failures)->host, 1U);
}

TEST(Decisions, AnAddressHasToBeReachedByAll) {
  const Meeting meeting{15000, {"x", "y"}, ""};
  const NamedReach both{"b", {{"x", ""}, {"y", ""}}};
  const NamedReach second{"c", {{"x", "No route to host"}, {"y", ""}}};
  EXPECT_EQ(choose_address("a", meeting, std::vector{both, second}).value_or(""), "y");
  const NamedReach none{"d", {{"x", "refused"}, {"y", "timed out"}}};
  const auto refused = choose_address("a", meeting, std::vector{both, none});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("from d: x: refused"), HasSubstr("from d: y: timed out")));
}

}  // namespace
}  // namespace gpuwarden::hosts
