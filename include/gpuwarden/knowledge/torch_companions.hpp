// SPDX-License-Identifier: Apache-2.0
// Packages that are made for one PyTorch: which release of them goes with which of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

/// A release of a package that is made for one PyTorch.
struct TorchCompanion {
  std::string_view package;  ///< its name on PyPI
  std::string_view version;  ///< "0.20": 0.20.1, too; "0.0.28.post3"
  std::string_view torch;    ///< "2.5": any release of 2.5; "2.5.1": that one alone
  bool or_newer = false;     ///< a later PyTorch will do
  std::string_view source;
};

std::span<const TorchCompanion> torch_companions();
/// The row of an installed version ("0.20.1+cu124"); nullptr: not known.
const TorchCompanion* torch_companion(std::string_view package, std::string_view version);
/// Whether a package of this name is made for one PyTorch.
bool is_torch_companion(std::string_view package);
bool goes_with(const TorchCompanion& companion, const Version& torch);
/// What goes with a PyTorch: of each package its newest release that does.
std::vector<const TorchCompanion*> companions_of(const Version& torch);

/// For what a wheel was built, as its version says behind the '+'.
struct BuiltFor {
  std::optional<Version> torch;  ///< 2.6 of "2.7.4.post1+cu12torch2.6cxx11abiFALSE" and of "2.1.2+pt26cu124"
  std::string cuda;              ///< "cu124", "cu12"; empty: not said
};
BuiltFor built_for(std::string_view version);
/// Whether both names mean the same CUDA, as far as they go: "cu12" is "cu124", too.
bool is_same_cuda(std::string_view build, std::string_view other);

}  // namespace gpuwarden::knowledge
