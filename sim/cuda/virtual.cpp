// SPDX-License-Identifier: Apache-2.0
// Virtual memory: address space, memory objects, and the first made to show the second.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>

#include "gpuwarden/base/text.hpp"
#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda {
namespace {

using namespace server;

/// What an exported file's name begins with; the rest is the object's id, and the GPU and instance it lies on.
constexpr std::string_view kFileName = "gpuwarden-cuda";

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Result check_properties(Driver& d, const AllocationProperties* properties) {
  if (properties == nullptr || properties->type != kAllocationPinned) return kInvalidValue;
  if (properties->location.type != kLocationDevice) return kNotSupported;
  if (d.device(properties->location.id) == nullptr) return kInvalidDevice;
  const bool handles = properties->handle_types == kHandleNone || properties->handle_types == kHandlePosixFd;
  return handles && properties->flags.compression == 0 ? kSuccess : kNotSupported;
}

std::uint64_t random_id() {
  static std::random_device source;
  return (std::uint64_t{source()} << 32U | source()) | 1U;
}

/// A file of its own, for an object that may be exported.
int own_file(const Driver& d, const MemoryObject& object) {
  const auto& place = d.devices[static_cast<std::size_t>(object.device)].place;
  const std::string name = fmt::format("{}:{:016x}:{}:{}", kFileName, object.id, place.gpu, place.gpu_instance);
  const int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(object.size)) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

/// Gives the object pages to be; false where the machine refuses.
bool back(Driver& d, MemoryObject& object) {
  if (object.handle_types != kHandleNone) {
    object.own_file = true;
    object.fd = own_file(d, object);
    return object.fd >= 0;
  }
  DeviceFile& file = *d.device(object.device)->file;
  const auto offset = file.take(object.size);
  object.offset = offset.value_or(0);
  object.fd = file.fd();
  return offset.has_value();
}

/// The last handle and the last mapping are gone.
void drop_reference(Driver& d, const std::shared_ptr<MemoryObject>& object) {
  if (--object->references > 0) return;
  if (object->own_file)
    ::close(object->fd);
  else
    d.device(object->device)->file->give(object->offset, object->size);
  d.give(object->device, object->size, object->shared ? object->id : 0);
}

AllocationHandle add_handle(Driver& d, std::shared_ptr<MemoryObject> object) {
  ++object->references;
  const AllocationHandle handle = d.next_name();
  d.handles[handle] = std::move(object);
  return handle;
}

Result create(Call& call, AllocationHandle* handle, std::size_t size, const AllocationProperties* properties) {
  Driver& d = call.driver;
  if (const Result checked = check_properties(d, properties); checked != kSuccess) return checked;
  if (size == 0 || size % kPage != 0) return kInvalidValue;
  call.mebibytes = mebibytes(size);
  const int device = properties->location.id;
  if (const Result taken = size < kTooLarge ? d.take(device, size) : kOutOfMemory; taken != kSuccess) return taken;
  auto object = std::make_shared<MemoryObject>(
      MemoryObject{.id = random_id(), .device = device, .size = size, .handle_types = properties->handle_types});
  if (!back(d, *object)) return d.give(device, size), kOperatingSystem;
  *handle = add_handle(d, std::move(object));
  return kSuccess;
}

/// The reservation that a range of addresses lies in.
bool is_reserved(Space& space, std::uint64_t base, std::uint64_t size) {
  const auto behind = space.reservations().upper_bound(base);
  if (behind == space.reservations().begin()) return false;
  const auto& [start, length] = *std::prev(behind);
  return base - start < length && size <= length - (base - start);
}

bool is_mapped_anywhere(Space& space, std::uint64_t base, std::uint64_t size) {
  if (space.around(base) != nullptr) return true;
  const Range* next = space.next(base);
  return next != nullptr && next->base - base < size;
}

Result map(Call& call, std::uint64_t base, std::size_t size, const std::shared_ptr<MemoryObject>& object) {
  Driver& d = call.driver;
  if (size == 0 || size % kPage != 0 || base % kPage != 0 || size > object->size) return kInvalidValue;
  if (!is_reserved(d.space, base, size) || is_mapped_anywhere(d.space, base, size)) return kInvalidValue;
  if (!Space::map_object(base, size, *object)) return kOperatingSystem;
  ++object->references;
  d.space.add({.kind = RangeKind::mapping, .base = base, .size = size, .device = object->device, .object = object});
  return kSuccess;
}

/// The mappings that make up exactly a range of addresses; empty where they do not.
std::vector<Range*> mappings_of(Space& space, std::uint64_t base, std::uint64_t size) {
  std::vector<Range*> found;
  while (size > 0) {
    Range* range = space.at(base);
    if (range == nullptr || range->kind != RangeKind::mapping || range->size > size) return {};
    found.push_back(range);
    base += range->size;
    size -= range->size;
  }
  return found;
}

Result unmap(Call& call, std::uint64_t base, std::size_t size) {
  Driver& d = call.driver;
  if (size == 0 || size >= kTooLarge) return kInvalidValue;
  const auto mappings = mappings_of(d.space, base, size);
  if (mappings.empty()) return kInvalidValue;
  call.mebibytes = mebibytes(size);
  call.pieces = static_cast<double>(mappings.size());
  if (!Space::unmap_object(base, size)) return kOperatingSystem;
  for (const Range* mapping : mappings) {
    const auto object = mapping->object;
    d.space.remove(mapping->base);
    drop_reference(d, object);
  }
  return kSuccess;
}

/// Whether the descriptors make sense for memory that lies on a device.
Result check_access(Driver& d, const AccessDescriptor* access, std::size_t count) {
  if (access == nullptr || count == 0) return kInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type != kLocationDevice) return kNotSupported;
    if (d.device(access[i].location.id) == nullptr) return kInvalidDevice;
    const int flags = access[i].flags;
    if (flags != kAccessNone && flags != kAccessRead && flags != kAccessReadWrite) return kInvalidValue;
  }
  return kSuccess;
}

