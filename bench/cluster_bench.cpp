// SPDX-License-Identifier: Apache-2.0
// What it costs to watch a cluster: PeersSource with many nodes of eight GPUs on loopback. The peers are one process
// that answers for all of them, or (--program) as many `gpuwarden serve` on simulated fleets.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cluster/peer_book.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/json.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/facts/metrics.hpp"

namespace {

using namespace gpuwarden;
using namespace std::chrono_literals;

struct Settings {
  int nodes = 125;
  int rounds = 6;
  std::chrono::milliseconds interval = 5s;
  std::string program;
};

/// Eight GPUs with a figure for every metric and two processes each.
std::string answer_of(int number) {
  auto reading = std::make_shared<telemetry::Reading>();
  reading->snapshot.host = fmt::format("gpu-{:03}", number);
  reading->snapshot.taken_at = std::chrono::system_clock::now();
  for (std::uint32_t i = 0; i < 8; ++i) {
    facts::GpuRecord& record = reading->snapshot.gpus.emplace_back();
    record.gpu.index = GpuIndex{i};
    record.gpu.uuid = Uuid(fmt::format("GPU-{:08x}-0000-0000-0000-{:012x}", number, i));
    record.gpu.name = "NVIDIA H100 80GB HBM3";
    for (const facts::Metric& metric : facts::metrics())
      facts::set_value(metric, record.sample, std::clamp(42.0, metric.range.low, metric.range.high));
    record.processes.emplace(2);
    for (facts::GpuProcess& process : *record.processes) {
      process.pid = Pid{4711};
      process.user = "ann";
      process.command = "python train.py --config large.yaml";
    }
  }
  cluster::Node node{.name = reading->snapshot.host};
  node.reading = reading;
  return to_json(std::span(&node, 1)).dump();
}

int listener(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool listens = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(fd, 16) == 0 &&
                       ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!listens) {
    std::perror("cannot listen");
    std::exit(2);
  }
  port = ntohs(address.sin_port);
  return fd;
}

/// Answers every request on every listener, until it is killed.
[[noreturn]] void be_peers(const std::vector<int>& listeners) {
  std::vector<std::string> answers;
  std::vector<pollfd> polls;
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    const std::string body = answer_of(static_cast<int>(i));
    answers.push_back(
        fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                    "Connection: close\r\n\r\n{}",
                    body.size(), body));
    polls.push_back({listeners[i], POLLIN, 0});
  }
  for (;;) {
    ::poll(polls.data(), polls.size(), -1);
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if ((polls[i].revents & POLLIN) == 0) continue;
      const int fd = ::accept4(polls[i].fd, nullptr, nullptr, SOCK_CLOEXEC);
      char request[4096];
      if (::read(fd, request, sizeof request) > 0) (void)write_descriptor(fd, answers[i], "peer");
      ::shutdown(fd, SHUT_WR);
      while (::read(fd, request, sizeof request) > 0) continue;
      ::close(fd);
    }
  }
}

pid_t start_program(const Settings& settings, std::uint16_t port, const std::string& folder) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const std::string listen = fmt::format("127.0.0.1:{}", port);
  ::setenv("GPUWARDEN_SIM_DIR", (folder + "/sim").c_str(), 1);
  ::setenv("GPUWARDEN_LEASE_DIR", (folder + "/leases").c_str(), 1);
  [[maybe_unused]] const auto* const lost = std::freopen("/dev/null", "w", stdout);
  ::execl(settings.program.c_str(), "gpuwarden", "serve", "--simulate", "h100x8", "--interval", "5s", "--listen",
          listen.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}

double cpu_ms(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1048576;
}

void measure_reading(const Settings& settings) {
  const std::string text = answer_of(1);
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < settings.nodes; ++i) {
    if (!cluster::read_peer_answer(net::HttpAnswer{200, "application/json", text})) std::abort();
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  fmt::print("reading {} answers of {:.0f} KiB: {:.1f} ms\n", settings.nodes, static_cast<double>(text.size()) / 1024,
             took.count());
}

std::size_t answering(const std::vector<cluster::Node>& nodes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes, [](const cluster::Node& node) { return node.reading && !node.problem; }));
}

int watch(const Settings& settings, const std::string& folder) {
  cluster::PeersOptions options;
  options.place.file = folder + "/peers";
  options.interval = settings.interval;
  const double before = resident_mib();
  auto source = cluster::PeersSource::open(options);
  if (!source) {
    fmt::print(stderr, "{}\n", source.error().message);
    return 1;
  }
  const auto wanted = static_cast<std::size_t>(settings.nodes);
  for (int i = 0; i < 600 && answering((*source)->nodes()) < wanted; ++i) std::this_thread::sleep_for(100ms);
  const double begun = cpu_ms(RUSAGE_SELF);
  std::this_thread::sleep_for(settings.interval * settings.rounds);
  const double cpu = (cpu_ms(RUSAGE_SELF) - begun) / settings.rounds;
  const auto nodes = (*source)->nodes();
  std::size_t gpus = 0;
  for (const auto& node : nodes) gpus += node.reading ? node.reading->snapshot.gpus.size() : 0;
  fmt::print("{} of {} nodes answer, {} GPUs, every {} ms\n", answering(nodes), nodes.size(), gpus,
             settings.interval.count());
  fmt::print("a round: {:.1f} ms of CPU, {:.2f} % of a core; {:.1f} MiB for what is known ({:.1f} MiB resident)\n", cpu,
             cpu / static_cast<double>(settings.interval.count()) * 100, resident_mib() - before, resident_mib());
  return answering(nodes) == wanted ? 0 : 1;
}

int run(const Settings& settings) {
  char name[] = "/tmp/gpuwarden-cluster-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  std::vector<int> listeners;
  std::vector<pid_t> children;
  std::string list;
  for (int i = 0; i < settings.nodes; ++i) {
    std::uint16_t port = 0;
    listeners.push_back(listener(port));
    list += fmt::format("127.0.0.1:{}\n", port);
    if (settings.program.empty()) continue;
    ::close(listeners.back());
    children.push_back(start_program(settings, port, folder));
  }
  if (settings.program.empty()) {
    const pid_t peers = ::fork();
    if (peers == 0) be_peers(listeners);
    children.push_back(peers);
    for (const int fd : listeners) ::close(fd);
  }
  int code = write_file_atomically(folder + "/peers", list) ? 0 : 1;
  if (code == 0) code = watch(settings, folder);
  for (const pid_t child : children) ::kill(child, settings.program.empty() ? SIGKILL : SIGTERM);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const auto number = parse_integer(argv[i + 1]);
    if (option == "--nodes" && number) settings.nodes = static_cast<int>(*number);
    if (option == "--rounds" && number) settings.rounds = static_cast<int>(*number);
    if (option == "--interval-ms" && number) settings.interval = std::chrono::milliseconds(*number);
    if (option == "--program") settings.program = argv[i + 1];
  }
  measure_reading(settings);
  std::fflush(nullptr);
  return run(settings);
}
