// SPDX-License-Identifier: Apache-2.0
// gpuwarden top in a terminal (tmux): keys go in, screens come out. And its single frames.
#include <fmt/format.h>
#include <signal.h>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/daemon.hpp"
#include "support/http_server.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kTopFleet = R"(name: lab
driver: 550.54.15
cuda: "12.4"
gpus:
  - model: NVIDIA H100 80GB HBM3
    processes: [{pid: 4194001, user: ada, command: python train.py, memory: 60GiB}, {pid: 4194002, user: bob, command: ollama serve, memory: 9GiB}]
  - model: NVIDIA H100 80GB HBM3
)";

class Top : public Program {
 protected:
  Top() {
    environment_["LANG"] = environment_["LC_ALL"] = "C.UTF-8";
    environment_["TERM"] = "screen-256color";
    environment_.erase("TMUX");
    environment_["TMUX_TMPDIR"] = dir_.path().string();
    fleet_ = file("lab.yaml", kTopFleet);
  }
  ~Top() override { end_terminal(); }

  Completed tmux(std::vector<std::string> words) const {
    words.insert(words.begin(), {"tmux", "-L", fmt::format("top{}", terminal_), "-f", "/dev/null"});
    auto done = run_patiently({.argv = words, .environment = environment_});
    return done.value_or(Completed{});
  }
  bool has_tmux() const { return run_command({.argv = {"tmux", "-V"}, .environment = environment_}).has_value(); }

  /// A shell in a terminal of 80x24 that runs the words and then says with which code they ended.
  void start(const std::string& words) {
    begin_terminal();
    const std::string script =
        fmt::format("echo before; {} {}; echo ended with $?; exec sleep 100", GPUWARDEN_PROGRAM, words);
    const auto done = tmux({"new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", script});
    ASSERT_EQ(done.exit_code, 0) << done.standard_error;
  }
  /// A server of its own for each terminal: one that ends still takes the calls meant for the next.
  void begin_terminal() {
    end_terminal();
    started_ = true;
    ++terminal_;
  }
  void end_terminal() {
    if (started_) tmux({"kill-server"});
    started_ = false;
  }
  void send(std::vector<std::string> keys) const {
    keys.insert(keys.begin(), "send-keys");
    EXPECT_EQ(tmux(std::move(keys)).exit_code, 0);
  }
  std::string screen() const { return tmux({"capture-pane", "-p"}).standard_output; }
  void expect_soon(const std::string& text) const {
    EXPECT_TRUE(eventually(kSoon, [&] { return screen().contains(text); })) << text << " is not on\n" << screen();
  }
  int pid_of_program() const {
    const std::string shell(trim(tmux({"list-panes", "-F", "#{pane_pid}"}).standard_output));
    const auto done = run_patiently({.argv = {"pgrep", "-P", shell}, .environment = environment_});
    return static_cast<int>(parse_integer(trim(done.value_or(Completed{}).standard_output)).value_or(0));
  }

  static std::string_view trim(std::string_view text) { return gpuwarden::trim(text); }

  std::string fleet_;
  bool started_ = false;
  int terminal_ = 0;
};

#define GPUWARDEN_NEEDS_TMUX() \
  if (!has_tmux()) GTEST_SKIP() << "tmux is not installed"

TEST_F(Top, ShowsAFleetTakesKeysAndGivesTheTerminalBack) {
  GPUWARDEN_NEEDS_TMUX();
  start("top --simulate " + fleet_);
  expect_soon("SIMULATED lab");
  expect_soon("python train.py");
  EXPECT_THAT(screen(), Not(HasSubstr("before"))) << "a screen of its own";
  send({"?"});
  expect_soon("half a screen up");
  send({"Escape"});
  expect_soon("COMMAND");
  send({"Enter"});
  expect_soon("Share of the sample period in which a kernel ran");
  send({"Escape", "A"});
  expect_soon("WHERE   WHAT");
  send({"q"});
  expect_soon("ended with 0");
  EXPECT_THAT(screen(), HasSubstr("before"));
}

