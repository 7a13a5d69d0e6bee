// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/disablings.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "gpuwarden/base/file.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::lease {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DisablingsTest : public ::testing::Test {
 protected:
  Disablings disablings() const { return Disablings({dir_ / "state", dir_ / "state"}); }
  std::vector<std::string> disabled() const {
    const auto view = disablings().read();
    EXPECT_THAT(view, IsOk());
    std::vector<std::string> names;
    if (view) {
      for (const auto& one : view->disabled) names.push_back(one.uuid.value + ": " + one.reason);
    }
    return names;
  }
  std::filesystem::path file() const { return dir_ / "state/disabled.json"; }

  TempDir dir_;
  FakeClock clock_;
  const Uuid a_{"GPU-a"};
  const Uuid b_{"GPU-b"};
};

TEST_F(DisablingsTest, WithoutAFileNothingIsDisabled) { EXPECT_THAT(disabled(), IsEmpty()); }

TEST_F(DisablingsTest, WhatIsDisabledStaysSoForEveryReaderUntilItIsEnabled) {
  ASSERT_THAT(disablings().disable({a_, b_}, " fan is loud ", "ann", clock_), IsOk());
  EXPECT_THAT(disabled(), ElementsAre("GPU-a: fan is loud", "GPU-b: fan is loud"));
  const auto view = disablings().read();
  EXPECT_EQ(view->disabled[0].by, "ann");
  EXPECT_EQ(view->disabled[0].since, clock_.wall_now());
  EXPECT_EQ(view->disabled[0].for_everybody, ::geteuid() == 0);
  EXPECT_THAT(disablings().enable({a_, Uuid("GPU-z")}), IsOkAnd(ElementsAre(a_)));
  EXPECT_THAT(disabled(), ElementsAre("GPU-b: fan is loud"));
}

TEST_F(DisablingsTest, ANewReasonTakesTheOldOnesPlace) {
  ASSERT_THAT(disablings().disable({a_}, "fan is loud", "", clock_), IsOk());
  ASSERT_THAT(disablings().disable({a_}, "ticket 4711", "", clock_), IsOk());
  EXPECT_THAT(disabled(), ElementsAre("GPU-a: ticket 4711"));
  EXPECT_FALSE(disablings().read()->disabled[0].by.empty()) << "the user's own name";
}

TEST_F(DisablingsTest, ThereIsAReason) {
  EXPECT_THAT(disablings().disable({a_}, " ", "", clock_), FailsWith(ErrorCode::invalid_argument, HasSubstr("reason")));
}

TEST_F(DisablingsTest, ADamagedFileIsAnErrorAndNotAnEmptyList) {
  for (const char* text : {"", "{", "{}", "[]", "{\"schema\":1,\"disabled\":[{}]}", "{\"schema\":1,\"disabled\":[7]}",
                           "{\"schema\":99,\"disabled\":[]}", "{\"schema\":\"1\",\"disabled\":[]}"}) {
    put(file(), text);
    EXPECT_THAT(disablings().read(), FailsWith(ErrorCode::corrupt, HasSubstr("which GPUs are disabled is unknown")))
        << text;
    EXPECT_THAT(disablings().disable({a_}, "loud", "", clock_),
                FailsWith(ErrorCode::corrupt, HasSubstr("disabled.json")));
    EXPECT_EQ(read_file(file()), std::string(text)) << "what cannot be read is not written over";
  }
}

TEST_F(DisablingsTest, AFileThatOthersMayWriteIsNotBelieved) {
  ASSERT_THAT(disablings().disable({a_}, "loud", "", clock_), IsOk());
  ASSERT_EQ(::chmod(file().c_str(), 0666), 0);
  const auto view = disablings().read();
  ASSERT_THAT(view, IsOk());
  EXPECT_THAT(view->disabled, IsEmpty());
  EXPECT_THAT(view->warnings, ElementsAre(HasSubstr("is ignored")));
}

TEST_F(DisablingsTest, ALinkIsNotFollowed) {
  put(dir_ / "elsewhere.json", "{\"schema\":1,\"disabled\":[{\"uuid\":\"GPU-a\",\"reason\":\"x\"}]}");
  std::filesystem::create_directories(dir_ / "state");
  std::filesystem::create_symlink(dir_ / "elsewhere.json", file());
  const auto view = disablings().read();
  ASSERT_THAT(view, IsOk());
  EXPECT_THAT(view->disabled, IsEmpty());
  EXPECT_THAT(view->warnings, ElementsAre(HasSubstr("symbolic link")));
}

TEST_F(DisablingsTest, WritersAtOnceLoseNothing) {
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 8; ++i) {
      writers.emplace_back([&, i] {
        EXPECT_THAT(disablings().disable({Uuid("GPU-" + std::to_string(i))}, "loud", "", clock_), IsOk());
      });
    }
  }
  EXPECT_EQ(disabled().size(), 8U);
}

TEST_F(DisablingsTest, ControlCharactersOfAReasonDoNotReachATerminal) {
  ASSERT_THAT(disablings().disable({a_}, "loud\x1b[2J", "", clock_), IsOk());
  EXPECT_THAT(disabled(), ElementsAre("GPU-a: loud?[2J"));
}

TEST_F(DisablingsTest, AReasonThatIsNoUtf8IsKeptAsFarAsItIsOne) {
  ASSERT_THAT(disablings().disable({a_}, "loud \xff", "", clock_), IsOk());
  ASSERT_EQ(disabled().size(), 1U);
  EXPECT_TRUE(disabled()[0].starts_with("GPU-a: loud "));
}

TEST(DisablingPlacesTest, TheEnvironmentSaysWhere) {
  const auto named = disabling_places({{"GPUWARDEN_STATE_DIR", "/x"}, {"HOME", "/home/ann"}});
  EXPECT_EQ(named.everybody, "/x");
  EXPECT_EQ(named.own, "/x");
  const auto usual = disabling_places({{"HOME", "/home/ann"}});
  EXPECT_EQ(usual.everybody, "/var/lib/gpuwarden");
  const auto xdg = disabling_places({{"HOME", "/home/ann"}, {"XDG_STATE_HOME", "/state"}});
  const bool root = ::geteuid() == 0;
  EXPECT_EQ(usual.own, root ? "" : "/home/ann/.local/state/gpuwarden");
  EXPECT_EQ(xdg.own, root ? "" : "/state/gpuwarden");
}

}  // namespace
}  // namespace gpuwarden::lease
