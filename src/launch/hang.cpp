// SPDX-License-Identifier: Apache-2.0
#include "launch/hang.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "launch/process.hpp"

namespace gpuwarden::launch {
namespace {

using std::chrono::milliseconds;

/// Of what it may be, in percent; below, a GPU idles.
constexpr double kSomeLoad = 5;
/// Share of its power limit that a GPU draws which computes; kernels that spin and wait stay far below (an estimate:
/// the figure stands between a spinning GPU's quarter and the four fifths of matrix products).
constexpr double kWorkingPower = 0.5;
/// Bytes per second over a GPU's links that are a transfer; kernels that wait look at flags in the host's memory, which
/// takes less (an estimate between some MB/s of polling and the GB/s of a collective over the slowest network in use).
constexpr double kTransfer = 50e6;
/// So many innermost native frames change while a thread waits for the driver.
constexpr std::int64_t kSpinningFrames = 4;
/// Share of a core that processes use that only wait and look now and then.
constexpr double kWaitingShare = 0.05;
constexpr milliseconds kDebuggerDeadline = std::chrono::seconds(5);
constexpr std::size_t kMostStack = 16384;

/// User and system time in clock ticks; 0 where there is no such process (any more).
std::uint64_t cpu_ticks(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return 0;
  // The name in parentheses may hold anything.
  const auto words = split_words(std::string_view(*text).substr(text->rfind(')') + 1));
  constexpr std::size_t kUser = 11;
  if (words.size() < kUser + 2) return 0;
  const auto user = parse_integer(words[kUser]);
  const auto system = parse_integer(words[kUser + 1]);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(user.value_or(0) + system.value_or(0), 0));
}

bool can_run(const std::string& program, const Environment& environment) {
  return std::ranges::any_of(program_files(program, environment),
                             [](const std::string& file) { return ::access(file.c_str(), X_OK) == 0; });
}

/// What the program prints; empty where it is not there, fails, or takes too long.
std::string answer_of(std::vector<std::string> argv, const Environment& environment) {
  if (!can_run(argv[0], environment)) return "";
  const auto done = run_command({.argv = std::move(argv),
                                 .environment = environment,
                                 .standard_input = {},
                                 .deadline = kDebuggerDeadline,
                                 .output_cap = std::size_t{1} << 20U,
                                 .dies_with_caller = true});
  if (!done || done->timed_out || done->exit_code != 0) return "";
  return done->standard_output;
}

/// gdb's frames and threads, without what else it says.
std::string frames_of(const std::string& text) {
  std::string frames;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with('#') || line.starts_with("Thread ")) frames += std::string(line) + "\n";
  }
  return frames;
}

/// The frames by which two looks are compared, sorted: threads may be told in another order.
std::vector<std::string> telling_frames(const std::string& stacks) {
  std::vector<std::string> frames;
  for (const std::string_view line : split(stacks, '\n')) {
    const std::string_view frame = trim(line);
    const bool native = frame.starts_with('#');
    const auto number = native ? parse_integer(frame.substr(1, frame.find(' ') - 1)) : std::nullopt;
    // py-spy indents its frames; "Thread 7 (idle)" changes with every look.
    if (native ? number && *number >= kSpinningFrames : line.starts_with(' ')) frames.emplace_back(frame);
  }
  std::ranges::sort(frames);
  return frames;
}

/// What each thread waits for, as far as the kernel tells it to us.
std::string threads_of(Pid pid) {
  std::string text;
  const std::filesystem::path folder = fmt::format("/proc/{}/task", pid.value);
  for (const auto& task : list_directory(folder)) {
    const std::string name = read_line(task / "comm").value_or("?");
    const std::string place = read_line(task / "wchan").value_or("");
    const auto stat = process_stat(static_cast<pid_t>(parse_integer(task.filename().string()).value_or(0)));
    text += fmt::format("thread {} ({}): state {}{}\n", task.filename().string(), printable(name),
                        stat ? stat->state : '?', place.empty() || place == "0" ? "" : ", in " + printable(place));
  }
  return text;
}

