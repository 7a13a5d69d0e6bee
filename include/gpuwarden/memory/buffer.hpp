// SPDX-License-Identifier: Apache-2.0
// Device memory with an owner.
//
//   auto buffer = DeviceBuffer<Pool>::make(*pool, 1_MiB, stream).value();
//   buffer.resize(4_MiB, copy);
#pragma once

#include <algorithm>
#include <concepts>
#include <utility>

#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

/// Copies within the device as work of a stream, as CudaUpstream::copy does.
template <class C>
concept DeviceCopy = requires(C& copy, DeviceAddress address, Bytes size, StreamId stream) {
  { copy(address, address, size, stream) } -> std::same_as<Result<void>>;
};

/// Owns one allocation of `R`, which must outlive it; can be moved, not copied. Gives it back on its stream, so that
/// work submitted there before is safe. Not to be used from two threads at once.
template <DeviceResource R>
class DeviceBuffer {
 public:
  /// An empty buffer, with no memory.
  DeviceBuffer() = default;

  /// `size` bytes for work on `stream`; 0 bytes need no memory.
  static Result<DeviceBuffer> make(R& resource, Bytes size, StreamId stream) {
    DeviceBuffer buffer(resource, stream);
    if (size.value == 0) return buffer;
    GPUWARDEN_TRY(buffer.address_, resource.allocate(size, stream));
    buffer.size_ = buffer.capacity_ = size;
    return buffer;
  }

  DeviceBuffer(DeviceBuffer&& other) noexcept
      : resource_(std::exchange(other.resource_, nullptr)),
        stream_(other.stream_),
        address_(std::exchange(other.address_, {})),
        size_(std::exchange(other.size_, {})),
        capacity_(std::exchange(other.capacity_, {})) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer moved(std::move(other));
    std::swap(resource_, moved.resource_);
    std::swap(stream_, moved.stream_);
    std::swap(address_, moved.address_);
    std::swap(size_, moved.size_);
    std::swap(capacity_, moved.capacity_);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { static_cast<void>(free()); }

  DeviceAddress address() const { return address_; }
  Bytes size() const { return size_; }
  Bytes capacity() const { return capacity_; }
  StreamId stream() const { return stream_; }
  explicit operator bool() const { return address_.value != 0; }

  /// From now on the memory belongs to work on `stream`, which the caller has ordered behind the earlier one.
  void set_stream(StreamId stream) { stream_ = stream; }

  /// More or fewer bytes. Within the capacity nothing moves; else what was in it is copied as work of the stream, and
  /// the old memory given back behind that. After a failure the buffer is as before.
  template <DeviceCopy C>
  Result<void> resize(Bytes size, C&& copy) {
    if (size <= capacity_) {
      size_ = size;
      return {};
    }
    return move_to(size, size, copy);
  }

  /// Gives back what is above the size, by moving to memory of that size.
  template <DeviceCopy C>
  Result<void> shrink_to_fit(C&& copy) {
    if (size_ == capacity_) return {};
    if (size_.value == 0) return free();
    return move_to(size_, size_, copy);
  }

  /// Gives the memory back now; the buffer is empty then, and may be resized. What the resource says, once.
  Result<void> free() {
    if (address_.value == 0) return {};
    size_ = {};
    return resource_->deallocate(std::exchange(address_, {}), std::exchange(capacity_, {}), stream_);
  }

 private:
  DeviceBuffer(R& resource, StreamId stream) : resource_(&resource), stream_(stream) {}

  template <class C>
  Result<void> move_to(Bytes capacity, Bytes size, C& copy) {
    if (resource_ == nullptr)
      return fail(ErrorCode::invalid_argument, "cannot resize a buffer that has no resource", "make one with make()");
    GPUWARDEN_TRY(DeviceBuffer other, make(*resource_, capacity, stream_));
    if (const Bytes kept = std::min(size_, size); kept.value > 0)
      GPUWARDEN_CHECK(copy(other.address_, address_, kept, stream_));
    *this = std::move(other);
    size_ = size;
    return {};
  }

  R* resource_ = nullptr;
  StreamId stream_;
  DeviceAddress address_;
  Bytes size_;
  Bytes capacity_;
};

}  // namespace gpuwarden::memory
