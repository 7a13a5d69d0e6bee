// SPDX-License-Identifier: Apache-2.0
// What nvidia-smi -q prints, as a tree: from XML (-x) and from text alike, with the XML's way of naming.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::capture {

struct Node {
  std::string name;  ///< "fb_memory_usage"; a text's "FB Memory Usage" is named so too
  std::string text;  ///< as printed
  std::vector<Node> children;

  /// The first descendant on a path of child names, or an empty node.
  const Node& at(std::string_view path) const;
  /// The first of several paths that exists: names changed between drivers, and differ between XML and text.
  const Node& first(std::initializer_list<std::string_view> paths) const;
  /// The first of several paths whose text is no gap.
  const Node& telling(std::initializer_list<std::string_view> paths) const;
  explicit operator bool() const { return !name.empty(); }
};

/// An XML log, whole or cut anywhere: elements that were not closed lose their text.
Result<Node> tree_of_xml(std::string_view xml);
/// The lines from "NVSMI LOG" on. GPUs are children named "gpu" with the bus id as text.
Node tree_of_text(std::span<const Line> lines);

}  // namespace gpuwarden::capture