TEST_F(Top, FiltersAndSaysWhatIsWrongWithAFilter) {
  GPUWARDEN_NEEDS_TMUX();
  start("top --simulate " + fleet_);
  expect_soon("ollama");
  send({"/", "-l", "usr == ada"});
  send({"Enter"});
  expect_soon("usr");
  send({"C-u"});
  send({"-l", "user == ada"});
  send({"Enter"});
  expect_soon("filter: user == ada");
  EXPECT_TRUE(eventually(kSoon, [&] { return !screen().contains("ollama"); })) << screen();
}

TEST_F(Top, AsksBeforeItSignalsAndNeverSignalsWhatIsSimulated) {
  GPUWARDEN_NEEDS_TMUX();
  start("top --simulate " + fleet_);
  expect_soon("python train.py");
  send({"F9"});
  expect_soon("Send SIGTERM (15) to process 4194001");
  send({"n"});
  expect_soon("no signal was sent");
  send({"K", "y"});
  expect_soon("process 4194001 is simulated");
}

TEST_F(Top, TakesAnySizeAtAnyMoment) {
  GPUWARDEN_NEEDS_TMUX();
  start("top --interval 100ms --simulate h100x8");
  expect_soon("8 GPUs");
  for (const auto& [width, height] : {std::pair("200", "50"), std::pair("20", "5"), std::pair("8", "3"),
                                      std::pair("131", "17"), std::pair("40", "60")})
    tmux({"resize-window", "-x", width, "-y", height});
  tmux({"resize-window", "-x", "160", "-y", "50"});
  expect_soon("7 H100 80GB HBM3 ─");
  tmux({"resize-window", "-x", "12", "-y", "3"});
  expect_soon("too small");
  tmux({"resize-window", "-x", "80", "-y", "24"});
  expect_soon("F9 kill");
  send({"q"});
  expect_soon("ended with 0");
}

TEST_F(Top, ASignalOrACrashGivesTheTerminalBack) {
  GPUWARDEN_NEEDS_TMUX();
  for (const auto& [signal, code] : {std::pair(SIGTERM, "ended with 143"), std::pair(SIGSEGV, "ended with 139")}) {
    start("top --simulate " + fleet_);
    expect_soon("SIMULATED lab");
    const int pid = pid_of_program();
    ASSERT_GT(pid, 1);
    ::kill(pid, signal);
    expect_soon(code);
    EXPECT_THAT(screen(), HasSubstr("before")) << "the main screen";
    EXPECT_EQ(trim(tmux({"display-message", "-p", "#{cursor_flag}#{mouse_any_flag}"}).standard_output), "10");
  }
}

TEST_F(Top, IsSuspendedAndComesBackAsOftenAsAsked) {
  GPUWARDEN_NEEDS_TMUX();
  begin_terminal();
  environment_["PS1"] = "$ ";
  ASSERT_EQ(tmux({"new-session", "-d", "-x", "80", "-y", "24", "bash", "--norc", "-i"}).exit_code, 0);
  // Keys make it draw without a pause: a Ctrl-Z that comes meanwhile must not be lost.
  send({"-l", fmt::format("{} top --interval 100ms --simulate {}", GPUWARDEN_PROGRAM, fleet_)});
  send({"Enter"});
  for (int i = 0; i < 5; ++i) {
    expect_soon("python train.py");
    send({"Down", "Up", "Down", "Up", "Down", "Up", "C-z"});
    expect_soon("Stopped");
    EXPECT_THAT(screen(), Not(HasSubstr("python train.py"))) << "the main screen";
    send({"-l", "clear; fg"});
    send({"Enter"});
  }
  expect_soon("python train.py");
  send({"q"});
  EXPECT_TRUE(eventually(kSoon, [&] { return !screen().contains("python train.py"); })) << screen();
}

