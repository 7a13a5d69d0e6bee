// SPDX-License-Identifier: Apache-2.0
// A whole server in a process of its own, from its start to its signal.
#include "gpuwarden/serve/run_daemon.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/file.hpp"
#include "machine/simulated.hpp"
#include "support/http_client.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunDaemon : public testing::Machines {
 protected:
  DaemonOptions daemon() const {
    DaemonOptions options;
    options.server.address = options.service.access.address = {"127.0.0.1", 0, true, false};
    options.service.access.owner = ::getuid();
    options.service.metrics.version = "0.1.0";
    options.rules = file("rules.yaml", kHot);
    machine::Options of_machine = this->options();
    of_machine.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    options.open = [of_machine](const Environment&) {
      return machine::Machine::open(machine::Simulated{"h100x8"}, of_machine);
    };
    return options;
  }
  /// What a child tells in lines, until one begins so.
  static std::string line_from(int fd, std::string_view beginning) {
    std::string line;
    for (char c = 0; ::read(fd, &c, 1) == 1;) {
      if (c != '\n')
        line += c;
      else if (line.starts_with(beginning))
        return line;
      else
        line.clear();
    }
    return "";
  }

  static constexpr std::string_view kHot = "rules:\n  - {id: hot, when: temp > 20, level: warning}\n";
};

TEST_F(RunDaemon, AnswersReadsItsRulesAnewAndEndsInOrder) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe.has_value());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto tell = [&](const std::string& line) {
      static_cast<void>(write_descriptor(pipe->write_end.get(), line + "\n", "pipe"));
    };
    DaemonOptions options = daemon();
    options.service.log = tell;
    options.listening = [&](const std::string& url, bool simulated, bool) {
      tell((simulated ? "simulated " : "real ") + url);
    };
    ::_exit(run_daemon(std::move(options)) ? 0 : 1);
  }
  pipe->write_end.reset();
  const std::string line = line_from(pipe->read_end.get(), "simulated http://127.0.0.1:");
  ASSERT_THAT(line, StartsWith("simulated "));
  const auto port = static_cast<std::uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  const auto get = [&](const std::string& path) {
    testing::HttpClient client(port);
    client.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return client.read_until("\x01 never");
  };
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return get("/api/v1/alerts").contains("\"hot\""); }));
  file("rules.yaml", "rules: [{id: ");
  ::kill(child, SIGHUP);
  EXPECT_THAT(line_from(pipe->read_end.get(), "the rules"), HasSubstr("rules.yaml")) << "the old ones hold";
  ::kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(RunDaemon, FailsBeforeItAnswersWhereARuleOrAMachineIsWrong) {
  DaemonOptions options = daemon();
  options.rules = file("wrong.yaml", "rules: [{id: ");
  EXPECT_THAT(run_daemon(options), testing::FailsWith(ErrorCode::invalid_argument, HasSubstr("wrong.yaml")));
  options = daemon();
  options.open = [](const Environment&) -> Result<machine::Machine> {
    return fail(ErrorCode::unavailable, "no driver here");
  };
  EXPECT_THAT(run_daemon(options), testing::FailsWith(ErrorCode::unavailable, HasSubstr("no driver here")));
}

}  // namespace
}  // namespace gpuwarden::serve
