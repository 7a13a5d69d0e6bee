// SPDX-License-Identifier: Apache-2.0
// gpuwarden compat: the questions, each answered as text and JSON at once. The judging is knowledge's; here it is put
// into words.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli::compat {

struct PlaceGpu {
  std::string name;
  std::optional<int> architecture;
  const knowledge::GpuModel* model = nullptr;
  int count = 1;
  std::vector<const knowledge::GpuModel*> meant = {};  ///< of --gpu "A100": every model with these words
};

/// Where it shall run: this machine, a captured or simulated one, or what --gpu and --driver name.
struct Place {
  std::vector<PlaceGpu> gpus;
  std::optional<knowledge::Version> driver;
  std::string origin;  ///< "this machine", "box.txt", "--gpu, --driver"
  bool simulated = false;
  bool captured = false;
  bool named = false;            ///< the GPUs are those of --gpu
  std::optional<Error> problem;  ///< why the machine told nothing

  /// Without doubles; GPUs that are not known are left out.
  std::vector<int> architectures() const;
  bool is_empty() const { return gpus.empty() && !driver; }
};

/// What every answer looks at.
struct Asked {
  const knowledge::Knowledge& knowledge;
  const Place& place;
  std::chrono::system_clock::time_point when;
  Style style;
};

struct Answer {
  nlohmann::json json = nlohmann::json::object();
  std::string text;
  std::vector<std::string> sources;  ///< for --why
  int exit_code = kFine;
};

/// What --gpu and --driver name, over what --from or --simulate tell; where nothing is given, this machine (if
/// `machine_counts`).
Result<Place> read_place(Context& context, const knowledge::Knowledge& knowledge, bool machine_counts);

Answer answer_machine(const Asked& asked);
Answer answer_cuda(const Asked& asked, const knowledge::Version& cuda);
Result<Answer> answer_package(const Asked& asked, const doctor::Purpose::Package& package);
/// Libraries whose rows are prose: cuDNN, NCCL, TensorFlow ...; not_found where no row speaks of it.
Result<Answer> answer_component(const Asked& asked, const std::string& name, const std::string& version);
Result<Answer> answer_gpu(const Asked& asked, const std::string& words);
Answer answer_architecture(const Asked& asked, int architecture);
Answer answer_xid(const Asked& asked, int code);
Answer answer_job(const Asked& asked, const knowledge::Job& job);
/// `work`: the CUDA version of the work; empty: of the newest PyTorch that runs on the GPU.
Answer answer_matrix(const Asked& asked, std::optional<knowledge::Version> work, const std::string& workload);

// Words that several answers share.
/// "driver      550.54.15 ...", broken at the terminal's width.
std::string line(const Asked& asked, std::string_view label, std::string_view text);
/// The same for a command, which is never broken.
std::string command_line(std::string_view label, std::string_view command);
std::string heading(const Asked& asked, std::string_view text);
std::string capability_text(int architecture);
std::string wheel_name(const knowledge::TorchBuild& build);
std::string_view words_for(knowledge::WheelFit fit);
/// "natively" ...; forward compatibility counts as not at all where every GPU of the place is a consumer's (source:
/// CUDA compatibility guide: data-centre GPUs only).
knowledge::RunsOn runs_here(const Asked& asked, const knowledge::Version& cuda);
std::string_view words_for(knowledge::RunsOn how);
/// "550 (production branch; over since 2025-06)".
std::string branch_text(const Asked& asked, int branch);
/// Why the place's driver cannot drive the GPU at all; empty: it can, or it is not known.
std::string obstacle_of(const Asked& asked, const PlaceGpu& gpu);
/// The driver can drive none of the place's GPUs.
bool is_useless(const Asked& asked);
/// The worst fit of a wheel over the place's GPUs.
knowledge::WheelFit fit_here(const Asked& asked, const knowledge::TorchBuild& build);
nlohmann::json version_json(const knowledge::Version& version);
nlohmann::json wheel_json(const Asked& asked, const knowledge::TorchBuild& build);
/// "7.5 8.0 9.0 12.0+PTX".
std::string architectures_text(std::string_view architectures);
/// The PyTorch wheels that run on the place, newest releases first.
void add_torch(const Asked& asked, Answer& answer);
/// The PyTorch and vLLM to take there, with pip's commands; the driver first, where it has to be another one.
void add_recommendation(const Asked& asked, Answer& answer);

}  // namespace gpuwarden::cli::compat