Result set_access(Call& call, std::uint64_t base, std::size_t size, const AccessDescriptor* access, std::size_t count) {
  Driver& d = call.driver;
  if (const Result checked = check_access(d, access, count); checked != kSuccess) return checked;
  if (size == 0 || size >= kTooLarge) return kInvalidValue;
  const auto mappings = mappings_of(d.space, base, size);
  if (mappings.empty()) return kInvalidValue;
  call.mebibytes = mebibytes(size);
  call.pieces = static_cast<double>(mappings.size());
  for (Range* mapping : mappings) {
    int whole = kAccessNone;
    for (std::size_t i = 0; i < count; ++i) mapping->access[access[i].location.id] = access[i].flags;
    for (const auto& [device, flags] : mapping->access) whole |= flags;
    if (!Space::protect(mapping->base, mapping->size, whole)) return kOperatingSystem;
  }
  return kSuccess;
}

/// Before the file leaves the process, the memory is accounted as an object that others may hold.
Result export_object(Driver& d, MemoryObject& object, int* fd) {
  if (!object.shared) {
    const auto shared = d.fleet->share(d.owner, d.device(object.device)->place, object.size, object.id);
    if (!shared || *shared != sim::Fleet::Taken::done) return kOperatingSystem;
    object.shared = true;
  }
  *fd = ::fcntl(object.fd, F_DUPFD_CLOEXEC, 0);
  return *fd >= 0 ? kSuccess : kOperatingSystem;
}

/// What the name of an exported file tells; nothing for any other file.
std::optional<MemoryObject> read_file_name(const Driver& d, int fd) {
  std::error_code error;
  std::string name = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), error).string();
  struct stat info{};
  if (error || !name.starts_with("/memfd:") || ::fstat(fd, &info) != 0) return std::nullopt;
  name = name.substr(7, name.find(' ') - 7);
  const auto parts = split(name, ':');
  if (parts.size() != 4 || parts[0] != kFileName || parts[1].size() != 16) return std::nullopt;
  MemoryObject object{.size = static_cast<std::uint64_t>(info.st_size), .own_file = true};
  object.id = std::strtoull(std::string(parts[1]).c_str(), nullptr, 16);
  const auto is_here = [&](const DeviceState& device) {
    return std::to_string(device.place.gpu) == parts[2] && std::to_string(device.place.gpu_instance) == parts[3];
  };
  const auto device = std::ranges::find_if(d.devices, is_here);
  if (device == d.devices.end() || object.size == 0) return std::nullopt;
  object.device = static_cast<int>(device - d.devices.begin());
  return object;
}

Result import_object(Driver& d, int fd, AllocationHandle* handle) {
  auto described = read_file_name(d, fd);
  if (!described) return kInvalidValue;
  for (const auto& [name, known] : d.handles) {
    if (known->id == described->id) return *handle = add_handle(d, known), kSuccess;
  }
  described->handle_types = kHandlePosixFd;
  described->shared = true;
  described->fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (described->fd < 0) return kOperatingSystem;
  if (const Result taken = d.take(described->device, described->size, described->id); taken != kSuccess)
    return ::close(described->fd), taken;
  *handle = add_handle(d, std::make_shared<MemoryObject>(*described));
  return kSuccess;
}

/// Runs `body(Call&, std::shared_ptr<MemoryObject>&)` for a handle that there is.
template <class Body>
Result with_handle(const char* function, AllocationHandle handle, const Body& body) {
  return with_driver(function, [&](Call& call) {
    const auto found = call.driver.handles.find(handle);
    return found == call.driver.handles.end() ? kInvalidValue : body(call, found->second);
  });
}

}  // namespace

extern "C" {

Result cuMemGetAllocationGranularity(std::size_t* granularity, const AllocationProperties* properties, int option) {
  if (granularity == nullptr || (option != kGranularityMinimum && option != kGranularityRecommended))
    return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const Result checked = check_properties(call.driver, properties);
    if (checked == kSuccess) *granularity = kPage;
    return checked;
  });
}

