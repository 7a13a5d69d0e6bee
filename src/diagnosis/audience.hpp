// SPDX-License-Identifier: Apache-2.0
// Whose log it is: for which system, which GPUs and which program its reader can use advice. Causes are written for
// NVIDIA's GPUs on Linux and for PyTorch; here they are said as that reader needs them.
#pragma once

#include <initializer_list>
#include <set>
#include <string>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::diagnosis {

struct Audience {
  knowledge::Platform platform = knowledge::Platform::linux_own;
  bool amd = false;            ///< the GPUs are AMD's
  bool without_torch = false;  ///< JAX, TensorFlow or llama.cpp, with no PyTorch in it
  std::set<std::string> tags;
};

/// By the log's own words, and by what is known of the machines (nullptr: nothing).
Audience audience_of(const Reading& reading, std::initializer_list<const facts::Snapshot*> machines);
/// Says steps, tests and page of a cause as the audience needs them; of AMD's GPUs it gets the fact `backend`.
void suit(Cause& cause, const Audience& audience);

}  // namespace gpuwarden::diagnosis
