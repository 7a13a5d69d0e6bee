// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fmt/format.h>

#include "gpuwarden/profile/ranges.hpp"

namespace gpuwarden::profile {
namespace {

// nvtxRangeStartA and nvtxRangeEnd, as the NVTX reference documents them: ranges of the process, which need not nest.
using RangeStart = std::uint64_t (*)(const char*);
using RangeEnd = void (*)(std::uint64_t);

class Nvtx final : public Ranges {
 public:
  Nvtx(RangeStart start, RangeEnd end) : start_(start), end_(end) {}
  std::uint64_t begin(const char* name) override { return start_(name); }
  void end(std::uint64_t range) override { end_(range); }

 private:
  RangeStart start_;
  RangeEnd end_;
};

}  // namespace

Result<std::shared_ptr<Ranges>> open_nvtx(const std::filesystem::path& library) {
  // It stays open: Nsight's half of it does not bear being unloaded.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return fail(ErrorCode::not_found,
                fmt::format("NVTX's library cannot be opened: {}", why != nullptr ? why : library.string()),
                "it comes with CUDA toolkits up to 12 (cuda-nvtx); name its file where it lies elsewhere");
  }
  const auto start = reinterpret_cast<RangeStart>(::dlsym(handle, "nvtxRangeStartA"));
  const auto end = reinterpret_cast<RangeEnd>(::dlsym(handle, "nvtxRangeEnd"));
  if (start == nullptr || end == nullptr)
    return fail(ErrorCode::unavailable,
                fmt::format("{} has no nvtxRangeStartA: it is not NVTX's library", library.string()));
  return std::make_shared<Nvtx>(start, end);
}

}  // namespace gpuwarden::profile
