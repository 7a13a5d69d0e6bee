// SPDX-License-Identifier: Apache-2.0
// Heads of GGUF files, whole and as if their files were longer.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/gguf_file.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace {

using namespace gpuwarden::planning;

void check(bool holds) {
  if (!holds) std::abort();
}

void read(const std::string& bytes, std::uint64_t file_bytes) {
  std::istringstream stream(bytes);
  const auto header = read_gguf(stream, file_bytes, "fuzz.gguf");
  if (!header) return;
  check(header->tensors.size() <= bytes.size());
  const auto model = model_of(*header, "fuzz.gguf");
  if (!model) return;
  check(model->layers > 0 && model->hidden > 0 && model->heads > 0 && model->kv_heads > 0);
  check(model->sliding_layers <= model->layers);
  check(kv_layers(*model) <= model->layers);
  check(linear_state_bytes(*model) >= 0);
  check(model->file->file() <= static_cast<double>(file_bytes) * static_cast<double>(header->tensors.size() + 1));
  (void)count_parameters(*model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes, size);
  read(bytes, size + (std::uint64_t{1} << 30U));
  return 0;
}
