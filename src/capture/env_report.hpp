// SPDX-License-Identifier: Apache-2.0
// Reports of the software around the GPUs: PyTorch's collect_env (and vLLM's), sglang's check_env, DeepSpeed's
// ds_report, transformers' and accelerate's env, JAX's. All of them are labelled lines; one table knows the labels.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

enum class EnvTool { collect_env, sglang, deepspeed, transformers, jax, program };

/// What was printed, by slot ("torch", "cuda_build", "driver", ...), with "Could not collect" and the like as they are.
struct EnvReport {
  EnvTool tool = EnvTool::collect_env;
  std::uint32_t line = 0;  ///< of its first label
  std::map<std::string, std::string, std::less<>> cells;
  std::vector<std::string> gpus;  ///< as printed: "GPU 0: NVIDIA H200", "MIG 1g.18gb     Device  0:"
  std::vector<std::pair<std::string, std::string>> capabilities;  ///< of "0,1": "8.6"
  std::map<std::uint32_t, Bytes> memories;                        ///< of these indices, in all
  std::vector<std::string> torch_architectures;                   ///< "sm_90"
  struct Package {
    std::string name;
    std::string version;
    std::string manager;
  };
  std::vector<Package> packages;
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<facts::ReportedMessage> messages;

  /// The cell; empty where it was not printed.
  std::string_view cell(std::string_view slot) const;
};

/// Takes the labelled lines out of `lines` (their texts become empty) where enough of them stand there to be a report.
std::optional<EnvReport> take_env_report(std::vector<Line>& lines);

/// Words that stand for "not known" in such reports.
bool is_unknown_word(std::string_view value);

facts::Snapshot snapshot_of_env_report(const EnvReport& report);

}  // namespace gpuwarden::capture
