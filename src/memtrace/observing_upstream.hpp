// SPDX-License-Identifier: Apache-2.0
// Passes everything on to another upstream and tells what was mapped and unmapped.
#pragma once

#include <functional>

#include "gpuwarden/memory/upstream.hpp"

namespace gpuwarden::memtrace {

class ObservingUpstream final : public memory::Upstream {
 public:
  using Observer = std::function<void(bool mapped, memory::DeviceAddress address, Bytes size)>;

  ObservingUpstream(memory::Upstream& inner, Observer observer) : inner_(inner), observer_(std::move(observer)) {}

  Result<memory::DeviceAddress> reserve(Bytes size) override { return inner_.reserve(size); }
  Result<void> release(memory::DeviceAddress address, Bytes size) override { return inner_.release(address, size); }
  Result<void> create(std::span<memory::PageHandle> pages) override { return inner_.create(pages); }
  Result<void> destroy(std::span<const memory::PageHandle> pages) override { return inner_.destroy(pages); }
  Result<void> map(memory::DeviceAddress address, std::span<const memory::PageHandle> pages) override {
    auto mapped = inner_.map(address, pages);
    if (mapped) observer_(true, address, memory::kPage * memory::pages_in(pages));
    return mapped;
  }
  Result<void> unmap(memory::DeviceAddress address, Bytes size) override {
    auto unmapped = inner_.unmap(address, size);
    if (unmapped) observer_(false, address, size);
    return unmapped;
  }
  Result<memory::EventHandle> record(memory::StreamId stream) override { return inner_.record(stream); }
  Result<bool> is_done(memory::EventHandle event) override { return inner_.is_done(event); }
  Result<void> wait(memory::StreamId stream, memory::EventHandle event) override { return inner_.wait(stream, event); }
  Result<void> synchronize(memory::EventHandle event) override { return inner_.synchronize(event); }
  Result<void> forget(memory::EventHandle event) override { return inner_.forget(event); }
  bool is_capturing(memory::StreamId stream) override { return inner_.is_capturing(stream); }
  Result<void> copy(memory::DeviceAddress to, memory::DeviceAddress from, Bytes size,
                    memory::StreamId stream) override {
    return inner_.copy(to, from, size, stream);
  }
  Result<memory::DeviceMemory> memory() override { return inner_.memory(); }

 private:
  memory::Upstream& inner_;
  Observer observer_;
};

}  // namespace gpuwarden::memtrace
