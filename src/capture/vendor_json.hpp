// SPDX-License-Identifier: Apache-2.0
// GPUs of other vendors, from their tools' JSON: rocm-smi, amd-smi, xpu-smi. What they tell is kept, nothing is
// guessed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

enum class VendorTool { rocm_smi, amd_smi, xpu_smi };

/// Which tool printed this document, by its keys.
std::optional<VendorTool> vendor_tool_of(const nlohmann::json& json);
facts::Snapshot snapshot_of_vendor_json(VendorTool tool, const nlohmann::json& json);

/// A shell prompt with the command in front of the output, and JSON behind it: "amd-smi metric -p --json".
struct ToolCommand {
  VendorTool tool;
  std::string_view command;  ///< as printed, "$ " included
  std::string_view output;
};
std::optional<ToolCommand> tool_command_of(std::string_view text);
/// The first whole JSON document of a text; nothing where there is none.
std::optional<nlohmann::json> first_json(std::string_view text);

}  // namespace gpuwarden::capture
