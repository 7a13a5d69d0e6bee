// SPDX-License-Identifier: Apache-2.0
// Published measurements, row by row, as settings that the planner takes. The words of the columns are other people's;
// what is not understood is left at what that framework does by default.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "planner/table.hpp"

namespace gpuwarden::bench {

/// What a measurement counted.
enum class Metric {
  allocated,  ///< torch's peak of what is allocated
  reserved,   ///< torch's peak of what the allocator held
  unstated,   ///< the source does not say; read as the whole process
  whole_gpu,  ///< nvidia-smi's used memory
  weights,    ///< a serving engine's log line
};
std::string_view to_string(Metric metric);

/// A row that was understood.
struct Case {
  std::string id;
  std::string model;
  std::string source;  ///< short: "fms-acceleration", "litgpt" ...
  planning::ModelFigures figures;
  planning::Settings settings;
  Metric metric = Metric::allocated;
  double gpu_bytes = 0;  ///< of one GPU; 0: unknown
  double measured = 0;   ///< bytes
  bool complete = false;
  bool out_of_memory = false;  ///< the run did not fit its GPU; nothing was measured
};

/// Fails where the model or the measurement cannot be told.
Result<Case> read_case(const Row& row);
/// What the planner says of it, in the same terms as the measurement, bytes.
Result<double> predict(const Case& c);
/// That, no more than the card can show: its memory, or 97% of it as reserved.
double bounded(const Case& c, double predicted);

}  // namespace gpuwarden::bench
