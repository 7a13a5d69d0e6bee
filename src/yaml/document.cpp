// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/yaml/document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::yaml {
namespace {

constexpr std::size_t kMaxSize = std::size_t{1} << 20U;
constexpr int kMaxDepth = 32;

Error positioned(std::string_view name, int line, int column, std::string_view what, std::string hint = {}) {
  return {ErrorCode::invalid_argument, fmt::format("{}:{}:{}: {}", name, line, column, what), std::move(hint)};
}

/// How deep one line may lead, beyond brackets: "- - - a" opens a list each time.
bool is_too_deep(std::string_view line, std::size_t indent) {
  const auto markers = std::ranges::count_if(line, [](char c) { return c == '-' || c == '?' || c == ':'; });
  const bool only_markers = line.find_first_not_of(" -?:") == std::string_view::npos;
  return indent > 200 || markers > 400 || (markers > kMaxDepth && only_markers);
}

/// Looks at the raw text, because yaml-cpp's parser recurses as deep as its input nests. Depth is bounded from above:
/// open brackets plus indentation steps plus "- " and "? " markers of one line.
std::optional<Error> find_hazard(std::string_view text, std::string_view name) {
  int line_number = 0;
  int brackets = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++line_number;
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    if (indent < line.size() && line[indent] == '\t') {
      return positioned(name, line_number, static_cast<int>(indent) + 1, "a tab stands where YAML wants spaces",
                        "indent with spaces");
    }
    for (const char c : line) {
      if (c == '[' || c == '{') ++brackets;
      if ((c == ']' || c == '}') && brackets > 0) --brackets;
      if (brackets > kMaxDepth) break;
    }
    if (brackets > kMaxDepth || is_too_deep(line, indent)) return positioned(name, line_number, 1, "nested too deeply");
  }
  return std::nullopt;
}

/// The first anchor or alias in the event stream.
class HazardHandler final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) second = mark;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t id) override { note(mark, id); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { note(mark, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t id, const std::string&) override {
    note(mark, id);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t id,
                       YAML::EmitterStyle::value) override {
    enter(mark, id);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t id, YAML::EmitterStyle::value) override {
    enter(mark, id);
  }
  void OnMapEnd() override { --depth_; }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { note(mark, 1); }

  std::optional<YAML::Mark> anchor;
  std::optional<YAML::Mark> too_deep;
  std::optional<YAML::Mark> second;  ///< where a second document begins

 private:
  void note(const YAML::Mark& mark, YAML::anchor_t id) {
    if (id != 0 && !anchor) anchor = mark;
  }
  void enter(const YAML::Mark& mark, YAML::anchor_t id) {
    note(mark, id);
    if (++depth_ > kMaxDepth && !too_deep) too_deep = mark;
  }
  int depth_ = 0;
  int documents_ = 0;
};

std::optional<Error> find_duplicate(const YAML::Node& node, std::string_view name) {
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const YAML::Node& child = node.IsMap() ? entry.second : entry;
    if (node.IsMap() && (!entry.first.IsScalar() || !seen.insert(entry.first.Scalar()).second)) {
      return error_at(entry.first, name,
                      entry.first.IsScalar() ? fmt::format("'{}' appears twice", printable(entry.first.Scalar()))
                                             : std::string("a key must be plain text"));
    }
    if (child.IsMap() || child.IsSequence()) {
      if (auto error = find_duplicate(child, name)) return error;
    }
  }
  return std::nullopt;
}

}  // namespace

Error error_at(const YAML::Node& node, std::string_view name, std::string_view what, std::string hint) {
  const YAML::Mark mark = node.Mark();
  return positioned(name, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1, what, std::move(hint));
}

YAML::Node child(const YAML::Node& map, const std::string& key) {
  if (map.IsDefined() && map.IsMap()) {
    const YAML::Node found = map[key];
    if (found.IsDefined()) return found;
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

Result<YAML::Node> load(std::string_view text, std::string_view name) {
  if (text.size() > kMaxSize) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: larger than {}", name, format_size(Bytes(kMaxSize))));
  }
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: is UTF-16 text", name), "save it as UTF-8");
  }
  if (text.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: not a text file", name));
  }
  if (auto hazard = find_hazard(text, name)) return std::unexpected(*hazard);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    HazardHandler handler;
    // Text that the parser cannot get past comes back as one empty document after another: never ask for a third.
    while (!handler.anchor && !handler.too_deep && !handler.second && parser.HandleNextDocument(handler)) continue;
    const auto report = [&](const YAML::Mark& mark, std::string_view what) {
      return std::unexpected(positioned(name, mark.line + 1, mark.column + 1, what));
    };
    if (handler.anchor) return report(*handler.anchor, "anchors and aliases (& and *) are not accepted here");
    if (handler.too_deep) return report(*handler.too_deep, "nested too deeply");
    if (handler.second) return report(*handler.second, "more than one document in the file");
    YAML::Node root = YAML::Load(std::string(text));  // NOLINT(misc-const-correctness): moved out
    if (root.IsMap() || root.IsSequence()) {
      if (auto duplicate = find_duplicate(root, name)) return std::unexpected(*duplicate);
    }
    return root;
  } catch (const YAML::Exception& exception) {
    return std::unexpected(positioned(name, std::max(exception.mark.line, 0) + 1,
                                      std::max(exception.mark.column, 0) + 1, printable(exception.msg)));
  }
}

Result<void> check_keys(const YAML::Node& map, std::string_view name, std::string_view where,
                        const std::vector<std::string>& known) {
  if (!map.IsMap()) {
    return std::unexpected(error_at(map, name, fmt::format("{} should be a map of keys and values", where)));
  }
  for (const auto& entry : map) {
    const std::string key = entry.first.Scalar();
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string close = closest_match(key, known);
    return std::unexpected(error_at(
        entry.first, name, fmt::format("{} has no key '{}'", where, printable(key)),
        close.empty() ? fmt::format("known keys: {}", join(known, ", ")) : fmt::format("did you mean '{}'?", close)));
  }
  return {};
}

}  // namespace gpuwarden::yaml