TEST_F(Top, DrawsWithAsciiWithoutUtf8AndWithoutColours) {
  GPUWARDEN_NEEDS_TMUX();
  environment_["LANG"] = environment_["LC_ALL"] = "C";
  environment_["TERM"] = "vt100";
  start("top --simulate " + fleet_);
  expect_soon("python train.py");
  for (const char c : screen()) ASSERT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST_F(Top, OncePrintsAFrameOfTheWantedSize) {
  const auto done = run({"top", "--once", "--simulate", fleet_, "--size", "100x20"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("SIMULATED lab"));
  EXPECT_THAT(done.standard_output, HasSubstr("python train.py"));
  EXPECT_EQ(std::ranges::count(done.standard_output, '\n'), 20);
  EXPECT_THAT(done.standard_output, Not(HasSubstr("\x1b"))) << "no colours where nobody asks for them";
  EXPECT_THAT(run({"top", "--once", "--simulate", fleet_, "--color", "always"}).standard_output, HasSubstr("\x1b["));
  environment_["COLUMNS"] = "60";
  environment_["LINES"] = "12";
  EXPECT_EQ(std::ranges::count(run({"top", "--once", "--simulate", fleet_}).standard_output, '\n'), 12);
  const auto filtered =
      run({"top", "--once", "--simulate", fleet_, "--filter", "user == bob", "--sort", "gpu-mem", "-i", "0"});
  EXPECT_THAT(filtered.standard_output, HasSubstr("ollama"));
  EXPECT_THAT(filtered.standard_output, Not(HasSubstr("train.py")));
}

/// As nvidia-smi of Windows prints it, whose driver (WDDM) tells no process's memory.
constexpr std::string_view kWindowsTable = R"(Sat Nov 21 10:12:33 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 566.36                 Driver Version: 566.36         CUDA Version: 12.7     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090      WDDM  |   00000000:01:00.0  On |                  Off |
|  0%   45C    P8             20W /  450W |    2301MiB /  24564MiB |      3%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A      1844    C+G   C:\Windows\explorer.exe                     N/A      |
|    0   N/A  N/A      9120      C   ...programs\python\python311\python.exe     N/A      |
+-----------------------------------------------------------------------------------------+
)";

TEST_F(Top, ACaptureIsOfNoMachineHereAndItsProcessesHoldItsMemory) {
  const auto done = run({"top", "--once", "--size", "120x16", "--from", file("smi.txt", kWindowsTable)});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, Not(HasSubstr("this machine")));
  EXPECT_THAT(done.standard_output, Not(HasSubstr("not by a process that the driver lists")));
  EXPECT_THAT(done.standard_output, HasSubstr("(held; the driver does not tell how much of it each process has)"));
  EXPECT_THAT(done.standard_output.substr(0, done.standard_output.find("MEM")), HasSubstr(" busy "));
}

TEST_F(Top, ASignalEndsTheViewOfACaptureAsAnyOther) {
  GPUWARDEN_NEEDS_TMUX();
  start("top --from " + file("smi.txt", kWindowsTable));
  expect_soon("smi.txt");
  ::kill(pid_of_program(), SIGTERM);
  expect_soon("ended with 143");
}

TEST_F(Top, ListAnswersNvidiaSmisWords) {
  const auto asked = run({"list", "--query-gpu=memory.used", "--format=csv"});
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_THAT(asked.standard_error, HasSubstr("write --format csv --fields memory.used"));
  EXPECT_THAT(run({"list", "-L"}).standard_error, HasSubstr("write gpuwarden select --all"));
}

