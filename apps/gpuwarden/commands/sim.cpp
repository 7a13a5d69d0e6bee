// SPDX-License-Identifier: Apache-2.0
// gpuwarden sim: simulated fleets.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/machine/fleets.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kSimOptions = std::to_array<Option>({
    {"--fleet", OptionKind::text, "SPEC", "the fleet (exec, start)", kFleets},
    {"--gpu", OptionKind::text, "INDEX", "the GPU (fault, set, clear, reset)"},
    {"--freeze", OptionKind::flag, "", "clock: stop the fleet's time"},
    {"--thaw", OptionKind::flag, "", "clock: let it run again"},
    {"--speed", OptionKind::text, "FACTOR", "clock: how fast it runs"},
    {"--advance", OptionKind::text, "DURATION", "clock: jump ahead"},
});

using nlohmann::json;

/// What is left out, and how it is written.
std::unexpected<Error> missing(const Context& context, std::string_view what, std::string hint) {
  return fail(ErrorCode::invalid_argument, fmt::format("gpuwarden sim {}: {} is missing", context.action, what),
              std::move(hint));
}

/// An operand of the action ("show FLEET"), or a sentence about what is missing.
Result<std::string> operand(const Context& context, std::size_t position, const char* what) {
  if (context.args.rest.size() > position) return context.args.rest[position];
  return missing(context, what, "see gpuwarden sim --help");
}

Result<std::string> fleet_of(const Context& context, std::string hint) {
  const auto fleet = context.args.text("fleet");
  return fleet ? Result<std::string>(*fleet) : missing(context, "--fleet", std::move(hint));
}

Result<int> list_fleets(Context& context) {
  GPUWARDEN_TRY(const auto fleets, machine::list_fleets(machine::simulator_places(context.environment)));
  if (context.args.has("json")) {
    print_json(machine::to_json(fleets));
    return kFine;
  }
  for (const machine::FleetPreset& preset : fleets.presets) {
    const auto& gpus = preset.gpus;
    fmt::print("{:<16} {:>2} GPUs  driver {:<12} {}\n", preset.name, gpus.size(), preset.driver,
               gpus.empty() ? "" : gpus[0] + (gpus.front() == gpus.back() ? "" : ", ..."));
  }
  for (const std::string& fleet : fleets.running) fmt::print("running: {}\n", fleet);
  return kFine;
}

Result<int> show(Context& context) {
  GPUWARDEN_TRY(const std::string spec, operand(context, 0, "a fleet"));
  GPUWARDEN_TRY(const Machine machine, open_fleet(context, spec));
  GPUWARDEN_TRY(json answer, machine.simulator()->call({{"op", "show"}}));
  answer["schema"] = facts::kJsonSchema;
  print_json(answer);
  return kFine;
}

/// Any program with the simulator in front of its NVML and CUDA.
Result<int> exec_in(Context& context) {
  GPUWARDEN_TRY(const std::string fleet, fleet_of(context, "gpuwarden sim exec --fleet h100x8 -- nvtop"));
  if (context.args.rest.empty()) return fail(ErrorCode::invalid_argument, "gpuwarden sim exec: no command was given");
  GPUWARDEN_TRY(const Machine machine, open_fleet(context, fleet));
  // This process stays, so that the fleet lives as long as the program.
  const auto code = launch::run_in_foreground(context.args.rest, machine.environment_for(context.environment));
  return code ? *code : refuse_program(code.error());
}

Result<int> start(Context& context) {
  GPUWARDEN_TRY(const std::string name, operand(context, 0, "a name"));
  GPUWARDEN_TRY(const std::string spec, fleet_of(context, "gpuwarden sim start lab --fleet h100x8"));
  GPUWARDEN_TRY(const Pid keeper, machine::start_fleet(name, spec, machine::simulator_places(context.environment)));
  if (context.args.has("json")) {
    print_json({{"schema", facts::kJsonSchema}, {"name", name}, {"pid", keeper.value}, {"simulated", true}});
    return kFine;
  }
  fmt::print("simulated fleet '{}' is running (pid {}); use it with --simulate {}\n", name, keeper.value, name);
  return kFine;
}

