// SPDX-License-Identifier: Apache-2.0
// The knowledge base's figures by name, looked up once.
#pragma once

#include "gpuwarden/knowledge/planning_figures.hpp"

namespace gpuwarden::planning {

struct Figures {
  double cuda_context;
  double nccl_buffers;
  double workspaces;
  double zero_bucket_elements;
  double reserve_share;
  double reserve_share_streams;
  double varied_bytes_per_logit;
  double varied_length;
  double loading_nf4_share;
  double loading_int_share;
  double loading_int_bytes;
  double stage_imbalance;
  double cache_growth;
  double cache_growth_8bit;
  double eager_kept;
  double eager_working;
  knowledge::PlanningFigure uncertainty_training;
  knowledge::PlanningFigure uncertainty_varied;
  knowledge::PlanningFigure uncertainty_inference;
  knowledge::PlanningFigure uncertainty_packed;
  knowledge::PlanningFigure uncertainty_parallel;
  knowledge::PlanningFigure uncertainty_offload;
  knowledge::PlanningFigure uncertainty_compiled;
  knowledge::PlanningFigure uncertainty_shape;
  double cost_utilization;
  double cost_selective;
  double cost_half_tokens;
  double cost_narrower;
  double cost_overlap;
  double cost_overlap_low;
  double cost_overlap_high;
  double cost_order;
  double link_nvlink_share;
  double link_pcie_bytes;
  double link_network_bytes;
  knowledge::PlanningFigure host_adam;
  knowledge::PlanningFigure host_adam_torch;
  knowledge::PlanningFigure serving_mxfp4;
  double serving_outside_least;
  double serving_outside_most;
  double serving_outside_ranks_most;
  double usable_share;
  double usable_share_ecc;
};

const Figures& figures();

}  // namespace gpuwarden::planning
