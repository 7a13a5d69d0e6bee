// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/bundle/gather.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bundle/archive.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/probe/kernel_messages.hpp"
#include "gpuwarden/probe/nvidia_smi.hpp"

namespace gpuwarden::bundle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json sample_of(const facts::GpuRecord& record) {
  Json metrics = Json::object();
  for (const facts::Metric& metric : facts::metrics()) {
    if (const auto value = facts::value_of(metric, record.sample)) metrics[std::string(metric.id)] = *value;
  }
  return {{"index", record.gpu.index.value},
          {"uuid", record.gpu.uuid.value},
          {"state", to_string(record.state)},
          {"metrics", std::move(metrics)}};
}

Json reading_of(const facts::Snapshot& snapshot, Clock::WallTime time) {
  Json gpus = Json::array();
  for (const facts::GpuRecord& record : snapshot.gpus) gpus.push_back(sample_of(record));
  return {{"time", format_utc(time)}, {"gpus", std::move(gpus)}};
}

/// Everything a program said, as a terminal would have shown it.
std::string said(const Completed& done) {
  std::string text = done.standard_output + done.standard_error;
  if (done.truncated) text += "\n(cut here: the output is longer)\n";
  if (done.exit_code.value_or(0) != 0) text += fmt::format("\n(exit code {})\n", *done.exit_code);
  if (done.signal) text += fmt::format("\n(ended by signal {})\n", *done.signal);
  return text;
}

/// The end of a text from the beginning of a line on, so that no secret is cut in two and no longer known as one.
std::string_view tail_of(std::string_view text, std::size_t cap) {
  if (text.size() <= cap) return text;
  const std::size_t line = text.find('\n', text.size() - cap - 1);
  return line == std::string_view::npos ? std::string_view{} : text.substr(line + 1);
}

struct LogText {
  std::string text;
  std::uint64_t whole_size = 0;
};

/// The file's last bytes, one more than `cap` where it is longer.
Result<LogText> read_end(const fs::path& path, std::size_t cap) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::unexpected(error_from_errno(errno, "cannot read " + path.string()));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail(ErrorCode::invalid_argument, path.string() + " is not a regular file");
  LogText log{{}, static_cast<std::uint64_t>(status.st_size)};
  const auto wanted = std::min<std::uint64_t>(log.whole_size, cap + 1);
  log.text.resize(wanted);
  std::size_t filled = 0;
  while (filled < wanted) {
    const ssize_t got = ::pread(fd.get(), log.text.data() + filled, wanted - filled,
                                static_cast<off_t>(log.whole_size - wanted + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(error_from_errno(errno, "cannot read " + path.string()));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  log.text.resize(filled);
  return log;
}

Result<LogText> read_log(const fs::path& path, std::size_t cap) {
  if (path.extension() != ".gz") return read_end(path, cap);
  GPUWARDEN_TRY(const std::string bytes, read_file(path));
  GPUWARDEN_TRY(std::string text, unzip(bytes, path.string()));
  const std::uint64_t size = text.size();
  return LogText{std::move(text), size};
}

/// "logs/train.log", in letters that every system takes.
std::string archive_name(const fs::path& path) {
  const fs::path plain = path.extension() == ".gz" ? path.stem() : path.filename();
  std::string name = plain.string();
  for (char& c : name) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_plain && c != '.' && c != '-' && c != '_') c = '_';
  }
  constexpr std::size_t kLongest = 100;
  return "logs/" + (name.size() > kLongest ? name.substr(name.size() - kLongest) : name);
}

}  // namespace

void gather_samples(probe::MachineReader& reader, Clock& clock, std::chrono::seconds duration, Contents& contents) {
  const auto begin = clock.now();
  Json readings = Json::array();
  std::string why_none = "--seconds 0";
  for (auto next = begin; next - begin < duration; next += std::chrono::seconds(1)) {
    if (next > clock.now()) clock.sleep_for(next - clock.now());
    // A driver that takes its time is not read more often than it answers.
    if (clock.now() - begin >= duration && !readings.empty()) break;
    const facts::Snapshot snapshot = reader.read({.detail = probe::Detail::full, .processes = false});
    if (snapshot.problem || snapshot.gpus.empty()) {
      why_none = snapshot.problem ? snapshot.problem->message : "there is no GPU";
      break;
    }
    readings.push_back(reading_of(snapshot, clock.wall_now()));
  }
  if (readings.empty()) return contents.omitted.push_back({"samples", why_none});
  const std::string about = fmt::format("the GPUs' metrics, {} readings", readings.size());
  const Json document = facts::document({{"period_seconds", 1}, {"readings", std::move(readings)}});
  contents.files.push_back(
      {"samples.json", about, document.dump(-1, ' ', false, Json::error_handler_t::replace), true});
}

void gather_nvidia_smi(const fs::path& program, std::chrono::milliseconds deadline, Contents& contents) {
  struct Output {
    std::vector<std::string> arguments;
    const char* file;
  };
  const std::array<Output, 3> outputs{
      {{{"-q"}, "nvidia-smi/q.txt"}, {{"-q", "-x"}, "nvidia-smi/q.xml"}, {{"topo", "-m"}, "nvidia-smi/topo.txt"}}};
  for (const Output& output : outputs) {
    const std::string name = "nvidia-smi " + join(output.arguments, " ");
    const auto done = probe::run_nvidia_smi(program, output.arguments, deadline);
    if (!done) return contents.omitted.push_back({"nvidia-smi", done.error().message});
    if (done->timed_out)
      return contents.omitted.push_back(
          {name, fmt::format("it did not end within {}: the driver may hang", format_duration(deadline))});
    contents.files.push_back({output.file, "what " + name + " prints", said(*done)});
  }
}

void gather_kernel_log(std::chrono::milliseconds deadline, std::size_t cap, Contents& contents) {
  const auto messages = probe::read_kernel_messages(deadline);
  if (!messages) return contents.omitted.push_back({"kernel messages", messages.error().message});
  if (trim(*messages).empty()) return contents.omitted.push_back({"kernel messages", "there are none"});
  contents.files.push_back(
      {"kernel.log", "kernel messages since the machine was booted", std::string(tail_of(*messages, cap))});
}

Result<void> gather_log(const fs::path& path, std::size_t cap, Contents& contents) {
  GPUWARDEN_TRY(const LogText log, read_log(path, cap));
  const std::string_view text = tail_of(log.text, cap);
  if (text.contains('\0'))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is not text: what is secret in it could not be found", printable(path.string())),
                "convert it to text first (UTF-16: iconv -f UTF-16 -t UTF-8)");
  const bool cut = text.size() < log.whole_size;
  const std::string part =
      cut ? fmt::format("the last {} of {} of ", format_size(Bytes(text.size())), format_size(Bytes(log.whole_size)))
          : "";
  contents.files.push_back({archive_name(path), printable(part + path.string()), std::string(text)});
  return {};
}

redact::Identities identities_of(const facts::Snapshot& snapshot) {
  redact::Identities names;
  if (!snapshot.host.empty()) names.hosts.push_back(snapshot.host);
  for (const facts::GpuRecord& record : snapshot.gpus) {
    names.uuids.push_back(record.gpu.uuid.value);
    if (record.gpu.serial) names.serials.push_back(*record.gpu.serial);
    for (const facts::MigDevice& mig : record.mig_devices) names.uuids.push_back(mig.uuid.value);
    if (!record.processes) continue;
    for (const facts::GpuProcess& process : *record.processes) {
      if (process.user) names.users.push_back(*process.user);
    }
  }
  return names;
}

}  // namespace gpuwarden::bundle
