// SPDX-License-Identifier: Apache-2.0
// What a program can let go of when memory is short, and in which order.
#pragma once

#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/manager/device.hpp"

namespace gpuwarden::manager {

/// What is let go of, the cheapest to get back first.
enum class ReleaseKind {
  cache,  ///< emptied: nothing that is in use is lost (a framework's cached blocks, garbage)
  pool,   ///< trimmed: idle memory goes back to the device
  model,  ///< moved to the CPU: works on, more slowly
};
std::string_view to_string(ReleaseKind kind);

/// Something that can be let go of.
struct Releasable {
  std::string name;
  ReleaseKind kind = ReleaseKind::cache;
  /// How much it would free now; nothing where that is not known. May be empty.
  std::function<std::optional<Bytes>()> size;
  /// Lets go; how much came free.
  std::function<Result<Bytes>()> release;
  /// Whether it is that device's memory that comes free; empty: not known, so of any.
  std::function<bool(const Device&)> is_on = {};
};

/// One that was let go of, or could not be.
struct ReleaseStep {
  std::string name;
  ReleaseKind kind = ReleaseKind::cache;
  std::optional<Bytes> expected;
  Bytes freed;
  std::optional<Error> error;
};

struct ReleaseReport {
  std::vector<ReleaseStep> steps;  ///< in the order in which they were taken
  Bytes freed;
  bool enough = true;  ///< as much came free as was needed; true where nobody said how much
};
nlohmann::json to_json(const ReleaseReport& report);

/// The positions of what is let go of, in order: caches before pools before models, and among these what frees most
/// first; what is known to free nothing is left out, and unknown sizes come last of their kind. Pure.
struct ReleaseEntry {
  ReleaseKind kind = ReleaseKind::cache;
  std::optional<Bytes> size;
};
std::vector<std::size_t> release_order(const std::vector<ReleaseEntry>& entries);

/// Who can let go of what. Thread-safe; functions are called without its lock.
class ReleaseBook {
 public:
  /// Another of the same name takes its place.
  void add(Releasable releasable);
  /// Whether there was one.
  bool remove(const std::string& name);
  std::vector<std::string> names() const;
  /// Lets go in release_order() until `needed` has come free; of all where that is empty. With `device` only of what
  /// is on it: what lies on another GPU would be lost for nothing.
  ReleaseReport release(std::optional<Bytes> needed = std::nullopt, const Device* device = nullptr) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Releasable> all_;
};

}  // namespace gpuwarden::manager
