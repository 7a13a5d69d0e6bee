// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/entry_points.hpp"

#include <vector>

#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda {

// What is not simulated answers so, whatever its arguments: the C calling convention lets a callee ignore them.
#define GPUWARDEN_CUDA_UNSUPPORTED(symbol, since) \
  extern "C" [[gnu::visibility("default")]] Result symbol() { return kNotSupported; }
#include "nvidia/cuda_unsupported.inc"
#undef GPUWARDEN_CUDA_UNSUPPORTED

namespace {

/// While it lives, this thread's null stream is its own default stream.
class PerThread {
 public:
  PerThread() : before_(server::per_thread_default()) { server::per_thread_default() = true; }
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;
  ~PerThread() { server::per_thread_default() = before_; }

 private:
  bool before_;
};

}  // namespace

#define GPUWARDEN_CUDA_PER_THREAD(symbol, suffix, since, parameters, arguments)   \
  extern "C" [[gnu::visibility("default")]] Result symbol##_##suffix parameters { \
    const PerThread scope;                                                        \
    return symbol arguments;                                                      \
  }
#include "nvidia/cuda_per_thread.inc"
#undef GPUWARDEN_CUDA_PER_THREAD

namespace server {
namespace {

/// "cuMemcpyHtoD" of "cuMemcpyHtoD_v2".
std::string_view without_version(std::string_view symbol) {
  const std::size_t at = symbol.rfind("_v");
  const bool versioned = at != std::string_view::npos && at + 3 == symbol.size() && symbol[at + 2] >= '2';
  return versioned ? symbol.substr(0, at) : symbol;
}

EntryPoint entry(std::string_view symbol, int since, void* address) {
  std::string_view rest = symbol;
  std::string_view suffix;
  for (const std::string_view one : {"_ptsz", "_ptds"}) {
    if (!rest.ends_with(one)) continue;
    suffix = one.substr(1);
    rest.remove_suffix(one.size());
  }
  return {symbol, without_version(rest), suffix, since, address};
}

std::vector<EntryPoint> make_entry_points() {
  return {
#define GPUWARDEN_CUDA_FUNCTION(symbol, since, parameters) \
  entry(#symbol, since, reinterpret_cast<void*>(&cuda::symbol)),
#include "nvidia/cuda_functions.inc"
#undef GPUWARDEN_CUDA_FUNCTION
#define GPUWARDEN_CUDA_PER_THREAD(symbol, suffix, since, parameters, arguments) \
  entry(#symbol "_" #suffix, since, reinterpret_cast<void*>(&cuda::symbol##_##suffix)),
#include "nvidia/cuda_per_thread.inc"
#undef GPUWARDEN_CUDA_PER_THREAD
#define GPUWARDEN_CUDA_UNSUPPORTED(symbol, since) entry(#symbol, since, reinterpret_cast<void*>(&cuda::symbol)),
#include "nvidia/cuda_unsupported.inc"
#undef GPUWARDEN_CUDA_UNSUPPORTED
  };
}

}  // namespace

std::span<const EntryPoint> entry_points() {
  static const auto* const entries = new std::vector<EntryPoint>(make_entry_points());
  return *entries;
}

}  // namespace server
}  // namespace gpuwarden::cuda
