// SPDX-License-Identifier: Apache-2.0
#include "telemetry/carried.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <system_error>

namespace gpuwarden::telemetry {

void Carried::join_links(facts::Snapshot& snapshot) {
  if (snapshot.links) {
    links_ = snapshot.links;
    nics_ = snapshot.nics;
  } else if (links_) {
    snapshot.links = links_;
    snapshot.nics = nics_;
  }
}

void Carried::keep_holders(const facts::Snapshot& snapshot) {
  holders_.clear();
  for (const facts::GpuRecord& record : snapshot.gpus) {
    if (!record.processes || record.gpu.uuid.value.empty()) continue;
    std::ranges::copy_if(*record.processes, std::back_inserter(holders_[record.gpu.uuid.value]),
                         [](const facts::GpuProcess& process) { return !process.listed; });
  }
}

void Carried::add_holders(facts::Snapshot& snapshot, const std::filesystem::path& proc_root) const {
  for (facts::GpuRecord& record : snapshot.gpus) {
    const auto kept = holders_.find(record.gpu.uuid.value);
    if (kept == holders_.end() || !record.processes) continue;
    for (const facts::GpuProcess& process : kept->second) {
      const bool listed =
          std::ranges::find(*record.processes, process.pid, &facts::GpuProcess::pid) != record.processes->end();
      std::error_code error;
      if (!listed && std::filesystem::exists(proc_root / std::to_string(process.pid.value), error))
        record.processes->push_back(process);
    }
  }
}

}  // namespace gpuwarden::telemetry
