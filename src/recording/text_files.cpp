// SPDX-License-Identifier: Apache-2.0
#include "recording/text_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::recording {
namespace {

std::string csv_cell(std::string_view text) {
  std::string safe = printable(text);
  if (safe.find_first_of(",\"") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// "2026-11-20T14:03:07.250Z".
std::string exact_time(telemetry::WallTime time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::string text = format_utc(time);
  if (!text.empty() && text.back() == 'Z') text.pop_back();
  return fmt::format("{}.{:03}Z", text, ms);
}

}  // namespace

std::string csv_heading() {
  std::string text = "time,index,uuid,name,state";
  for (const facts::Metric& metric : facts::metrics()) text += fmt::format(",{}", metric.json_path);
  return text + "\n";
}

std::string csv_lines(const telemetry::Reading& reading) {
  const std::string time = exact_time(reading.snapshot.taken_at);
  std::string text;
  for (const facts::GpuRecord& record : reading.snapshot.gpus) {
    text += fmt::format("{},{},{},{},{}", time, record.gpu.index.value, csv_cell(record.gpu.uuid.value),
                        csv_cell(record.gpu.name), facts::to_string(record.state));
    for (const facts::Metric& metric : facts::metrics()) {
      const auto value = facts::value_of(metric, record.sample);
      text += value ? fmt::format(",{}", *value) : ",";
    }
    text += '\n';
  }
  return text;
}

std::string json_line_of(const telemetry::Reading& reading) {
  nlohmann::json json = facts::to_json(reading.snapshot);
  json["events"] = nlohmann::json::array();
  for (const facts::GpuEvent& event : reading.events) json["events"].push_back(facts::to_json(event));
  return facts::json_line(json);
}

Result<TextFile> TextFile::open(const std::filesystem::path& path, Existing existing) {
  TextFile file;
  if (path == "-") {
    file.fd_ = STDOUT_FILENO;
    file.name_ = "standard output";
    return file;
  }
  file.name_ = printable(path.string());
  struct stat info{};
  const bool there = ::stat(path.c_str(), &info) == 0;
  const bool regular = there && S_ISREG(info.st_mode);
  if (regular && existing == Existing::refuse)
    return fail(ErrorCode::invalid_argument, fmt::format("{} exists already", file.name_),
                "--append writes on, --force replaces it");
  const bool append = regular && existing == Existing::append;
  file.fresh_ = !append || info.st_size == 0;
  const int mode = O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : there && !regular ? 0 : O_TRUNC);
  file.own_.reset(::open(path.c_str(), mode, 0666));
  file.fd_ = file.own_.get();
  if (!file.own_) return std::unexpected(error_from_errno(errno, "cannot write " + file.name_));
  return file;
}

Result<void> TextFile::write(std::string_view text) { return write_descriptor(fd_, text, name_); }

}  // namespace gpuwarden::recording
