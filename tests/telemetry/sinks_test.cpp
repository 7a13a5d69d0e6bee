// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/sinks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "support/fake_clock.hpp"
#include "support/http_server.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"
#include "telemetry/sink_command.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::eventually;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::kSoon;

AlertChange change_of(std::string message, AlertLevel level = AlertLevel::error) {
  AlertChange change;
  change.alert.id = 5;
  change.alert.rule = "hot";
  change.alert.level = level;
  change.alert.host = "node-7";
  change.alert.message = std::move(message);
  change.alert.next_step = "open a window";
  return change;
}

SinkSpec webhook(std::string name, std::string url = "http://127.0.0.1:1/hook") {
  return {.name = std::move(name), .kind = SinkSpec::Kind::webhook, .target = std::move(url)};
}

/// What was posted, and what the next posts come to.
class FakePost {
 public:
  Post post() {
    return [this](const std::string& url, const std::string& body, const std::stop_token& stop) -> Result<void> {
      const std::scoped_lock lock(mutex_);
      bodies_.push_back(url + " " + body);
      if (failures_ == 0) return {};
      --failures_;
      return stop.stop_requested() ? fail(ErrorCode::interrupted, "stopped") : fail(code_, "no luck");
    };
  }
  void fail_next(int times, ErrorCode code = ErrorCode::unavailable) {
    const std::scoped_lock lock(mutex_);
    failures_ = times;
    code_ = code;
  }
  std::size_t count() const {
    const std::scoped_lock lock(mutex_);
    return bodies_.size();
  }
  std::vector<std::string> bodies() const {
    const std::scoped_lock lock(mutex_);
    return bodies_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> bodies_;
  int failures_ = 0;
  ErrorCode code_ = ErrorCode::unavailable;
};

class Lines {
 public:
  std::function<void(const std::string&)> log() {
    return [this](const std::string& line) {
      const std::scoped_lock lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> all() const {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST(AlertLines, SayWhatHappenedWhereAndWhatToDo) {
  AlertChange change = change_of("GPU 3 is hot");
  EXPECT_EQ(line_of(change), "ERROR began: node-7: GPU 3 is hot [hot]; next: open a window");
  change.kind = AlertChange::Kind::ended;
  change.alert.count = 4;
  change.alert.simulated = true;
  EXPECT_EQ(line_of(change), "simulated: ERROR ended: node-7: GPU 3 is hot (4 times) [hot]");
}

TEST(AlertBodies, AreJsonOrWhatAChatTakes) {
  const AlertChange change = change_of("GPU \"3\" is \xff hot\n");
  const auto json = nlohmann::json::parse(body_of(change));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["kind"], "began");
  EXPECT_EQ(json["alert"]["rule"], "hot");
  EXPECT_EQ(json["text"], line_of(change));
  EXPECT_EQ(nlohmann::json::parse(body_of(change, SinkSpec::Body::slack)), (nlohmann::json{{"text", line_of(change)}}));
  EXPECT_EQ(nlohmann::json::parse(body_of(change, SinkSpec::Body::discord)),
            (nlohmann::json{{"content", line_of(change)}}));
}

TEST(SinkRunner, TellsTheSinksThatARuleNamesFromTheirLevelOn) {
  FakePost posted;
  testing::FakeClock clock;
  std::vector<SinkSpec> sinks{webhook("a", "http://a/"), webhook("b", "http://b/")};
  sinks[1].at_least = AlertLevel::error;
  {
    SinkRunner runner(sinks, {}, clock, posted.post());
    runner.tell({.id = "hot", .when = {}}, change_of("one", AlertLevel::warning));
    AlertRule named{.id = "hot", .when = {}};
    named.sinks = {"b"};
    runner.tell(named, change_of("two"));
    AlertChange silenced = change_of("three");
    silenced.silenced = true;
    runner.tell(named, silenced);
  }
  const auto bodies = posted.bodies();
  EXPECT_THAT(bodies, ::testing::UnorderedElementsAre(AllOf(HasSubstr("http://a/"), HasSubstr("one")),
                                                      AllOf(HasSubstr("http://b/"), HasSubstr("two"))));
}

TEST(SinkRunner, TriesAgainEverMoreSeldom) {
  FakePost posted;
  posted.fail_next(4);
  testing::FakeClock clock;
  SinkRunner runner({webhook("chat")}, {}, clock, posted.post());
  const auto before = clock.now();
  runner.tell({.id = "hot", .when = {}}, change_of("one"));
  ASSERT_TRUE(eventually(kSoon, [&] { return runner.losses().at(0).told == 1; }));
  EXPECT_EQ(posted.count(), 5U);
  const auto waited = clock.now() - before;  // 1 + 2 + 4 + 8 s, each with a fifth of jitter
  EXPECT_GE(waited, 12s);
  EXPECT_LE(waited, 18s);
}

TEST(SinkRunner, GivesUpAndSaysSo) {
  FakePost posted;
  posted.fail_next(100);
  testing::FakeClock clock;
  Lines lines;
  SinkRunner runner({webhook("chat")}, lines.log(), clock, posted.post());
  runner.tell({.id = "hot", .when = {}}, change_of("one"));
  ASSERT_TRUE(eventually(kSoon, [&] { return lines.all().size() == 1; }));
  EXPECT_EQ(posted.count(), SinkRunner::kTries);
  EXPECT_EQ(lines.all()[0], "alerts cannot be told to 'chat': no luck");
  EXPECT_EQ(runner.losses().at(0).failed, 1U);
  EXPECT_EQ(runner.losses().at(0).last_error, "no luck");
  posted.fail_next(100, ErrorCode::failed);
  runner.tell({.id = "hot", .when = {}}, change_of("two"));
  ASSERT_TRUE(eventually(kSoon, [&] { return runner.losses().at(0).failed == 2; }));
  EXPECT_EQ(posted.count(), SinkRunner::kTries + 1) << "what is never taken is not tried again";
}

/// A post that waits until the test lets it go.
class Gate {
 public:
  Post post() {
    return [this](const std::string&, const std::string& body, const std::stop_token& stop) -> Result<void> {
      std::unique_lock lock(mutex_);
      ++waiting_;
      bodies_.push_back(body);
      changed_.wait(lock, stop, [this] { return open_; });
      if (stop.stop_requested()) return fail(ErrorCode::interrupted, "stopped");
      return {};
    };
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int waiting() const {
    const std::scoped_lock lock(mutex_);
    return waiting_;
  }
  std::vector<std::string> bodies() const {
    const std::scoped_lock lock(mutex_);
    return bodies_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::string> bodies_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(SinkRunner, DropsTheOldestOfAFullQueueAndCountsIt) {
  Gate gate;
  testing::FakeClock clock;
  SinkRunner runner({webhook("slow")}, {}, clock, gate.post());
  const AlertRule rule{.id = "hot", .when = {}};
  runner.tell(rule, change_of("first"));
  ASSERT_TRUE(eventually(kSoon, [&] { return gate.waiting() == 1; }));
  for (std::size_t i = 0; i < SinkRunner::kMost + 3; ++i) runner.tell(rule, change_of(fmt::format("number {} .", i)));
  EXPECT_EQ(runner.losses().at(0).dropped, 3U);
  gate.open();
  ASSERT_TRUE(eventually(kSoon, [&] { return runner.losses().at(0).told == SinkRunner::kMost + 1; }));
  const auto bodies = gate.bodies();
  ASSERT_EQ(bodies.size(), SinkRunner::kMost + 1);
  EXPECT_THAT(bodies[1], HasSubstr("number 3 ."));
  EXPECT_THAT(bodies.back(), HasSubstr(fmt::format("number {} .", SinkRunner::kMost + 2)));
}

TEST(SinkRunner, OneThatHangsDelaysNeitherOthersNorTheEnd) {
  Gate gate;
  FakePost posted;
  testing::FakeClock clock;
  auto both = [slow = gate.post(), fast = posted.post()](const std::string& url, const std::string& body,
                                                         const std::stop_token& stop) {
    return url == "http://slow/" ? slow(url, body, stop) : fast(url, body, stop);
  };
  {
    SinkRunner runner({webhook("slow", "http://slow/"), webhook("fast", "http://fast/")}, {}, clock, both);
    runner.tell({.id = "hot", .when = {}}, change_of("one"));
    EXPECT_TRUE(eventually(kSoon, [&] { return posted.count() == 1 && gate.waiting() == 1; }));
  }
  EXPECT_EQ(gate.waiting(), 1) << "the end did not wait for the gate, which nobody opened";
}

TEST(SinkRunner, PostsToARealServerThatTakesItLater) {
  std::atomic<int> asked = 0;
  const testing::HttpServer server([&](const auto&) { return testing::http_answer(++asked < 3 ? 503 : 200, "busy"); });
  testing::FakeClock clock;
  SinkRunner runner({webhook("chat", server.url("/hook"))}, {}, clock);
  runner.tell({.id = "hot", .when = {}}, change_of("GPU 3 is hot"));
  ASSERT_TRUE(eventually(kSoon, [&] { return runner.losses().at(0).told == 1; }));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_THAT(requests[2].head, HasSubstr("POST /hook"));
  EXPECT_EQ(nlohmann::json::parse(requests[2].body)["alert"]["message"], "GPU 3 is hot");
}

TEST(SinkRunner, WritesLogs) {
  const testing::TempDir dir;
  testing::FakeClock clock;
  Lines lines;
  {
    SinkRunner runner({{.name = "own"},
                       {.name = "file", .target = (dir / "alerts.log").string()},
                       {.name = "bad", .target = (dir / "no/such/folder").string()}},
                      lines.log(), clock);
    runner.tell({.id = "hot", .when = {}}, change_of("one"));
    runner.tell({.id = "hot", .when = {}}, change_of("two"));
    ASSERT_TRUE(eventually(kSoon, [&] { return runner.losses().at(2).failed == 2; }));
    EXPECT_THAT(runner.losses().at(2).last_error, HasSubstr("No such file or directory"));
  }
  EXPECT_THAT(lines.all(), ::testing::IsSupersetOf({line_of(change_of("one")), line_of(change_of("two"))}));
  const std::string time = "2023-11-14T22:13:20Z ";
  EXPECT_EQ(read_file(dir / "alerts.log").value_or(""),
            time + line_of(change_of("one")) + "\n" + time + line_of(change_of("two")) + "\n");
}

TEST(SinkRunner, RunsCommands) {
  const testing::TempDir dir;
  const auto file = (dir / "got").string();
  testing::FakeClock clock;
  SinkSpec sink{.name = "mail", .kind = SinkSpec::Kind::command};
  sink.command = {"/bin/sh", "-c", "cat > '" + file + "'"};
  SinkRunner runner({sink}, {}, clock);
  runner.tell({.id = "hot", .when = {}}, change_of("GPU 3 is hot"));
  ASSERT_TRUE(eventually(kSoon, [&] { return runner.losses().at(0).told == 1; }));
  EXPECT_EQ(nlohmann::json::parse(read_file(file).value_or("null"))["alert"]["message"], "GPU 3 is hot");
}

TEST(SinkCommands, FailWithTheirOwnWords) {
  const auto run = [](const char* line) {
    return run_sink_command({"/bin/sh", "-c", line}, std::string(1 << 20, 'x'), kSoon, {});
  };
  EXPECT_THAT(run("exit 0"), IsOk()) << "it need not read its input";
  EXPECT_THAT(run("wc -c | grep -q 1048576"), IsOk());
  EXPECT_THAT(run("echo no such user >&2; echo more >&2; exit 3"),
              FailsWith(ErrorCode::failed, "/bin/sh ended with exit code 3: no such user"));
  EXPECT_THAT(run("kill -9 $$"), FailsWith(ErrorCode::failed, "/bin/sh was ended by signal 9"));
  EXPECT_THAT(run("yes | head -c 1000000 >&2; exit 0"), IsOk()) << "chatty";
  EXPECT_THAT(run_sink_command({"/no/such/program"}, "", kSoon, {}),
              FailsWith(ErrorCode::not_found, HasSubstr("cannot run /no/such/program")));
  EXPECT_THAT(run_sink_command({}, "", kSoon, {}), FailsWith(ErrorCode::invalid_argument, HasSubstr("no command")));
}

TEST(SinkCommands, AreKilledWithAllTheyStarted) {
  const testing::TempDir dir;
  const auto file = (dir / "pid").string();
  const std::vector<std::string> argv{"/bin/sh", "-c", "sleep 60 & echo $! > '" + file + "'; wait"};
  EXPECT_THAT(run_sink_command(argv, "", 200ms, {}), FailsWith(ErrorCode::timed_out, HasSubstr("within 200 ms")));
  std::filesystem::remove(file);
  std::stop_source stop;
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually(kSoon, [&] { return !read_line(file).value_or("").empty(); }));
    stop.request_stop();
  });
  EXPECT_THAT(run_sink_command(argv, "", kSoon, stop.get_token()),
              FailsWith(ErrorCode::interrupted, HasSubstr("ended")));
  const std::string pid = read_line(file).value_or("0");
  // Gone, or a zombie that nobody has waited for yet.
  EXPECT_TRUE(eventually(kSoon, [&] {
    const auto status = read_file("/proc/" + pid + "/status").value_or("");
    return status.empty() || status.contains("State:\tZ");
  }));
}

SinkSpec command_sink(std::vector<std::string> argv) {
  SinkSpec sink;
  sink.name = "mail";
  sink.kind = SinkSpec::Kind::command;
  sink.command = std::move(argv);
  return sink;
}

TEST(CheckSinks, AProgramMustBeThereAndExecutable) {
  testing::TempDir dir;
  testing::put(dir / "bin/tell", "#!/bin/sh\n");
  testing::put(dir / "bin/plain", "#!/bin/sh\n");
  std::filesystem::permissions(dir / "bin/tell", std::filesystem::perms(0755));
  std::filesystem::permissions(dir / "bin/plain", std::filesystem::perms(0644));
  const std::string path = "/nowhere:" + (dir / "bin").string();
  const auto check = [&](std::vector<std::string> argv) { return check_sinks({command_sink(std::move(argv))}, path); };
  EXPECT_THAT(check({"tell", "all"}), IsOk());
  EXPECT_THAT(check({(dir / "bin/tell").string()}), IsOk());
  EXPECT_THAT(check({"tel"}),
              FailsWith(ErrorCode::not_found, HasSubstr("sink 'mail': there is no program tel in PATH")));
  EXPECT_THAT(check({"plain"}), FailsWith(ErrorCode::not_found, HasSubstr("plain")));
  EXPECT_THAT(check({(dir / "bin/none").string()}), FailsWith(ErrorCode::not_found, HasSubstr("is not a file")));
  EXPECT_THAT(check({(dir / "bin/plain").string()}),
              FailsWith(ErrorCode::permission_denied, HasSubstr("is not executable")));
}

TEST(CheckSinks, OfAShellsLineTheFirstProgramIsLookedFor) {
  const auto check = [](const std::string& line) {
    return check_sinks({command_sink({"/bin/sh", "-c", line})}, "/usr/bin:/bin");
  };
  for (const char* line : {"cat > /dev/null", "echo hot | cat", "if true; then cat; fi", "$PROGRAM now", "X=1 cat", ""})
    EXPECT_THAT(check(line), IsOk()) << line;
  EXPECT_THAT(check("no-such-mailer root"), FailsWith(ErrorCode::not_found, HasSubstr("no-such-mailer")));
  EXPECT_THAT(check("/no/such/mailer; true"), FailsWith(ErrorCode::not_found, HasSubstr("/no/such/mailer")));
}

TEST(CheckSinks, TheFolderOfALogMustBeThere) {
  testing::TempDir dir;
  SinkSpec sink;
  sink.name = "log";
  sink.target = (dir / "alerts.log").string();
  EXPECT_THAT(check_sinks({sink}, ""), IsOk());
  sink.target = (dir / "none/alerts.log").string();
  EXPECT_THAT(check_sinks({sink}, ""), FailsWith(ErrorCode::not_found, HasSubstr("is not a directory")));
  sink.target.clear();
  EXPECT_THAT(check_sinks({sink}, ""), IsOk()) << "the program's own log";
}

}  // namespace
}  // namespace gpuwarden::telemetry
