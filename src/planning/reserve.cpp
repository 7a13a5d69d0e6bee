// SPDX-License-Identifier: Apache-2.0
// What the caching allocator holds beyond what is allocated.
#include <algorithm>
#include <array>

#include "equations.hpp"

namespace gpuwarden::planning {

namespace {

/// Of a moment, what comes and goes within it.
double passing(const Moment& moment) {
  return moment.at(Use::checkpoints) + moment.at(Use::working_set) + moment.at(Use::logits);
}

/// Batches of varied lengths leave blocks of many sizes behind, most of all the logits'. 55 bytes a logit, less for
/// long limits that few samples reach; chosen on ms-swift's published runs (Qwen 1.8B to 72B: the same figure).
double fragments(const ModelFigures& model, const Settings& settings) {
  const Widths w = widths_of(model, settings);
  double bytes = figures().varied_bytes_per_logit * w.vocab / (1 + settings.sequence / figures().varied_length);
  bytes += working_maps(w, settings);
  if (settings.recompute == Recompute::none) {
    bytes += (saved_by_layer(model.shape, w, settings) + kept_maps(w, settings)) * w.layers;
  }
  return bytes * w.tokens;
}

/// What loading a quantised checkpoint leaves behind: nf4 is made on the GPU out of 16-bit weights, and the remaining
/// weights become fp32; int4 and int8 kernels keep buffers. Chosen on ms-swift's published runs.
double loading_leftovers(const ModelFigures& model, const Settings& settings) {
  const LocalParameters local = local_parameters(model, settings);
  switch (settings.quantization) {
    case Quantization::nf4:
    case Quantization::nf4_double:
      return figures().loading_nf4_share * local.linear + 2 * (local.total - local.linear);
    case Quantization::int4:
    case Quantization::int8: {
      const double weights = frozen_matrices(local, frozen_format(model.shape, settings.quantization), 2) +
                             2 * (local.total - local.linear);
      return figures().loading_int_share * weights + figures().loading_int_bytes;
    }
    default:
      return 0;
  }
}

double varied_reserve(const ModelFigures& model, const Settings& settings, const Estimate& estimate) {
  const double passing_then = fragments(model, settings);
  double held = 0;
  for (std::size_t i = 0; i < estimate.moment_count; ++i) {
    const Moment& moment = estimate.moments[i];
    const double resident = moment.total() - passing(moment);
    const bool step = moment.kind == MomentKind::optimizer_step;
    held = std::max(held, resident + passing_then * (step ? 0.1 : 1));
  }
  return std::max(0.0, held + loading_leftovers(model, settings) - estimate.allocated);
}

}  // namespace

double allocator_reserve(const ModelFigures& model, const Settings& settings, const Estimate& estimate) {
  if (!settings.trains()) {
    // A prompt's layer at work: gone before the peak, kept by the allocator.
    const Widths w = widths_of(model, settings);
    const double layer = 6 * std::max(w.mlp, w.expert * w.experts_per_token) + 8 * w.hidden;
    return layer * settings.prompt * settings.micro_batch;
  }
  if (settings.varied_lengths) return varied_reserve(model, settings, estimate);
  // A tenth of what comes and goes separates runs that ended from runs that did not (fms-acceleration, A100 80 GB).
  // FSDP1 and ZeRO-3 gather on a stream of their own, whose blocks wait before they can be used again.
  const Sharding sharding = settings.parallel.sharding;
  const bool streams = shards_of(settings).weights > 1 && sharding != Sharding::fsdp2;
  return (streams ? figures().reserve_share_streams : figures().reserve_share) * passing(estimate.peak_moment());
}

}  // namespace gpuwarden::planning
