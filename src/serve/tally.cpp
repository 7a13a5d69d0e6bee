// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/tally.hpp"

#include <algorithm>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::serve {
namespace {

constexpr std::size_t kMostFiles = 1024;
constexpr std::size_t kMostJobs = 64;
constexpr std::size_t kMostBytes = 16384;
/// A GPU that raves must not fill the memory.
constexpr std::size_t kMostXids = 4096;

bool is_gpu_name(const std::string& name) {
  return name.starts_with("GPU-") || name.starts_with("MIG-") ||
         (!name.empty() && name.find_first_not_of("0123456789.") == std::string::npos);
}

std::vector<std::string> jobs_in(const std::filesystem::path& file) {
  std::vector<std::string> jobs;
  const auto text = read_file(file, kMostBytes);
  if (!text) return jobs;
  for (const std::string_view line : split(*text, '\n')) {
    const std::string_view job = trim(line);
    std::string id = printable(job);
    // Twice the same job would be twice the same series.
    const bool known = std::ranges::find(jobs, id) != jobs.end();
    if (!id.empty() && !known && jobs.size() < kMostJobs) jobs.push_back(std::move(id));
  }
  return jobs;
}

}  // namespace

std::map<std::string, std::vector<std::string>> read_job_mapping(const std::filesystem::path& directory) {
  std::map<std::string, std::vector<std::string>> jobs;
  if (directory.empty()) return jobs;
  std::error_code ignored;
  for (const auto& file : list_directory(directory)) {
    const std::string name = file.filename().string();
    if (jobs.size() >= kMostFiles || !is_gpu_name(name) || !std::filesystem::is_regular_file(file, ignored)) continue;
    if (auto found = jobs_in(file); !found.empty()) jobs[name] = std::move(found);
  }
  return jobs;
}

Tally::Tally(std::optional<std::size_t> expected, std::filesystem::path job_mapping)
    : expected_(expected), job_mapping_(std::move(job_mapping)) {}

void Tally::add(const telemetry::Reading& reading) {
  auto counts = std::make_shared<Counts>();
  counts->jobs = read_job_mapping(job_mapping_);
  const std::scoped_lock lock(mutex_);
  for (const facts::GpuRecord& record : reading.snapshot.gpus) {
    const std::string id = facts::identity_of(record).value;
    // GPUs that are listed from PCI ids alone have no UUID yet: the same GPU must not count twice later.
    if (!record.gpu.uuid.value.empty()) {
      seen_.insert(id);
      indices_[id] = record.gpu.index;
    }
    if (record.state != facts::GpuState::lost) ++counts->present;
  }
  for (const facts::GpuEvent& event : reading.events) {
    if (event.kind != facts::GpuEventKind::xid) continue;
    const std::pair key{event.uuid.value, event.data};
    if (!xids_.contains(key) && xids_.size() >= kMostXids) continue;
    XidCount& count = xids_[key];
    count.gpu = event.uuid;
    count.xid = event.data;
    count.last = std::max(count.last, event.time);
    ++count.count;
  }
  for (auto& [key, count] : xids_) {
    if (const auto index = indices_.find(key.first); index != indices_.end()) count.index = index->second;
    counts->xids.push_back(count);
  }
  counts->expected = expected_.value_or(std::max(seen_.size(), reading.snapshot.gpus.size()));
  counts->lost = counts->expected > counts->present ? counts->expected - counts->present : 0;
  latest_ = std::move(counts);
}

std::shared_ptr<const Counts> Tally::latest() const {
  const std::scoped_lock lock(mutex_);
  return latest_;
}

}  // namespace gpuwarden::serve
