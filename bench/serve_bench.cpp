// SPDX-License-Identifier: Apache-2.0
// What serving costs: /metrics and the API in process for 8 GPUs and for 125 nodes with 8 each; the running program's
// memory and time at 1 Hz; and 64 connections at once, where wrk is installed.
//   bench_serve [SECONDS]
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/thread_time.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/serve/metrics.hpp"

namespace {

using namespace gpuwarden;
using std::chrono::milliseconds;

/// A GPU that tells every metric.
facts::GpuRecord full_gpu(std::uint32_t index, unsigned node) {
  facts::GpuRecord record;
  record.gpu.index = GpuIndex{index};
  record.gpu.uuid = Uuid(fmt::format("GPU-{:08x}-0000-0000-0000-{:012x}", node, index));
  record.gpu.name = "NVIDIA H100 80GB HBM3";
  record.gpu.pci_bus_id = fmt::format("00000000:{:02X}:00.0", 0x10 + index);
  for (const facts::Metric& metric : facts::metrics())
    facts::set_value(metric, record.sample, metric.range.low + (metric.range.high - metric.range.low) * 0.37);
  record.sample.throttle_reasons.emplace();
  facts::GpuProcess process;
  process.pid = Pid{static_cast<std::int32_t>(1000 + index)};
  process.user = "ann";
  process.memory = 10_GiB;
  record.processes = {process};
  return record;
}

std::vector<serve::NodeMetrics> nodes_of(unsigned nodes, std::uint32_t gpus) {
  std::vector<serve::NodeMetrics> all;
  for (unsigned n = 0; n < nodes; ++n) {
    auto reading = std::make_shared<telemetry::Reading>();
    reading->snapshot.host = fmt::format("node{}", n);
    reading->snapshot.driver_version = "550.54.15";
    for (std::uint32_t i = 0; i < gpus; ++i) reading->snapshot.gpus.push_back(full_gpu(i, n));
    serve::NodeMetrics node;
    node.name = nodes == 1 ? "" : reading->snapshot.host;
    node.reading = std::move(reading);
    all.push_back(std::move(node));
  }
  return all;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void render(std::string_view what, const std::vector<serve::NodeMetrics>& nodes, serve::Dialect dialect) {
  constexpr int kRounds = 30;
  std::vector<double> wall;
  std::vector<double> cpu;
  std::size_t bytes = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto worked = thread_time();
    bytes = serve::render_metrics(nodes, {.dialect = dialect, .version = "bench"}, serve::Format::text).size();
    cpu.push_back(std::chrono::duration<double, std::milli>(thread_time() - worked).count());
    wall.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  fmt::print("{:<32} {:>9.3f} ms {:>9.3f} ms of the processor, medians {:>9} bytes\n", what, median(wall), median(cpu),
             bytes);
}

/// gpuwarden serve on a simulated fleet, ended with this object.
class Running {
 public:
  explicit Running(const std::vector<std::string>& more) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    output_.reset(ends[0]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      std::vector<std::string> words{
          GPUWARDEN_BIN_DIR "/gpuwarden", "serve", "--simulate", "h100x8", "--listen", "127.0.0.1:0"};
      words.insert(words.end(), more.begin(), more.end());
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    char c = 0;
    while (::read(output_.get(), &c, 1) == 1 && c != '\n') line_.push_back(c);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  /// "http://127.0.0.1:1234"
  std::string url() const {
    const std::size_t begin = line_.find("http");
    return begin == std::string::npos ? "" : line_.substr(begin, line_.find(' ', begin) - begin);
  }
  /// Resident megabytes of the process.
  double megabytes() const {
    const auto status = read_file(fmt::format("/proc/{}/status", pid_)).value_or("");
    const std::size_t at = status.find("VmRSS:");
    return at == std::string::npos ? 0 : std::strtod(status.c_str() + at + 6, nullptr) / 1024;
  }
  /// Seconds of a processor that it and the children it waited for took.
  double seconds() const {
    const auto stat = read_file(fmt::format("/proc/{}/stat", pid_)).value_or("");
    const auto fields = split_words(std::string_view(stat).substr(stat.rfind(')') + 1));
    const auto ticks = [&](std::size_t i) { return static_cast<double>(parse_integer(fields.at(i)).value_or(0)); };
    return (ticks(11) + ticks(12)) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string line_;
};

void watch_process(int seconds) {
  const Running server({});
  if (server.url().empty()) return fmt::print("gpuwarden serve does not start\n");
  system_clock().sleep_for(std::chrono::seconds(3));
  const double before = server.seconds();
  system_clock().sleep_for(std::chrono::seconds(seconds));
  fmt::print("{:<32} {:>9.2f} % of a core {:>9.1f} MB resident, over {} s\n", "8 GPUs at 1 Hz",
             (server.seconds() - before) / seconds * 100, server.megabytes(), seconds);
}

void load(const std::string& path, int seconds) {
  const Running server({});
  system_clock().sleep_for(std::chrono::seconds(2));
  const double before = server.megabytes();
  const auto done =
      run_command({.argv = {"wrk", "-t", "1", "-c", "64", "-d", fmt::format("{}s", seconds), server.url() + path},
                   .deadline = std::chrono::seconds(seconds + 30)});
  if (!done) return fmt::print("wrk is not installed: no load\n");
  const double after = server.megabytes();
  fmt::print("wrk, 64 connections, {}: {:.1f} MB before, {:.1f} MB after\n{}", path, before, after,
             done->standard_output);
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 10;
  const auto one = nodes_of(1, 8);
  const auto many = nodes_of(125, 8);
  render("/metrics, 8 GPUs", one, serve::Dialect::gpuwarden);
  render("/metrics, 8 GPUs, DCGM's names", one, serve::Dialect::dcgm_legacy);
  render("/metrics, 1,000 GPUs", many, serve::Dialect::gpuwarden);
  render("/metrics, 1,000, DCGM's names", many, serve::Dialect::dcgm_4_9);
  watch_process(seconds);
  load("/metrics", seconds);
  load("/api/v1/nodes", seconds);
  load("/-/ready", seconds);
  return 0;
}
