// SPDX-License-Identifier: Apache-2.0
// Which of the installed CUDA toolkits is meant, which is in use and why, and which is right for an architecture.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/environment.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::toolkits {

/// The toolkits, newest first; of one version those with a compiler first.
std::vector<const facts::Toolkit*> newest_first(std::span<const facts::Toolkit> toolkits);

/// The toolkit that a user names: "12.4" (the newest 12.4), "12", "12.4.131", "cuda-12.4", or its folder. Of several
/// that fit, the one in use, else the newest. Fails with invalid_argument where `wanted` is no version and no folder,
/// with not_found where there is none, naming those that are.
Result<const facts::Toolkit*> find_toolkit(std::span<const facts::Toolkit> toolkits, std::string_view wanted);

/// "11.8.89 (/usr/local/cuda-11.8), 12.4.131 (...)", for messages; "none".
std::string describe(std::span<const facts::Toolkit> toolkits);

/// Why a toolkit is in use: "PATH finds its nvcc", "CUDA_HOME names it", ...; empty for one that nothing leads to.
std::vector<std::string> reasons_in_use(const facts::Toolkit& toolkit);

/// "sm_50 to sm_90": what it compiles for, as its nvcc or the knowledge base tells; empty where that is not known.
std::string targets_of(const facts::Toolkit& toolkit, const knowledge::Knowledge& knowledge);

/// How its programs run on the driver: "as they are", "by minor-version compatibility: ...", ...; empty where the
/// driver or the toolkit's release is not known.
std::string on_driver(const facts::Toolkit& toolkit, std::optional<knowledge::Version> driver,
                      const knowledge::Knowledge& knowledge);

/// "sm_89", "compute_89", "8.9", "89", "sm_90a", or a GPU's name ("RTX 4090"): the architecture's number. Fails with
/// invalid_argument.
Result<int> parse_architecture(std::string_view text, const knowledge::Knowledge& knowledge);

/// The choice, with a sentence for it and one for every toolkit that was passed over.
struct ToolkitChoice {
  const facts::Toolkit* toolkit = nullptr;
  std::string why;
  std::vector<std::string> passed_over;
};

/// The newest toolkit with a compiler that can build for all these architectures and whose programs the driver runs:
/// first those that it runs with all features, then those that it runs by minor-version compatibility. A driver that is
/// not known rules none out. Fails with unsatisfied, saying for each toolkit why not.
Result<ToolkitChoice> choose_toolkit(std::span<const facts::Toolkit> toolkits, const std::vector<int>& architectures,
                                     std::optional<knowledge::Version> driver, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::toolkits
