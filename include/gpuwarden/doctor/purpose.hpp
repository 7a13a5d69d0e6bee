// SPDX-License-Identifier: Apache-2.0
// What the machine is to be good for: doctor --for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/workload.hpp"

namespace gpuwarden::doctor {

/// At most one of the parts is set; none: the machine as it is.
struct Purpose {
  std::string text;  ///< as the user wrote it

  /// A package, by its name on PyPI: "torch", "vllm", "tensorflow", "jax".
  struct Package {
    std::string name;
    std::optional<std::string> version;  ///< "2.5.1"
    std::optional<std::string> build;    ///< "cu124"
    bool operator==(const Package&) const = default;
  };
  std::optional<Package> package;
  /// An architecture that shall be built for: 90 of "sm_90".
  std::optional<int> architecture;
  /// A model that shall be trained or served, as `plan` would have it: the catalogue's, else one of the size in its
  /// name, whose shape is guessed.
  std::optional<planning::Workload> work;

  bool operator==(const Purpose&) const = default;
};

/// Reads "pytorch==2.5.1+cu124", "vllm", "sm_90", "train llama-3-8b", "serve 70B". Fails with invalid_argument.
Result<Purpose> parse_purpose(std::string_view text);
/// Whether the text begins with what is done with a model: "train", "lora", "serve".
bool begins_with_task(std::string_view text);

/// What was probably meant by a word that names no package as they are named here: "torch" of "torhc", "torch==2.4" of
/// "torch>=2.4", "jax" of "jax[cuda13]"; empty: none is near.
std::string nearest_package(std::string_view word);

}  // namespace gpuwarden::doctor
