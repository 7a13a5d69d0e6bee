// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/terms.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace gpuwarden::diagnosis {

std::span<const Term> memory_terms() {
  // source: PyTorch notes/cuda (memory management), c10/cuda/CUDACachingAllocator.cpp
  static constexpr auto kTerms = std::to_array<Term>({
      {"allocated", "held by tensors of this process that are alive"},
      {"reserved", "taken from the driver by the framework's cache: what is allocated, and free pieces of it"},
      {"reserved but unallocated",
       "free pieces in that cache; much of it beside a failed request means that no piece is large enough "
       "(fragmentation)"},
      {"non-PyTorch",
       "held by the same process outside that cache: the CUDA context, kernels, NCCL, cuBLAS workspaces"},
      {"in use by this process", "reserved and non-PyTorch memory together"},
      {"free", "what the driver still has for anybody; total less free less this process is held by others"},
      {"tried to allocate", "the one request that failed, rounded up to the cache's pieces; not what the model needs"},
      {"total capacity", "the memory of the GPU that programs can have, a little less than on its box"},
  });
  return kTerms;
}

bool speaks_of_memory(const Cause& cause) {
  return cause.id.starts_with("oom_") &&
         (cause.facts.contains("allocated_bytes") || cause.facts.contains("reserved_bytes") ||
          cause.facts.contains("reserved_unallocated_bytes"));
}

nlohmann::json memory_terms_json() {
  auto list = nlohmann::json::array();
  for (const Term& term : memory_terms()) list.push_back({{"term", term.name}, {"meaning", term.meaning}});
  return list;
}

}  // namespace gpuwarden::diagnosis