TEST_F(Top, SaysWhatIsWrongWithItsOptions) {
  expect_error({"top", "--simulate", fleet_}, 3, "standard input and output are not a terminal");
  expect_error({"top", "--once", "--simulate", fleet_, "--size", "80"}, 2, "'80' is not a size");
  expect_error({"top", "--size", "80x24", "--simulate", fleet_}, 2, "--size requires --once");
  expect_error({"top", "--once", "--simulate", fleet_, "--sort", "age"}, 2, "unknown column 'age'");
  expect_error({"top", "--once", "--simulate", fleet_, "--filter", "temp >"}, 2, "--filter");
  expect_error({"top", "--once", "--simulate", fleet_, "--interval", "1ms"}, 2, "--interval must be between");
  expect_error({"top", "--once", "--simulate", fleet_, "--gpu", "7"}, 2, "there is no GPU '7'");
  expect_error({"top", "--json", "--simulate", fleet_}, 2, "top prints no JSON");
}

TEST_F(Top, ATerminalThatItCannotDrawOnIsRefused) {
  GPUWARDEN_NEEDS_TMUX();
  for (const auto& [kind, words] :
       {std::pair("dumb", "cannot move its cursor"), std::pair("nosuch", "unknown terminal")}) {
    environment_["TERM"] = "screen-256color";
    begin_terminal();
    const std::string script = fmt::format("TERM={} {} top --simulate {}; echo ended with $?; exec sleep 100", kind,
                                           GPUWARDEN_PROGRAM, fleet_);
    ASSERT_EQ(tmux({"new-session", "-d", "-x", "150", "-y", "24", "sh", "-c", script}).exit_code, 0);
    expect_soon(words);
    expect_soon("ended with 3");
  }
}

TEST_F(Top, JudgesByTheRulesOfTheSite) {
  GPUWARDEN_NEEDS_TMUX();
  const std::string rules = file(
      "rules.yaml", "rules:\n  - {id: warm, when: temperature > 1, level: WARNING, message: 'GPU {gpu} is warm'}\n");
  start("top --simulate " + fleet_ + " --interval 100ms --rules " + rules);
  expect_soon("alert");
  send({"A"});
  expect_soon("is warm");
  send({"q"});
  expect_soon("ended with 0");
  expect_error({"top", "--once", "--simulate", fleet_, "--rules", rules}, 2, "--rules and --once");
  expect_error({"top", "--simulate", fleet_, "--rules", file("bad.yaml", "rules: [{id: x, when: tempo > 1}]")}, 2,
               "tempo");
}

/// Other machines: servers on loopback.
class TopOfOthers : public Top {
 protected:
  ~TopOfOthers() override { servers_.clear(); }

  /// "127.0.0.1:PORT" of a gpuwarden serve on the fleet.
  std::string serve(std::vector<std::string> more = {}) {
    std::vector<std::string> words{GPUWARDEN_PROGRAM, "serve",       "--simulate", fleet_,
                                   "--listen",        "127.0.0.1:0", "--interval", "200ms"};
    words.insert(words.end(), more.begin(), more.end());
    const auto log = dir_ / fmt::format("serve{}.log", servers_.size());
    Daemon& server = *servers_.emplace_back(std::make_unique<Daemon>(words, environment_, log));
    const auto address = [&] {
      const std::string text = read_file(log).value_or("");
      const std::size_t from = text.find("http://");
      const std::size_t end = text.find_first_of(" \n", from);
      return from == std::string::npos || end == std::string::npos ? "" : text.substr(from + 7, end - from - 7);
    };
    EXPECT_TRUE(eventually(kSoon, [&] { return !address().empty() || !server.runs(); }));
    EXPECT_NE(address(), "") << read_file(log).value_or("");
    return address();
  }
  /// Nobody listens there.
  static std::string closed() { return fmt::format("127.0.0.1:{}", free_ports(1)[0]); }
  std::string peers(const std::vector<std::string>& addresses) const { return file("peers", join(addresses, "\n")); }
  Completed once(std::vector<std::string> more) const {
    more.insert(more.begin(), {"top", "--once", "--size", "150x30", "--timeout", "30s"});
    return run(std::move(more));
  }
  /// The frame shows the fleet's GPUs: a server that has just started has read none yet.
  bool shows_soon(const std::vector<std::string>& words) const {
    return eventually(kSoon, [&] { return once(words).standard_output.contains("train.py"); });
  }

