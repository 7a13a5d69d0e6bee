// SPDX-License-Identifier: Apache-2.0
// Lines that several answers about compatibility share, and the answers about frameworks.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/compat/answer.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// "driver         550.54.15 ...", broken at the terminal's width; nothing where the text is empty.
std::string labelled_line(std::string_view label, std::string_view text, const Style& style);
/// The same for a command, which is never broken.
std::string command_line(std::string_view label, std::string_view command);
std::string heading(std::string_view text, const Style& style);
/// "12.8 or newer", "8.0 to 12.9".
std::string range_text(const knowledge::Version& first, const knowledge::Version& last);

/// What puts an answer into words.
struct CompatWording {
  const compat::Asked& asked;
  const Style& style;

  std::string line(std::string_view label, std::string_view text) const { return labelled_line(label, text, style); }
  std::string bold(std::string_view text) const { return style.paint(text, Tone::bold); }
  /// "newer than this knowledge base, which ends with 13.1 (as of 2026-11)".
  std::string newer(std::string_view newest) const;
  /// "550 (production branch; supported until 2025-06)".
  std::string branch(int number) const;
  /// The PyTorch releases that run, newest first.
  std::string torch(const std::vector<compat::Wheel>& wheels) const;
  std::string recommended(const compat::Recommendation& what) const;
};

std::string text_of(const CompatWording& to, const compat::TorchAnswer& answer);
std::string text_of(const CompatWording& to, const compat::VllmAnswer& answer);
std::string text_of(const CompatWording& to, const compat::ComponentAnswer& answer);

}  // namespace gpuwarden::cli
