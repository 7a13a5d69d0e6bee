// SPDX-License-Identifier: Apache-2.0
// Reads the GPUs again and again, each metric as often as it can change.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::telemetry {

struct SamplerOptions {
  /// 100 ms to 10 minutes.
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  probe::Detail detail = probe::Detail::full;
  bool processes = true;
  bool links = false;    ///< the topology, once, with the first reading
  bool holders = false;  ///< processes that NVML does not list; a walk through /proc every ten intervals
  bool events = true;    ///< Xids and the like, by a probe::EventWatcher
  /// Begins with a reading that leaves out what takes GPUs long to tell; the first whole one follows at once.
  bool quick_first = false;
};

/// Reads in a thread of its own: the n-th reading begins at start + n * interval, or, where one took longer, at the
/// next of these moments (no drift, no heap of readings that are due). A GPU that hangs is read apart from the others.
class Sampler {
 public:
  /// `leases` is asked at each reading; may be empty. `hear` is called from the sampler's thread with each reading; it
  /// must not throw and should be quick.
  Sampler(probe::ReaderOptions reader, SamplerOptions options,
          std::function<std::vector<facts::Lease>(const facts::Snapshot&)> leases, std::function<void(Reading)> hear,
          Clock& clock);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();  ///< as stop()

  /// Ends at once, whatever the driver does; `hear` is not called any more when it has returned.
  void stop();
  /// A reading as soon as possible, beside the regular ones.
  void read_now();
  /// The time between readings from now on.
  void set_interval(std::chrono::milliseconds interval);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::telemetry