Result cuMemAddressReserve(DevicePointer* pointer, std::size_t size, std::size_t alignment, DevicePointer wanted,
                           unsigned long long flags) {
  if (pointer == nullptr || size == 0 || size % kPage != 0 || flags != 0) return kInvalidValue;
  if ((alignment & (alignment - 1)) != 0) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    if (size >= kTooLarge || alignment >= kTooLarge) return kOutOfMemory;
    const std::uint64_t base = Space::reserve(size, std::max<std::uint64_t>(alignment, kPage), wanted);
    if (base == 0) return kOutOfMemory;
    call.driver.space.reservations()[base] = size;
    return *pointer = base, kSuccess;
  });
}

Result cuMemAddressFree(DevicePointer pointer, std::size_t size) {
  return with_driver(__func__, [&](Call& call) {
    Space& space = call.driver.space;
    const auto found = space.reservations().find(pointer);
    if (found == space.reservations().end() || found->second != size) return kInvalidValue;
    if (is_mapped_anywhere(space, pointer, size)) return kInvalidValue;
    Space::unmap_memory(pointer, size);
    space.reservations().erase(found);
    return kSuccess;
  });
}

Result cuMemCreate(AllocationHandle* handle, std::size_t size, const AllocationProperties* properties,
                   unsigned long long flags) {
  if (handle == nullptr || flags != 0) return kInvalidValue;
  // It works without a context, but a broken one or a fault of the GPU shows here as well.
  const auto body = [&](Call& call) { return create(call, handle, size, properties); };
  return context_stack().empty() ? with_driver(__func__, body) : with_context(__func__, body);
}

Result cuMemRelease(AllocationHandle handle) {
  return with_driver(__func__, [&](Call& call) {
    const auto found = call.driver.handles.find(handle);
    if (found == call.driver.handles.end()) return kInvalidValue;
    const auto object = found->second;
    call.mebibytes = mebibytes(object->size);
    call.driver.handles.erase(found);
    return drop_reference(call.driver, object), kSuccess;
  });
}

Result cuMemMap(DevicePointer pointer, std::size_t size, std::size_t offset, AllocationHandle handle,
                unsigned long long flags) {
  if (offset != 0 || flags != 0) return kInvalidValue;  // as NVIDIA's driver does
  return with_handle(__func__, handle,
                     [&](Call& call, const auto& object) { return map(call, pointer, size, object); });
}

Result cuMemUnmap(DevicePointer pointer, std::size_t size) {
  return with_driver(__func__, [&](Call& call) { return unmap(call, pointer, size); });
}

Result cuMemSetAccess(DevicePointer pointer, std::size_t size, const AccessDescriptor* access, std::size_t count) {
  return with_driver(__func__, [&](Call& call) { return set_access(call, pointer, size, access, count); });
}

Result cuMemGetAccess(unsigned long long* flags, const Location* location, DevicePointer pointer) {
  if (flags == nullptr || location == nullptr || location->type != kLocationDevice) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const Range* range = call.driver.space.around(pointer);
    if (range == nullptr || range->kind != RangeKind::mapping) return kInvalidValue;
    const auto found = range->access.find(location->id);
    *flags = static_cast<unsigned long long>(found == range->access.end() ? kAccessNone : found->second);
    return kSuccess;
  });
}

Result cuMemExportToShareableHandle(void* shareable, AllocationHandle handle, int type, unsigned long long flags) {
  if (shareable == nullptr || flags != 0) return kInvalidValue;
  return with_handle(__func__, handle, [&](Call& call, const auto& object) {
    if (type != kHandlePosixFd || object->handle_types != kHandlePosixFd) return kInvalidValue;
    return export_object(call.driver, *object, static_cast<int*>(shareable));
  });
}

Result cuMemImportFromShareableHandle(AllocationHandle* handle, void* shareable, int type) {
  if (handle == nullptr || type != kHandlePosixFd) return kInvalidValue;
  // The descriptor itself stands in the pointer, as CUDA has it.
  const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  return with_driver(__func__, [&](Call& call) { return import_object(call.driver, fd, handle); });
}

Result cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties, AllocationHandle handle) {
  if (properties == nullptr) return kInvalidValue;
  return with_handle(__func__, handle, [&](Call&, const auto& object) {
    *properties = {
        .type = kAllocationPinned, .handle_types = object->handle_types, .location = {kLocationDevice, object->device}};
    return kSuccess;
  });
}

Result cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  if (handle == nullptr) return kInvalidValue;
  return with_driver(__func__, [&](Call& call) {
    const Range* range = call.driver.space.around(reinterpret_cast<std::uint64_t>(address));
    if (range == nullptr || range->kind != RangeKind::mapping) return kInvalidValue;
    return *handle = add_handle(call.driver, range->object), kSuccess;
  });
}

}  // extern "C"
}  // namespace gpuwarden::cuda