/// Bytes per second over PCIe and NVLink, both ways, as far as they are told; nothing where none is.
std::optional<double> link_traffic(const facts::GpuSample& sample) {
  std::optional<double> sum;
  for (const auto& one : {sample.pcie_sent, sample.pcie_received, sample.nvlink_sent, sample.nvlink_received}) {
    if (one) sum = sum.value_or(0) + static_cast<double>(one->value);
  }
  return sum;
}

}  // namespace

bool does_work(const facts::GpuRecord& record) {
  if (!facts::is_usable(record)) return false;
  const facts::GpuSample& sample = record.sample;
  if (!sample.utilization_gpu) return true;
  if (static_cast<double>(sample.utilization_gpu->value) < kSomeLoad) return false;
  const auto traffic = link_traffic(sample);
  if (traffic && *traffic >= kTransfer) return true;
  if (sample.utilization_memory ? sample.utilization_memory->value > 0 : !traffic) return true;
  return sample.power && sample.power_limit && ratio(*sample.power, *sample.power_limit) >= kWorkingPower;
}

HangWatch::HangWatch(milliseconds limit, std::vector<Uuid> gpus, Clock& clock)
    : limit_(limit), gpus_(std::move(gpus)), clock_(clock), last_(clock.now()) {}

void HangWatch::progress() { last_ = clock_.now(); }

void HangWatch::output() {
  const std::scoped_lock lock(mutex_);
  progress();
}

void HangWatch::reading(const facts::Snapshot& snapshot) {
  const bool works = std::ranges::any_of(snapshot.gpus, [&](const facts::GpuRecord& record) {
    const bool own = std::ranges::any_of(gpus_, [&](const Uuid& uuid) {
      return record.gpu.uuid == uuid ||
             std::ranges::find(record.mig_devices, uuid, &facts::MigDevice::uuid) != record.mig_devices.end();
    });
    return own && does_work(record);
  });
  const std::scoped_lock lock(mutex_);
  // A driver that does not answer tells nothing.
  if (works || snapshot.problem) progress();
}

bool HangWatch::cpus_work(const std::vector<Pid>& ranks) {
  static const long per_second = ::sysconf(_SC_CLK_TCK);
  bool works = false;
  std::map<int, std::uint64_t> now;
  const auto children = children_by_parent();
  for (const Pid rank : ranks) {
    std::uint64_t ticks = 0;
    for (const pid_t pid : with_descendants({rank.value}, children)) ticks += cpu_ticks(pid);
    const auto before = ticks_.find(rank.value);
    const double used =
        before == ticks_.end() || ticks < before->second ? 0 : static_cast<double>(ticks - before->second);
    works = works || before == ticks_.end() || used > kWaitingShare * static_cast<double>(per_second);
    now[rank.value] = ticks;
  }
  ticks_ = std::move(now);
  return works;
}

std::string HangWatch::stuck(const std::vector<Pid>& ranks) {
  const std::scoped_lock lock(mutex_);
  if (gpus_.empty() && cpus_work(ranks)) progress();
  const auto silent = clock_.now() - last_;
  if (silent < limit_) return "";
  return fmt::format("it hangs: nothing was printed and {} did no work for {}",
                     gpus_.empty() ? "its processes" : "its GPUs",
                     format_duration(std::chrono::floor<milliseconds>(silent)));
}

bool has_moved(const std::string& before, const std::string& after) {
  const auto first = telling_frames(before);
  const auto second = telling_frames(after);
  return !first.empty() && !second.empty() && first != second;
}

std::string stacks_of(Pid pid, const Environment& environment) {
  const std::string number = std::to_string(pid.value);
  std::string text = answer_of({"py-spy", "dump", "--nonblocking", "--pid", number}, environment);
  if (text.empty())
    text = frames_of(
        answer_of({"gdb", "-nx", "-batch", "-p", number, "-ex", "thread apply all backtrace 12"}, environment));
  if (text.empty()) text = threads_of(pid);
  if (text.size() > kMostStack) text.resize(kMostStack);
  return text;
}

}  // namespace gpuwarden::launch
