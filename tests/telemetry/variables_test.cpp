// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/variables.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "gpuwarden/base/file.hpp"
#include "support/fleet_builder.hpp"
#include "support/source_folder.hpp"
#include "telemetry/variables_table.hpp"

namespace gpuwarden::telemetry {
namespace {

using ::testing::HasSubstr;

facts::GpuProcess process_of(std::int32_t pid, std::optional<std::string> user) {
  facts::GpuProcess process;
  process.pid = Pid{pid};
  process.user = std::move(user);
  return process;
}

Value read(std::string_view name, const Subject& subject) { return value_of(*find_variable(name), subject); }

TEST(Variables, AreSortedAndNamedOnce) {
  std::set<std::string_view> names;
  for (const Variable& variable : variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.help.empty()) << variable.name;
    EXPECT_TRUE(variable.read) << variable.name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(variables(), {}, &Variable::name));
}

TEST(Variables, HaveEveryMetricAndDerivedMetricWithItsUnit) {
  for (const auto& metric : facts::metrics()) {
    const Variable* variable = find_variable(metric.id);
    ASSERT_NE(variable, nullptr) << metric.id;
    EXPECT_EQ(variable->name, metric.id) << "hidden by an alias";
    EXPECT_EQ(variable->unit, metric.unit);
    EXPECT_EQ(variable->kind == VariableKind::counter, metric.kind == facts::MetricKind::counter) << metric.id;
  }
  for (const auto& metric : derived_metrics()) {
    ASSERT_NE(find_variable(metric.id), nullptr) << metric.id;
    EXPECT_EQ(facts::find_metric(metric.id), nullptr) << "it is a metric, too";
  }
}

TEST(Variables, HaveAliasesThatHideNoName) {
  std::set<std::string_view> aliases;
  for (const Alias& alias : alias_table()) {
    EXPECT_TRUE(aliases.insert(alias.alias).second) << alias.alias;
    ASSERT_NE(find_variable(alias.alias), nullptr);
    EXPECT_EQ(find_variable(alias.alias)->name, alias.name);
    EXPECT_TRUE(std::ranges::none_of(variables(), [&](const Variable& v) { return v.name == alias.alias; }))
        << alias.alias;
  }
}

TEST(Variables, HaveWholesOfTheSameUnit) {
  for (const Variable& variable : variables()) {
    if (variable.whole.empty()) continue;
    const Variable* whole = find_variable(variable.whole);
    ASSERT_NE(whole, nullptr) << variable.name;
    EXPECT_EQ(whole->unit, variable.unit) << variable.name;
  }
}

TEST(Variables, KnowTheNamesThatPeopleType) {
  for (const auto& [typed, name] : std::map<std::string, std::string>{{"temp", "temperature"},
                                                                      {"TEMP", "temperature"},
                                                                      {"util", "utilization"},
                                                                      {"mem", "memory_used"},
                                                                      {"mem%", "memory_used_percent"},
                                                                      {"sm_clock", "clock_sm"},
                                                                      {"clock_sm", "clock_sm"},
                                                                      {"fan", "fan_speed"},
                                                                      {"power", "power"}}) {
    ASSERT_NE(find_variable(typed), nullptr) << typed;
    EXPECT_EQ(find_variable(typed)->name, name);
  }
  EXPECT_EQ(find_variable("temprature"), nullptr);
  EXPECT_EQ(closest_variable("temprature"), "temperature");
}

TEST(Variables, OfNothingAreUnknown) {
  for (const Variable& variable : variables()) {
    const Value value = value_of(variable, {});
    const auto* texts = std::get_if<Texts>(&value);
    const auto* numbers = std::get_if<Numbers>(&value);
    // Without a GPU there are no events and no lease; all else is not known.
    if (variable.of_events || variable.name == "leased" || variable.name == "lease_user") continue;
    EXPECT_TRUE(std::holds_alternative<std::monostate>(value) || (texts != nullptr && !texts->all_known) ||
                (numbers != nullptr && !numbers->all_known))
        << variable.name;
  }
}

TEST(DerivedMetrics, FollowTheirFormulas) {
  facts::GpuRecord record = testing::gpu(0);
  record.sample.memory_used = 20_GiB;
  record.sample.power = 350_W;
  record.sample.power_limit = 700_W;
  record.sample.temperature = 80_degC;
  record.gpu.temperature_slowdown = 87_degC;
  record.sample.bar1_used = 1_GiB;
  record.sample.bar1_total = 4_GiB;
  record.sample.pcie_width = Count(8);
  record.gpu.pcie_width_max = Count(16);
  record.sample.pcie_generation = Count(3);
  record.gpu.pcie_generation_max = Count(5);
  record.sample.throttle_reasons = {facts::ThrottleReason::gpu_idle};
  const auto value = [&](std::string_view id) { return find_derived_metric(id)->value(record); };
  EXPECT_EQ(value("memory_used_percent"), 25);
  EXPECT_EQ(value("power_percent"), 50);
  EXPECT_EQ(value("temperature_headroom"), 7);
  EXPECT_EQ(value("bar1_used_percent"), 25);
  EXPECT_EQ(value("pcie_link_percent"), 12.5);
  EXPECT_EQ(value("processes"), 0);
  EXPECT_EQ(value("throttled"), 0);
  record.sample.throttle_reasons = {facts::ThrottleReason::sw_power_cap};
  EXPECT_EQ(value("throttled"), 1);
}

TEST(DerivedMetrics, AreUnknownWhereAPartIs) {
  facts::GpuRecord record;
  for (const auto& metric : derived_metrics()) EXPECT_EQ(metric.value(record), std::nullopt) << metric.id;
  record.sample.memory_used = 20_GiB;
  record.sample.memory_total = Bytes(0);
  EXPECT_EQ(find_derived_metric("memory_used_percent")->value(record), std::nullopt) << "a part of nothing";
}

TEST(DerivedMetrics, TellIdleFromBusyAndFromUnknown) {
  facts::GpuRecord record = testing::gpu(0);
  const auto& idle = *find_derived_metric("idle");
  EXPECT_EQ(idle.value(record), 1);
  record.state = facts::GpuState::busy;
  EXPECT_EQ(idle.value(record), 0);
  record.state = facts::GpuState::lost;
  EXPECT_EQ(idle.value(record), std::nullopt);
}

TEST(DerivedMetrics, SumTheMemoryOfProcessesOnlyWhereAllIsKnown) {
  facts::GpuRecord record = testing::gpu(0);
  record.processes = {process_of(1, "ann"), process_of(2, "bob")};
  const auto& sum = *find_derived_metric("memory_of_processes");
  record.processes->at(0).memory = 1_GiB;
  EXPECT_EQ(sum.value(record), std::nullopt);
  record.processes->at(1).memory = 2_GiB;
  EXPECT_EQ(sum.value(record), static_cast<double>((3_GiB).value));
}

TEST(Variables, NameTheUsersOfProcessesAndLease) {
  facts::GpuRecord record = testing::gpu(0);
  record.processes = {process_of(7, "ann"), process_of(8, std::nullopt)};
  facts::Lease lease;
  lease.holders.push_back({.user = "bob"});
  const Subject subject{.gpu = &record, .lease = &lease};
  EXPECT_EQ(read("user", subject), Value(Texts{{"ann", "bob"}, false}));
  EXPECT_EQ(read("lease_user", subject), Value(Texts{{"bob"}, true}));
  EXPECT_EQ(read("pid", subject), Value(Numbers{{7, 8}, true}));
  const Subject one{.gpu = &record, .process = &record.processes->front(), .lease = &lease};
  EXPECT_EQ(read("user", one), Value(Texts{{"ann"}, true}));
  EXPECT_EQ(read("pid", one), Value(Numbers{{7}, true}));
}

TEST(Variables, TakeNoContainerForAnAnswerAndNotForUnknown) {
  facts::GpuRecord record = testing::gpu(0);
  record.processes = {process_of(7, "ann")};
  EXPECT_EQ(read("container", {.gpu = &record}), Value(Texts{{}, true}));
  record.processes.reset();
  EXPECT_EQ(read("container", {.gpu = &record}), Value(Texts{{}, false}));
}

TEST(Variables, ShowNumbersWithTheirUnits) {
  EXPECT_EQ(show(87.0, "°C"), "87 °C");
  EXPECT_EQ(show(97.25, "%"), "97.25%");
  EXPECT_EQ(show(1234567.0, ""), "1234567");
  EXPECT_EQ(show(123456.7, "MHz"), "123457 MHz");
  EXPECT_EQ(show(static_cast<double>((20_GiB).value), "B"), "20 GiB");
  EXPECT_EQ(show(Texts{{"ann", "b\x1b[1mob"}, true}, ""), "ann, b?[1mob");
  EXPECT_EQ(show(Value(), "W"), "-");
}

/// docs/alerts.md lists every name as this test writes it: copy what is missing from the failure's message.
TEST(Variables, AreAllInTheDocumentation) {
  const auto text = read_file(testing::source_folder() / "docs/alerts.md");
  ASSERT_TRUE(text);
  for (const Variable& variable : variables()) {
    std::vector<std::string> aliases;
    for (const std::string_view alias : aliases_of(variable)) aliases.push_back(fmt::format("`{}`", alias));
    const std::string row = fmt::format("| `{}` | {} | {} | {} |\n", variable.name, fmt::join(aliases, ", "),
                                        variable.is_text() ? "text" : std::string(variable.unit), variable.help);
    EXPECT_THAT(*text, HasSubstr(row));
  }
}

}  // namespace
}  // namespace gpuwarden::telemetry
