// SPDX-License-Identifier: Apache-2.0
// A program that uses the simulated CUDA driver: it opens the library of one driver profile and looks symbols up.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "nvidia/cuda_library.hpp"
#include "sim_nvml/child.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::cuda {

using Json = nlohmann::json;
using nvml::Child;

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t kPage = 2 * kMiB;

inline std::filesystem::path library_of(int profile) {
  return std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / std::to_string(profile) / "libcuda.so.1";
}

class Library : public Symbols {
 public:
  explicit Library(int profile) : handle_(::dlopen(library_of(profile).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    static_cast<Symbols&>(*this) = find_symbols(handle_);
    control_ = find<decltype(control_)>("gpuwarden_sim_call");
  }

  template <class Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(handle_, name));
  }

  /// Sends a control request; its reply, with "error" in it where it was refused.
  Json call(const Json& request) const {
    char* reply = nullptr;
    control_(request.dump().c_str(), &reply);
    const std::unique_ptr<char, decltype(&std::free)> owner(reply, &std::free);
    return reply == nullptr ? Json{{"error", "no reply"}} : Json::parse(reply);
  }

  /// Initialised, with the primary context of a device current.
  Context start(Device device = 0) const {
    Context context = nullptr;
    EXPECT_EQ(cuInit(0), kSuccess);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), kSuccess);
    EXPECT_EQ(cuCtxSetCurrent(context), kSuccess);
    return context;
  }
  /// `bytes` of device memory; 0 where it cannot be had.
  DevicePointer allocate(std::size_t bytes) const {
    DevicePointer pointer = 0;
    return cuMemAlloc_v2(&pointer, bytes) == kSuccess ? pointer : 0;
  }
  std::uint64_t free_memory() const {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(cuMemGetInfo_v2(&free, &total), kSuccess);
    return free;
  }
  AllocationHandle create(std::size_t bytes, int handle_types = kHandleNone, Device device = 0) const {
    const AllocationProperties properties{
        .type = kAllocationPinned, .handle_types = handle_types, .location = {kLocationDevice, device}};
    AllocationHandle handle = 0;
    return cuMemCreate(&handle, bytes, &properties, 0) == kSuccess ? handle : 0;
  }
  Result allow(DevicePointer pointer, std::size_t bytes, int flags = kAccessReadWrite, Device device = 0) const {
    const AccessDescriptor access{{kLocationDevice, device}, flags};
    return cuMemSetAccess(pointer, bytes, &access, 1);
  }
  Stream stream(unsigned flags = 0) const {
    Stream made = nullptr;
    EXPECT_EQ(cuStreamCreate(&made, flags), kSuccess);
    return made;
  }
  Event event(unsigned flags = 0) const {
    Event made = nullptr;
    EXPECT_EQ(cuEventCreate(&made, flags), kSuccess);
    return made;
  }
  /// Work on a stream, as long as said.
  void work(Stream on, double microseconds) const {
    const Json reply =
        call({{"op", "cuda_work"}, {"stream", reinterpret_cast<std::uintptr_t>(on)}, {"microseconds", microseconds}});
    EXPECT_FALSE(reply.contains("error")) << reply.dump();
  }
  /// Time passes only when somebody waits, or by this.
  void stop_clock() const { call({{"op", "cuda_clock"}, {"manual", true}}); }
  void advance(double microseconds) const { call({{"op", "cuda_clock"}, {"advance_microseconds", microseconds}}); }

 private:
  void* handle_;
  int (*control_)(const char*, char**) = nullptr;
};

/// What one process tells another: that it has come so far.
class Signal {
 public:
  Signal() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() {
    for (const int end : ends_) ::close(end);
  }
  void send(std::uint64_t word = 1) const { EXPECT_EQ(::write(ends_[1], &word, sizeof word), 8); }
  std::uint64_t wait() const {
    std::uint64_t word = 0;
    EXPECT_EQ(::read(ends_[0], &word, sizeof word), 8);
    return word;
  }

 private:
  std::array<int, 2> ends_{};
};

/// Memory of the device, as the host sees it in this simulation.
inline unsigned char* bytes_at(DevicePointer pointer) {
  return reinterpret_cast<unsigned char*>(pointer);  // NOLINT(performance-no-int-to-ptr)
}

/// A test with a fleet of its own, on which it runs programs.
class Programs : public ::testing::Test {
 protected:
  Programs() {
    ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1);
    ::setenv("GPUWARDEN_MEMORY_DIR", (dir_ / "pools").c_str(), 1);
    ::setenv("GPUWARDEN_SIM_CUDA_LATENCY", "off", 1);
    for (const char* name : {"GPUWARDEN_SIM_FLEET", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) ::unsetenv(name);
    use("cuda_context_memory: 0MiB\ngpus: [{model: Tesla T4, count: 2}]\n");
  }

  /// The fleet for programs from here on: a preset, or YAML.
  void use(const std::string& fleet) {
    std::string spec = fleet;
    if (fleet.find('\n') != std::string::npos) {
      spec = (dir_ / ("fleet-" + std::to_string(++fleets_) + ".yaml")).string();
      testing::put(spec, fleet);
    }
    ::setenv("GPUWARDEN_SIMULATE", spec.c_str(), 1);
  }

  /// A program in a process of its own.
  static std::unique_ptr<Child> begin(const std::function<void(const Library&)>& body, int profile = 580) {
    return std::make_unique<Child>([&] {
      const Library library(profile);
      body(library);
      std::fflush(nullptr);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
  }
  /// The same, waited for; what it expects is reported by it.
  static void run(const std::function<void(const Library&)>& body, int profile = 580) {
    EXPECT_EQ(begin(body, profile)->wait(), 0);
  }

  const std::filesystem::path& folder() const { return dir_.path(); }

 private:
  testing::TempDir dir_;
  int fleets_ = 0;
};

}  // namespace gpuwarden::cuda
