// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

namespace gpuwarden::planning {

namespace {

/// The tests hold that every name here has a row.
knowledge::PlanningFigure ends_of(std::string_view name) {
  const knowledge::PlanningFigure* figure = knowledge::find_planning_figure(name);
  return figure == nullptr ? knowledge::PlanningFigure{} : *figure;
}

double value_of(std::string_view name) { return ends_of(name).value; }

}  // namespace

const Figures& figures() {
  static const Figures kFigures{
      .cuda_context = value_of("cuda_context"),
      .nccl_buffers = value_of("nccl_buffers"),
      .workspaces = value_of("workspaces"),
      .zero_bucket_elements = value_of("zero_bucket_elements"),
      .reserve_share = value_of("reserve_share"),
      .reserve_share_streams = value_of("reserve_share_streams"),
      .varied_bytes_per_logit = value_of("varied_bytes_per_logit"),
      .varied_length = value_of("varied_length"),
      .loading_nf4_share = value_of("loading_nf4_share"),
      .loading_int_share = value_of("loading_int_share"),
      .loading_int_bytes = value_of("loading_int_bytes"),
      .stage_imbalance = value_of("stage_imbalance"),
      .cache_growth = value_of("cache_growth"),
      .cache_growth_8bit = value_of("cache_growth_8bit"),
      .eager_kept = value_of("eager_kept"),
      .eager_working = value_of("eager_working"),
      .uncertainty_training = ends_of("uncertainty_training"),
      .uncertainty_varied = ends_of("uncertainty_varied"),
      .uncertainty_inference = ends_of("uncertainty_inference"),
      .uncertainty_packed = ends_of("uncertainty_packed"),
      .uncertainty_parallel = ends_of("uncertainty_parallel"),
      .uncertainty_offload = ends_of("uncertainty_offload"),
      .uncertainty_compiled = ends_of("uncertainty_compiled"),
      .uncertainty_shape = ends_of("uncertainty_shape"),
      .cost_utilization = value_of("cost_utilization"),
      .cost_selective = value_of("cost_selective"),
      .cost_half_tokens = value_of("cost_half_tokens"),
      .cost_narrower = value_of("cost_narrower"),
      .cost_overlap = value_of("cost_overlap"),
      .cost_overlap_low = ends_of("cost_overlap").low,
      .cost_overlap_high = ends_of("cost_overlap").high,
      .cost_order = value_of("cost_order"),
      .link_nvlink_share = value_of("link_nvlink_share"),
      .link_pcie_bytes = value_of("link_pcie_bytes"),
      .link_network_bytes = value_of("link_network_bytes"),
      .host_adam = ends_of("host_adam"),
      .host_adam_torch = ends_of("host_adam_torch"),
      .serving_mxfp4 = ends_of("serving_mxfp4"),
      .serving_outside_least = ends_of("serving_outside").low,
      .serving_outside_most = ends_of("serving_outside").high,
      .serving_outside_ranks_most = ends_of("serving_outside_ranks").high,
      .usable_share = value_of("usable_share"),
      .usable_share_ecc = value_of("usable_share_ecc"),
  };
  return kFigures;
}

}  // namespace gpuwarden::planning
