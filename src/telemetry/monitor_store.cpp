// SPDX-License-Identifier: Apache-2.0
#include "telemetry/monitor_store.hpp"

#include <utility>

namespace gpuwarden::telemetry {
namespace {

/// More than is left for a later write.
constexpr std::size_t kMostLeft = 10'000;

template <class T>
void append_bounded(std::vector<T>& list, const std::vector<T>& more) {
  list.insert(list.end(), more.begin(), more.end());
  if (list.size() > kMostLeft) list.erase(list.begin(), list.end() - kMostLeft);
}

}  // namespace

void MonitorStore::note(const Result<void>& outcome) {
  if (outcome) {
    if (std::exchange(failing_, false)) log_("the history is written again");
    return;
  }
  if (!std::exchange(failing_, true)) log_("the history cannot be written: " + outcome.error().message);
}

void MonitorStore::add(const Reading& reading, const std::vector<Use>& uses, const std::vector<Happening>& happenings) {
  const std::scoped_lock lock(mutex_);
  append_bounded(uses_, uses);
  append_bounded(happenings_, happenings);
  const auto added = store_.add(reading, uses_, happenings_);
  note(added);
  if (!added) return;
  uses_.clear();
  happenings_.clear();
}

void MonitorStore::finish(const std::shared_ptr<const Reading>& last, const std::vector<Use>& uses) {
  {
    // A file that is read cannot be closed in order.
    const std::scoped_lock lock(reader_mutex_);
    reader_.reset();
  }
  const std::scoped_lock lock(mutex_);
  append_bounded(uses_, uses);
  if (last && !(uses_.empty() && happenings_.empty())) {
    // Its GPUs were written, or could not be, when it was made.
    Reading end;
    end.snapshot.taken_at = last->snapshot.taken_at;
    end.when = last->when;
    note(store_.add(end, uses_, happenings_));
  }
  note(store_.finish());
}

}  // namespace gpuwarden::telemetry
