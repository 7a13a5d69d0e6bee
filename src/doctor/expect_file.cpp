// SPDX-License-Identifier: Apache-2.0
// The file of `doctor --expect`.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/expect.hpp"
#include "gpuwarden/yaml/document.hpp"

namespace gpuwarden::doctor {
namespace {

using knowledge::Version;

/// Values of one map; the first mistake is kept.
class ExpectReader {
 public:
  ExpectReader(std::string_view name, std::string where) : name_(name), where_(std::move(where)) {}

  void integer(const YAML::Node& map, const char* key, std::optional<int>& value, int low, int high) {
    const auto text = scalar(map, key);
    if (!text) return;
    const auto number = parse_integer(*text);
    if (!number || *number < low || *number > high)
      return wrong(map, key, fmt::format("a whole number from {} to {}", low, high));
    value = static_cast<int>(*number);
  }
  void number(const YAML::Node& map, const char* key, std::optional<double>& value) {
    constexpr double kMost = 1e6;
    const auto text = scalar(map, key);
    if (!text) return;
    const auto parsed = parse_number(*text);
    if (!parsed || *parsed <= 0 || *parsed > kMost) return wrong(map, key, "a number above 0");
    value = parsed;
  }
  void version(const YAML::Node& map, const char* key, std::optional<Version>& value) {
    const auto text = scalar(map, key);
    if (!text) return;
    const auto parsed = Version::parse(*text);
    if (!parsed || text->find_first_not_of("0123456789.") != std::string::npos)
      return wrong(map, key, "a version such as 570.86.10");
    value = parsed;
  }
  void text(const YAML::Node& map, const char* key, std::string& value) {
    if (auto given = scalar(map, key)) value = std::move(*given);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<std::string> scalar(const YAML::Node& map, const char* key) {
    const YAML::Node at = yaml::child(map, key);
    if (!at.IsDefined() || at.IsNull()) return std::nullopt;
    if (at.IsScalar() && printable(at.Scalar()) == at.Scalar()) return at.Scalar();
    wrong(map, key, "a plain value");
    return std::nullopt;
  }
  void wrong(const YAML::Node& map, const char* key, const std::string& wanted) {
    if (!error_)
      error_ = yaml::error_at(yaml::child(map, key), name_, fmt::format("{}{} should be {}", where_, key, wanted));
  }

  std::string_view name_;
  std::string where_;
  std::optional<Error> error_;
};

Result<ExpectedGpus> read_gpus(const YAML::Node& map, std::string_view name, const std::string& where) {
  constexpr int kMostGpus = 1024;
  constexpr int kMostLanes = 32;
  constexpr int kLastGeneration = 9;
  GPUWARDEN_CHECK(yaml::check_keys(map, name, where, {"count", "model", "memory_gb", "pcie_width", "pcie_generation"}));
  ExpectedGpus gpus;
  ExpectReader reader(name, where + ".");
  reader.integer(map, "count", gpus.count, 0, kMostGpus);
  reader.text(map, "model", gpus.model);
  reader.number(map, "memory_gb", gpus.memory_gb);
  reader.integer(map, "pcie_width", gpus.pcie_width, 1, kMostLanes);
  reader.integer(map, "pcie_generation", gpus.pcie_generation, 1, kLastGeneration);
  if (reader.error()) return std::unexpected(*reader.error());
  return gpus;
}

Result<void> read_driver(const YAML::Node& root, std::string_view name, Expected& expected) {
  const YAML::Node driver = yaml::child(root, "driver");
  if (!driver.IsDefined() || driver.IsNull()) return {};
  ExpectReader reader(name, driver.IsMap() ? "driver." : "");
  if (driver.IsMap()) {
    GPUWARDEN_CHECK(yaml::check_keys(driver, name, "driver", {"minimum", "exactly"}));
    reader.version(driver, "minimum", expected.driver_minimum);
    reader.version(driver, "exactly", expected.driver);
  } else {
    reader.version(root, "driver", expected.driver);
  }
  if (reader.error()) return std::unexpected(*reader.error());
  return {};
}

}  // namespace

Result<Expected> parse_expected(std::string_view text, std::string_view name) {
  GPUWARDEN_TRY(const YAML::Node root, yaml::load(text, name));
  if (!root.IsDefined() || root.IsNull())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: it expects nothing", name),
                "for example: gpus: {count: 8, model: H100}");
  GPUWARDEN_CHECK(yaml::check_keys(root, name, "the file", {"source", "gpus", "driver"}));
  Expected expected{.gpus = {}, .driver = {}, .driver_minimum = {}, .source = std::string(name)};
  ExpectReader reader(name, "");
  reader.text(root, "source", expected.source);
  if (reader.error()) return std::unexpected(*reader.error());
  const YAML::Node gpus = yaml::child(root, "gpus");
  if (gpus.IsSequence()) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      GPUWARDEN_TRY(auto one, read_gpus(gpus[i], name, fmt::format("gpus[{}]", i)));
      expected.gpus.push_back(std::move(one));
    }
  } else if (gpus.IsDefined() && !gpus.IsNull()) {
    GPUWARDEN_TRY(auto one, read_gpus(gpus, name, "gpus"));
    expected.gpus.push_back(std::move(one));
  }
  GPUWARDEN_CHECK(read_driver(root, name, expected));
  return expected;
}

}  // namespace gpuwarden::doctor
