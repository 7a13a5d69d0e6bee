// SPDX-License-Identifier: Apache-2.0
#include "capture/smi_tree.hpp"

#include <fmt/format.h>

#include <cctype>
#include <pugixml.hpp>

#include "capture/cells.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

const Node kNothing;
constexpr int kDeepest = 32;

Node node_of(const pugi::xml_node& xml, int depth) {
  Node node{xml.name(), std::string(trim(xml.text().get())), {}};
  if (node.name == "gpu" && node.text.empty()) node.text = xml.attribute("id").value();
  if (depth < kDeepest) {
    for (const pugi::xml_node& child : xml.children()) {
      if (child.type() == pugi::node_element) node.children.push_back(node_of(child, depth + 1));
    }
  }
  return node;
}

/// "GPU T.Limit Temp" becomes "gpu_t_limit_temp".
std::string snake(std::string_view key) {
  std::string name;
  for (const char c : key) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (name.ends_with('_')) name.pop_back();
  return name;
}

struct Entry {
  std::size_t indent = 0;
  Node node;
};

/// "    Key   : value" or "    Group".
Entry entry_of(std::string_view line) {
  Entry entry;
  entry.indent = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(entry.indent);
  const std::size_t colon = line.find(" : ");
  const bool empty_value = colon == std::string_view::npos && line.ends_with(" :");
  if (line.starts_with("GPU ") && colon == std::string_view::npos && bus_id_of(line.substr(4))) {
    entry.node = {"gpu", std::string(trim(line.substr(4))), {}};
  } else if (colon == std::string_view::npos) {
    entry.node.name = snake(empty_value ? line.substr(0, line.size() - 2) : line);
  } else {
    entry.node = {snake(line.substr(0, colon)), std::string(trim(line.substr(colon + 3))), {}};
  }
  return entry;
}

}  // namespace

const Node& Node::at(std::string_view path) const {
  const Node* node = this;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view step = path.substr(0, slash);
    const Node* next = nullptr;
    for (const Node& child : node->children) {
      if (child.name == step) {
        next = &child;
        break;
      }
    }
    if (next == nullptr) return kNothing;
    node = next;
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
  }
  return *node;
}

const Node& Node::first(std::initializer_list<std::string_view> paths) const {
  for (const std::string_view path : paths) {
    if (const Node& found = at(path)) return found;
  }
  return kNothing;
}

const Node& Node::telling(std::initializer_list<std::string_view> paths) const {
  for (const std::string_view path : paths) {
    const Node& found = at(path);
    if (found && !is_gap(found.text)) return found;
  }
  return kNothing;
}

Result<Node> tree_of_xml(std::string_view xml) {
  // A log that was cut ends after its last whole tag pair: what stands behind may be half a value.
  const std::size_t last = xml.rfind("</");
  const std::size_t end = last == std::string_view::npos ? std::string_view::npos : xml.find('>', last);
  const std::string_view text = end == std::string_view::npos ? xml.substr(0, last) : xml.substr(0, end + 1);
  pugi::xml_document document;
  const auto parsed = document.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_fragment);
  pugi::xml_node root = document.child("nvidia_smi_log");
  if (!root) root = document;
  Node node = node_of(root, 0);
  node.name = "nvidia_smi_log";
  if (node.at("gpu") || node.at("attached_gpus") || node.at("driver_version")) return node;
  return fail(ErrorCode::corrupt,
              parsed
                  ? "this is not the output of nvidia-smi -q -x"
                  : fmt::format("this is not a complete XML file: {} at byte {}", parsed.description(), parsed.offset),
              "make one with nvidia-smi -q -x > FILE");
}

Node tree_of_text(std::span<const Line> lines) {
  std::vector<Entry> open{{0, {"nvidia_smi_log", "", {}}}};
  const auto close_to = [&](std::size_t depth) {
    while (open.size() > depth) {
      Node done = std::move(open.back().node);
      open.pop_back();
      open.back().node.children.push_back(std::move(done));
    }
  };
  for (const Line& line : lines) {
    // The last line of a log that was cut may be half a value.
    if (!line.ended || line.text.empty() || line.text.starts_with('=')) continue;
    Entry entry = entry_of(line.text);
    if (entry.node.name.empty()) continue;
    while (open.size() > 1 && open.back().indent >= entry.indent) close_to(open.size() - 1);
    if (open.size() > kDeepest) continue;
    open.push_back(std::move(entry));
  }
  close_to(1);
  return std::move(open.front().node);
}

}  // namespace gpuwarden::capture
