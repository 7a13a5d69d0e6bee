// SPDX-License-Identifier: Apache-2.0
// Names of llama.cpp's files, of repositories of them, and of ollama's tags.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {

struct GgufName {
  std::string model;             ///< without what speaks of files and widths
  const FileMix* mix = nullptr;  ///< null: not said, or 16 bit and more
  bool whole = false;            ///< F16, BF16 or F32
  std::string dynamic;           ///< "UD-Q4_K_XL": `mix` is the nearest
  bool tag = false;              ///< ollama's
  bool trained = false;          ///< "qat": trained for Q4_0
};

/// "bartowski/Qwen2.5-32B-Instruct-GGUF:Q4_K_M", "/models/llama-2-7b.Q4_K_M.gguf", "X-00001-of-00003.gguf",
/// "hf.co/owner/X-GGUF:Q8_0", "llama3.1:70b-instruct-q4_K_M"; empty where the name is of another kind.
std::optional<GgufName> read_gguf_name(std::string_view name);

/// "google/gemma-3-4b-it" of "bartowski/google_gemma-3-4b-it", as some name their repositories; else the name itself.
std::string without_second_publisher(std::string_view name);

}  // namespace gpuwarden::planning
