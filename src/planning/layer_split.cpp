// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/layer_split.hpp"

#include <algorithm>
#include <numeric>

#include "equations.hpp"
#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {
namespace {

/// Of each GPU, what all up to it have together, 0 to 1.
std::vector<double> split_points(const LayerSplit& split, std::size_t gpus) {
  std::vector<double> points(gpus, 1);
  for (std::size_t i = 0; i < gpus && !split.shares.empty(); ++i) {
    points[i] = i < split.shares.size() ? split.shares[i] : 0;
  }
  std::partial_sum(points.begin(), points.end(), points.begin());
  const double sum = points.back();
  for (double& point : points) point = sum > 0 ? point / sum : 1;
  return points;
}

/// The GPU on which a place from 0 to 1 along the layers is.
std::size_t gpu_at(const std::vector<double>& points, double place) {
  const auto gpu = static_cast<std::size_t>(std::ranges::upper_bound(points, place) - points.begin());
  return std::min(gpu, points.size() - 1);
}

void add_output(double bytes, LayerLoad& load) {
  load.output = true;
  load.weights += bytes;
}

void add_layer(const FileWeights& file, std::uint32_t layer, LayerLoad& load) {
  ++load.layers;
  load.cache_share += 1.0 / static_cast<double>(file.layers.size());
  load.weights += file.layers[layer];
}

/// The experts of a layer go to the host.
void move_experts(const FileWeights& file, std::uint32_t layer, LayerLoad& from, LayerLoad& host) {
  from.weights -= file.experts[layer];
  host.weights += file.experts[layer];
}

/// The rows of a layer's dense matrices go to every GPU by its share; the rest stays where the layer is.
void spread_rows(double dense, const std::vector<double>& points, LayerLoad& from, std::vector<LayerLoad>& gpus) {
  from.weights -= dense;
  double before = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].weights += dense * (points[i] - before);
    before = points[i];
  }
}

/// Of all layers together, for as many tokens as the settings ask for.
double whole_cache(const ModelFigures& model, Settings settings) {
  settings.split.reset();
  settings.parallel = {};
  const double tokens = 1.0 * settings.sequence * settings.micro_batch * sliding_share(model.shape, settings.sequence);
  return kv_bytes_per_token(model, settings) * tokens + linear_state_bytes(model.shape) * settings.micro_batch;
}

}  // namespace

LayerLoads layer_loads(const ModelFigures& model, const Settings& settings) {
  const LayerSplit split = settings.split.value_or(LayerSplit{});
  const FileWeights file = file_weights(model.shape, settings);
  const auto layers = static_cast<std::uint32_t>(file.layers.size());
  const std::uint32_t slots = layers + 1;  // the output is one
  const std::uint32_t offloaded = std::min(slots, split.gpu_layers.value_or(slots));
  const std::uint32_t first = slots - offloaded;
  LayerLoads loads;
  loads.gpus.resize(settings.parallel.layer_stages);
  loads.host.weights = file.embedding;
  const std::vector<double> points = split_points(split, loads.gpus.size());
  for (std::uint32_t layer = 0; layer < std::min(first, layers); ++layer) add_layer(file, layer, loads.host);
  for (std::uint32_t slot = first; slot < slots; ++slot) {
    LayerLoad& load = loads.gpus[gpu_at(points, (slot - 1.0 * first) / offloaded)];
    if (slot == layers) {
      add_output(file.output, load);
      continue;
    }
    add_layer(file, slot, load);
    if (slot < split.host_experts) move_experts(file, slot, load, loads.host);
    if (split.mode == LayerSplit::Mode::row) spread_rows(file.dense[slot], points, load, loads.gpus);
  }
  // The host has a tied model's embedding already.
  if (offloaded == 0) add_output(file.output - file.copied, loads.host);
  // The first GPU computes what images and sound become.
  (offloaded > 0 ? loads.gpus.front() : loads.host).weights += file.towers;
  const double cache = whole_cache(model, settings);
  for (LayerLoad& load : loads.gpus) load.cache = cache * load.cache_share;
  loads.host.cache = cache * loads.host.cache_share;
  return loads;
}

LayerLoad heaviest_load(const ModelFigures& model, const Settings& settings) {
  const LayerLoads loads = layer_loads(model, settings);
  return *std::ranges::max_element(loads.gpus, {}, [](const LayerLoad& load) { return load.weights + load.cache; });
}

bool is_pipelined(const Settings& settings) {
  const LayerSplit split = settings.split.value_or(LayerSplit{});
  return settings.parallel.layer_stages > 1 && split.mode == LayerSplit::Mode::layer && !split.gpu_layers &&
         split.host_experts == 0;
}

double compute_buffer(const ModelShape& model, const Settings& settings) {
  constexpr double kBytes = 4;
  constexpr double kHalf = 0.5;  // of these: flash attention's mask is in 16 bit
  const double tokens = settings.split.value_or(LayerSplit{}).tokens;
  const ExpertShape& experts = model.experts;
  const bool flash = settings.attention == Attention::flash;
  const double mlp = std::max<double>(model.intermediate, 1.0 * experts.intermediate * experts.experts_per_token);
  const double mask = 1.0 * settings.sequence * settings.micro_batch * (flash ? kHalf : 1);
  const double products = flash ? 0 : mask * model.heads;
  const double layer_inputs = 4.0 * model.hidden;
  const double width = std::max<double>(1.0 * model.vocab + model.hidden, 2 * mlp + 2.0 * model.hidden);
  if (!is_pipelined(settings)) return kBytes * tokens * std::max(width, products + mask + layer_inputs);
  constexpr double kCopies = 4;
  return kBytes * tokens * (std::max(width, products + layer_inputs) + kCopies * (mask + model.hidden));
}

}  // namespace gpuwarden::planning
