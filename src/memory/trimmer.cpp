// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/trimmer.hpp"

namespace gpuwarden::memory {

Trimmer::Trimmer(Pool& pool, Clock& clock, TrimmerConfig config)
    : process_(::getpid()), thread_([this, &pool, &clock, config](const std::stop_token& stop) {
        while (clock.sleep_for(config.interval, stop)) {
          const auto returned = pool.trim_idle(clock.now(), config.idle_for, config.keep, stop);
          // The context is gone, or this is another process: there is nothing to do any more.
          if (!returned) return;
          returned_.fetch_add(returned->value, std::memory_order_relaxed);
        }
      }) {}

Trimmer::~Trimmer() {
  // A forked child has the object, but not the thread.
  if (::getpid() != process_) thread_.detach();
}

}  // namespace gpuwarden::memory
