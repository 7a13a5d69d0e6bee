// SPDX-License-Identifier: Apache-2.0
// config.json of models, read with the family that it names, then with the one that its first byte chooses; names and
// sizes of models.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace {

using namespace gpuwarden::planning;

void check(bool holds) {
  if (!holds) std::abort();
}

/// Whatever is accepted is a model that can be counted.
void check(const ModelShape& model) {
  const ParameterCount count = count_parameters(model);
  check(count.total > 0 && count.active <= count.total);
  check(count.total < std::uint64_t{1} << 53U);
  check(count.embedding + count.head + count.attention + count.mlp + count.experts + count.norms + count.towers ==
        count.total);
  check(model.heads % model.kv_heads == 0);
  check(model.sliding_layers <= model.layers);
  check(lora_parameters(model, 8, {"all-linear"}).has_value());
  const Settings packed{.task = Task::serving, .quantization = Quantization::q4_k_m};
  const double file = file_weights(model, packed).file();
  check(file > 0 && file < 4.5 * static_cast<double>(count.total) + 1e6);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto model = read_config(text, "config.json")) check(*model);
  // Short ones are what people write on the command line.
  if (size < 64) {
    if (const auto model = find_model(text)) check(*model);
    if (const auto parameters = parse_parameters(text)) check(shape_of_size(*parameters).has_value());
  }
  static const auto kFamilies = known_families();
  if (size < 2) return 0;
  if (const auto model = read_config(text.substr(1), "config.json", kFamilies[data[0] % kFamilies.size()]))
    check(*model);
  return 0;
}