  std::vector<std::unique_ptr<Daemon>> servers_;
};

TEST_F(TopOfOthers, PeersAreShownAndThoseThatDoNotAnswerAreLost) {
  const std::string dead = closed();
  const std::string list = peers({serve(), dead});
  ASSERT_TRUE(shows_soon({"--peers", list}));
  const auto done = once({"--peers", list});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("1 SIMULATED  2 nodes  1 not answering"));
  EXPECT_THAT(done.standard_output, HasSubstr(":1 H100 80GB HBM3")) << "a GPU with its node";
  EXPECT_THAT(done.standard_output, HasSubstr(dead));
  EXPECT_THAT(done.standard_output, HasSubstr("lost: "));
  EXPECT_THAT(once({"--peers", list, "-i", "1"}).standard_output, Not(HasSubstr("train.py")));
}

TEST_F(TopOfOthers, WhereNobodyAnswersThatIsAnError) {
  const std::string dead = closed();
  const auto done = once({"--peers", peers({dead})});
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_output, HasSubstr("lost: "));
  EXPECT_THAT(done.standard_error, HasSubstr("gpuwarden: " + dead));
  const auto prometheus = once({"--prometheus", "http://" + dead});
  EXPECT_EQ(prometheus.exit_code, 3);
  EXPECT_THAT(prometheus.standard_error, HasSubstr("gpuwarden: " + dead));
}

TEST_F(TopOfOthers, OneThatSaysNothingIsNotWaitedForWithoutEnd) {
  const HttpServer silent([](const HttpServer::Request&) { return ""; });
  const std::string list = peers({fmt::format("127.0.0.1:{}", silent.port())});
  const auto done = run({"top", "--once", "--peers", list, "--timeout", "200ms"});
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_error, HasSubstr("did not answer within 200 ms")) << "and the program has ended";
}

TEST_F(TopOfOthers, TheTokenIsSent) {
  const HttpServer peer([](const HttpServer::Request& request) {
    if (!request.head.contains("Authorization: Bearer they-want-this")) return http_answer(401, "no");
    return http_answer(200, R"({"nodes":[{"name":"n7","url":"","snapshot":null}]})");
  });
  const std::string list = peers({fmt::format("127.0.0.1:{}", peer.port())});
  const auto refused = once({"--peers", list});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.standard_error, HasSubstr("it refused the request (HTTP 401)"));
  EXPECT_THAT(refused.standard_error, HasSubstr("top --token-file FILE"));
  const auto taken = once({"--peers", list, "--token-file", file("token", "they-want-this\n")});
  EXPECT_EQ(taken.exit_code, 0) << taken.standard_error;
}

/// A Prometheus that knows one GPU and a target that is down.
std::string answer_as_prometheus(const HttpServer::Request& request) {
  const std::string path = request.path();
  std::string samples;
  if (path.contains("query=up"))
    samples = R"({"metric":{"__name__":"up","job":"gpu","instance":"gpu-1:1"},"value":[1763900000,"1"]},)"
              R"({"metric":{"__name__":"up","job":"gpu","instance":"gpu-2:1"},"value":[1763900000,"0"]})";
  else if (path.contains("query=count"))
    samples = R"({"metric":{"job":"gpu"},"value":[1763900000,"1"]})";
  else if (path.contains("gpuwarden"))
    samples = R"({"metric":{"__name__":"gpuwarden_gpu_power_watts","job":"gpu","instance":"gpu-1:1","gpu":"3",)"
              R"("uuid":"GPU-a"},"value":[1763900000,"321"]})";
  return http_answer(200,
                     fmt::format(R"({{"status":"success","data":{{"resultType":"vector","result":[{}]}}}})", samples));
}

