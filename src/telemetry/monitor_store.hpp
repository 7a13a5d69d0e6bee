// SPDX-License-Identifier: Apache-2.0
// A monitor's store, written and read from several threads; what cannot be written is said once, and tried again.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/telemetry/store.hpp"

namespace gpuwarden::telemetry {

/// Who asks has a connection of his own, so that no question keeps a reading from being written.
class MonitorStore {
 public:
  MonitorStore(Store store, std::filesystem::path file, std::function<void(const std::string&)> log)
      : store_(std::move(store)), file_(std::move(file)), log_(std::move(log)) {}

  void add(const Reading& reading, const std::vector<Use>& uses, const std::vector<Happening>& happenings);
  /// Writes what is left after the last reading, and closes the file in order.
  void finish(const std::shared_ptr<const Reading>& last, const std::vector<Use>& uses);

  /// One question at a time; fails as Store::read() does, and with timed_out where the answer takes too long.
  template <class Answer, class... Parameters, class... Arguments>
  Answer ask(Answer (Store::*question)(Parameters...) const, const Arguments&... arguments) const {
    const std::scoped_lock lock(reader_mutex_);
    if (!reader_) {
      GPUWARDEN_TRY(reader_, Store::read(file_, kPatience));
    }
    return ((*reader_).*question)(arguments...);
  }

 private:
  static constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(2);
  void note(const Result<void>& outcome);

  std::mutex mutex_;  ///< of what is written
  Store store_;
  std::filesystem::path file_;
  std::function<void(const std::string&)> log_;
  bool failing_ = false;
  /// What a failed write leaves for the next one; readings themselves are not kept.
  std::vector<Use> uses_;
  std::vector<Happening> happenings_;

  mutable std::mutex reader_mutex_;
  mutable std::optional<Store> reader_;  ///< opened with the first question
};

}  // namespace gpuwarden::telemetry
