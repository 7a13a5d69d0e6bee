// SPDX-License-Identifier: Apache-2.0
#include "probe/apart.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "probe/problems.hpp"

namespace gpuwarden::probe {
namespace {

/// For the rest of a message whose beginning is there.
constexpr std::chrono::milliseconds kRestOfMessage{20};

}  // namespace

void Apart::keep(facts::GpuRecord meanwhile, std::unique_ptr<ChildProcess> child, Clock::SteadyTime since) {
  const std::uint32_t index = meanwhile.gpu.index.value;
  if (!child) return;
  One& one = gpus_[index];
  one = {};
  one.child = std::move(child);
  one.since = since;
  one.meanwhile = std::move(meanwhile);
}

Apart::News Apart::hear(One& one, std::uint32_t index) {
  while (one.child->has_news()) {
    const auto message = one.child->receive(kRestOfMessage);
    if (!message || !one.reading.take_message(*message, one.progress)) return News::ended;
    if (one.reading.records.contains(index)) return News::answered;
  }
  return News::none;
}

void Apart::look(Clock::SteadyTime now, std::chrono::milliseconds timeout, Troubles& troubles, Reading& reading) {
  for (auto at = gpus_.begin(); at != gpus_.end();) {
    auto& [index, one] = *at;
    const News news = hear(one, index);
    if (news == News::answered) {
      troubles.forget(GpuIndex{index});
      reading.records[index] = std::move(one.reading.records[index]);
    } else if (news == News::ended || now - one.since >= timeout) {
      facts::GpuRecord record = explain_silent_gpu(one.meanwhile.gpu, silence_of(*one.child), timeout);
      troubles.remember(record, now);
      reading.records[index] = std::move(record);
    } else {
      reading.records[index] = one.meanwhile;
      ++at;
      continue;
    }
    at = gpus_.erase(at);
  }
}

}  // namespace gpuwarden::probe