TEST_F(TopOfOthers, WhatAPrometheusKnowsIsShown) {
  const HttpServer prometheus(answer_as_prometheus);
  const std::string token = file("token", "prometheus-wants-this\n");
  const auto done = once({"--prometheus", prometheus.url("/"), "--token-file", token});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("2 nodes  1 not answering"));
  EXPECT_THAT(done.standard_output, HasSubstr("gpu-1:1:3"));
  EXPECT_THAT(done.standard_output, HasSubstr("321"));
  EXPECT_THAT(done.standard_output, HasSubstr("lost: Prometheus cannot scrape gpu-2:1"));
  ASSERT_FALSE(prometheus.requests().empty());
  EXPECT_THAT(prometheus.requests()[0].head, HasSubstr("Authorization: Bearer prometheus-wants-this"));
}

TEST_F(TopOfOthers, APrometheusWithoutGpusSaysSo) {
  const HttpServer prometheus([](const HttpServer::Request&) {
    return http_answer(200, R"({"status":"success","data":{"resultType":"vector","result":[]}})");
  });
  const auto done = once({"--prometheus", prometheus.url()});
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_error, HasSubstr("Prometheus knows no GPUs"));
}

TEST_F(TopOfOthers, LiveOneThatEndsIsLostAndKeepsItsReading) {
  GPUWARDEN_NEEDS_TMUX();
  start("top --interval 200ms --timeout 30s --peers " + peers({serve()}));
  expect_soon("python train.py");
  send({"F9"});
  expect_soon("processes of other nodes get no signals from here");
  servers_.clear();
  expect_soon("lost: ");
  EXPECT_THAT(screen(), HasSubstr("python train.py")) << "what it said last";
  send({"q"});
  expect_soon("ended with 0");
}

TEST_F(TopOfOthers, SaysWhatIsWrongWithItsOptions) {
  const std::string list = peers({"gpu-1:1"});
  for (const auto& [one, other] : {std::pair("--simulate", fleet_), std::pair("--from", fleet_),
                                   std::pair("--prometheus", std::string("http://x"))})
    expect_error({"top", "--once", "--peers", list, one, other}, 2, "cannot be used together");
  for (const char* one : {"--simulate", "--from"})
    expect_error({"top", "--once", "--prometheus", "http://x", one, fleet_}, 2, "cannot be used together");
  expect_error({"top", "--once", "--peers", list, "--wake"}, 2, "cannot be used together");
  expect_error({"top", "--once", "--simulate", fleet_, "--token-file", list}, 2, "--token-file requires --peers");
  expect_error({"top", "--once", "--peers", (dir_ / "nobody").string()}, 2, "nobody");
  expect_error({"top", "--once", "--peers", "dns:gpus"}, 2, "is not dns:NAME:PORT");
  expect_error({"top", "--once", "--peers", list, "--token-file", "/nonexistent/token"}, 2, "/nonexistent/token");
  expect_error({"top", "--once", "--peers", list, "--timeout", "0s"}, 2, "--timeout must be greater than 0");
  expect_error({"top", "--once", "--prometheus", "ftp://x"}, 2, "is not an http(s) URL");
  expect_error({"top", "--peers", list}, 3, "standard input and output are not a terminal");
}

TEST_F(Top, ListWatchesToo) {
  const auto done = run({"list", "--watch=10ms", "--count", "3", "--simulate", fleet_});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  std::size_t frames = 0;
  for (std::size_t at = 0; (at = done.standard_output.find("SIMULATED lab", at)) != std::string::npos; ++at) ++frames;
  EXPECT_EQ(frames, 3U);
  EXPECT_THAT(done.standard_output, Not(HasSubstr("\x1b"))) << "a pipe gets frames";
  const auto lines = run({"list", "--watch=10ms", "--count", "2", "--json", "--simulate", fleet_}).standard_output;
  EXPECT_EQ(std::ranges::count(lines, '\n'), 2);
  expect_error({"list", "--count", "3", "--simulate", fleet_}, 2, "--count requires --watch");
  expect_error({"list", "--watch=0s", "--simulate", fleet_}, 2, "the interval must be greater than 0");
}

}  // namespace
}  // namespace gpuwarden::testing
