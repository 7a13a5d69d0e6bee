// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/record_job.hpp"

#include <vector>

#include "gpuwarden/placement/names.hpp"

namespace gpuwarden::launch {

Result<recording::RecorderOptions> recorder_options(const machine::Reservation& gpus, const JobSpec& job,
                                                    std::chrono::milliseconds interval) {
  recording::RecorderOptions options;
  options.info = recording::info_of(gpus.snapshot(), job.argv, interval);
  facts::Snapshot held = gpus.snapshot();
  std::vector<placement::GpuName> names;
  for (const auto& device : gpus.decision().selected) names.push_back({device.uuid.value});
  GPUWARDEN_CHECK(placement::keep_named(names, held));
  for (const facts::GpuRecord& record : held.gpus) options.gpus.push_back(record.gpu.uuid);
  options.held_by = job.run_id;
  return options;
}

}  // namespace gpuwarden::launch