Result<Machine> running(Context& context) {
  GPUWARDEN_TRY(const std::string name, operand(context, 0, "a fleet's name"));
  return machine::open_running_fleet(name, machine::options_from(context.environment));
}

Result<int> stop(Context& context) {
  GPUWARDEN_TRY(const Machine machine, running(context));
  GPUWARDEN_CHECK(machine::stop_fleet(machine, system_clock()));
  return kFine;
}

Result<int> change(Context& context, json request) {
  GPUWARDEN_TRY(const Machine machine, running(context));
  GPUWARDEN_TRY(const auto gpu, count_option(context.args, "gpu", 63));
  request["gpu"] = gpu ? json(*gpu) : json();
  GPUWARDEN_CHECK(machine.simulator()->call(request));
  return kFine;
}

Result<int> fault(Context& context) {
  GPUWARDEN_TRY(const std::string text, operand(context, 1, "a fault, for example xid=79,"));
  return change(context, {{"op", "fault"}, {"fault", text}});
}

Result<int> reset(Context& context) {
  if (!context.args.has("gpu")) return missing(context, "--gpu", "gpuwarden sim reset lab --gpu 3");
  return change(context, {{"op", "reset"}});
}

Result<int> clear(Context& context) { return change(context, {{"op", "clear_faults"}}); }

Result<int> set(Context& context) {
  GPUWARDEN_TRY(const std::string text, operand(context, 1, "a reading, for example temperature=90,"));
  const auto sides = split(text, '=');
  const auto value = sides.size() == 2 ? parse_number(sides[1]) : std::nullopt;
  if (sides.size() != 2 || (!value && sides[1] != "null")) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not FIELD=NUMBER", printable(text)),
                "for example temperature=90, or fan_speed=null for \"not supported\"");
  }
  return change(context, {{"op", "set"}, {"field", std::string(sides[0])}, {"value", value ? json(*value) : json()}});
}

Result<int> clock(Context& context) {
  const Args& args = context.args;
  json request{{"op", "clock"}};
  if (args.has("freeze") || args.has("thaw")) request["frozen"] = args.has("freeze");
  if (const auto speed = args.text("speed")) {
    const auto factor = parse_number(*speed);
    if (!factor)
      return fail(ErrorCode::invalid_argument, fmt::format("--speed: '{}' is not a number", printable(*speed)));
    request["speed"] = *factor;
  }
  GPUWARDEN_TRY(const auto step, duration_option(args, "advance"));
  if (step) request["advance_seconds"] = static_cast<double>(step->count()) / 1000;
  return change(context, request);
}

constexpr auto kActions = std::to_array<Action>({{"list", list_fleets},
                                                 {"show", show, 1},
                                                 {"exec", exec_in, kManyOperands, false},
                                                 {"start", start, 1},
                                                 {"stop", stop, 1, false},
                                                 {"fault", fault, 2, false},
                                                 {"clear", clear, 1, false},
                                                 {"reset", reset, 1, false},
                                                 {"set", set, 2, false},
                                                 {"clock", clock, 1, false}});

}  // namespace

constinit const Subcommand kSimCommand{
    .name = "sim",
    .summary = "simulated fleets",
    .usage =
        "gpuwarden sim list | show FLEET | exec --fleet F -- COMMAND... | start NAME --fleet F | stop NAME |\n"
        "              fault NAME --gpu I FAULT | clear NAME [--gpu I] | reset NAME --gpu I |\n"
        "              set NAME --gpu I FIELD=VALUE | clock NAME [--freeze ...]",
    .groups = {OptionGroup{kSimOptions}},
    .rest = Rest::operands,
    .actions = "list show exec start stop fault clear reset set clock",
    .run = [](Context& context) { return run_action(context, kActions); }};

}  // namespace gpuwarden::cli
