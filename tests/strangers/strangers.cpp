// SPDX-License-Identifier: Apache-2.0
#include "strangers/strangers.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using nvml::Json;

constexpr const char* kFleet = R"(
driver: 550.54.15
cuda: "12.4"
clock: {frozen: true}
nvlink: nvswitch
gpus:
  - {model: NVIDIA H100 80GB HBM3, readings: {temperature: 61, utilization: 87, power: 512.5}}
  - {model: NVIDIA GeForce RTX 4090, readings: {temperature: 52, utilization: 34, power: 221.25, fan_speed: 43}}
  - {model: Tesla T4, readings: {temperature: 38, utilization: 0, power: 15}}
)";

/// What each worker holds: its GPU and the MiB on it.
struct Load {
  std::size_t gpu;
  unsigned long long mib;
  unsigned percent;
};
constexpr std::array kLoads{Load{0, 40960, 60}, Load{0, 1536, 20}, Load{1, 7000, 30}};

unsigned long long mib(const Json& bytes) { return bytes.get<unsigned long long>() >> 20U; }

KnownGpu from_list(const Json& gpu) {
  const Json& memory = gpu.at("memory");
  KnownGpu known{.uuid = gpu.at("uuid"),
                 .name = gpu.at("name"),
                 .temperature = gpu.at("temperature_celsius"),
                 .power_watts = static_cast<int>(gpu.at("power_watts").get<double>()),
                 .power_limit_watts = static_cast<int>(gpu.at("power_limit_watts").get<double>()),
                 .memory_total_mib = mib(memory.at("total_bytes")),
                 .memory_used_mib = mib(memory.at("used_bytes"))};
  if (const Json& percent = gpu.at("utilization").at("gpu_percent"); !percent.is_null()) known.utilization = percent;
  known.memory_taken_mib = known.memory_total_mib - mib(memory.at("free_bytes"));
  for (const Json& process : gpu.at("processes")) {
    known.processes.push_back({process.at("pid"), mib(process.at("memory_bytes"))});
  }
  return known;
}

KnownGpu from_fleet(const Json& gpu) {
  const Json& readings = gpu.at("readings");
  const auto number = [&](const char* field) { return readings.at(field).get<double>(); };
  KnownGpu known{.uuid = gpu.at("uuid"),
                 .name = gpu.at("name"),
                 .temperature = static_cast<int>(number("temperature")),
                 .utilization = static_cast<int>(number("utilization")),
                 .power_watts = static_cast<int>(number("power")),
                 .power_limit_watts = static_cast<int>(number("power_limit")),
                 .memory_total_mib = static_cast<unsigned long long>(number("memory_total")),
                 .memory_used_mib = static_cast<unsigned long long>(number("memory_used"))};
  known.memory_taken_mib = static_cast<unsigned long long>(number("memory_used") + number("memory_reserved"));
  for (const Json& process : gpu.at("processes")) {
    known.processes.push_back({process.at("pid"), mib(process.at("memory_bytes"))});
  }
  return known;
}

std::vector<KnownGpu> each(const Json& gpus, KnownGpu (*convert)(const Json&)) {
  std::vector<KnownGpu> all;
  for (const Json& gpu : gpus) {
    all.push_back(convert(gpu));
    std::ranges::sort(all.back().processes, {}, &KnownProcess::pid);
  }
  return all;
}

bool has_command_line() { return !std::string_view(GPUWARDEN_PROGRAM).empty(); }

}  // namespace

void Strangers::SetUp() {
  fleet_ = write_fleet(kFleet);
  nvml_ = &start(fleet_, 550);
  const auto gpus = known_to_the_fleet();
  for (const Load& load : kLoads) {
    workers_.push_back(std::make_unique<nvml::Child>([] { return ::pause(); }));
    const Json reply = nvml_->call({{"op", "declare"},
                                    {"pid", workers_.back()->pid()},
                                    {"gpus", {gpus[load.gpu].uuid}},
                                    {"memory_bytes", load.mib << 20U},
                                    {"utilization_percent", load.percent}});
    ASSERT_FALSE(reply.contains("error")) << reply.dump();
  }
}

std::string python_of_strangers() { return GPUWARDEN_STRANGERS_PYTHON "/bin/python"; }

std::vector<Json> Strangers::readings() const {
  std::vector<Json> all;
  const Json shown = nvml_->call({{"op", "show"}});
  for (const Json& gpu : shown.at("devices")) all.push_back(gpu.at("readings"));
  return all;
}

bool Strangers::is_installed(const std::string& program) {
  if (program.find('/') != std::string::npos && ::access(program.c_str(), X_OK) == 0) return true;
  for (const auto folder : split(current_environment()["PATH"], ':')) {
    if (::access((std::string(folder) + "/" + program).c_str(), X_OK) == 0) return true;
  }
  const char* required = std::getenv("GPUWARDEN_REQUIRE_STRANGERS");
  const bool fails = required != nullptr && std::string_view(required) == "1";
  EXPECT_FALSE(fails) << program
                      << " is not installed, but GPUWARDEN_REQUIRE_STRANGERS is 1 (scripts/test.sh installs it)";
  return false;
}

Environment Strangers::environment() const {
  Environment variables = current_environment();
  for (const char* name : {"LD_LIBRARY_PATH", "GPUWARDEN_SIM_FLEET", "GPUWARDEN_SIMULATE", "COLUMNS", "LINES"})
    variables.erase(name);
  variables["HOME"] = variables["XDG_CONFIG_HOME"] = home_.path().string();
  variables["LC_ALL"] = "C";
  variables["TERM"] = "vt100";
  return variables;
}

Command Strangers::with_driver(int profile, const std::vector<std::string>& argv) const {
  Command command{.argv = argv, .environment = environment()};
  command.environment->insert_or_assign("LD_LIBRARY_PATH", nvml::library_of(profile).parent_path());
  command.environment->insert_or_assign("GPUWARDEN_SIM_FLEET", fleet_);
  return command;
}

Command Strangers::on_the_fleet(const std::vector<std::string>& argv) const {
  if (!has_command_line()) return with_driver(550, argv);
  Command command{.argv = {GPUWARDEN_PROGRAM, "sim", "exec", "--fleet", fleet_, "--"}, .environment = environment()};
  command.argv.insert(command.argv.end(), argv.begin(), argv.end());
  return command;
}

std::vector<KnownGpu> Strangers::known_to_the_fleet() const {
  return each(nvml_->call({{"op", "show"}}).at("devices"), from_fleet);
}

std::vector<KnownGpu> Strangers::known() const {
  if (!has_command_line()) return known_to_the_fleet();
  const auto done = run_patiently(
      {.argv = {GPUWARDEN_PROGRAM, "list", "--json", "--simulate", fleet_}, .environment = environment()});
  if (!done || done->exit_code != 0) {
    ADD_FAILURE() << "gpuwarden list failed: " << (done ? done->standard_error : done.error().message);
    return {};
  }
  return each(Json::parse(done->standard_output).at("gpus"), from_list);
}

}  // namespace gpuwarden::testing
