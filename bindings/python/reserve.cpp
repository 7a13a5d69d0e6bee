// SPDX-License-Identifier: Apache-2.0
// Choosing and holding GPUs, running jobs on them, taking them out of use.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/machine/fleets.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "gpuwarden/machine/take_out.hpp"
#include "gpuwarden/placement/json.hpp"
#include "support/open_machine.hpp"
#include "support/selection.hpp"

namespace gpuwarden::python {

void bind_reserve(nb::module_& module);

namespace {

using machine::Machine;
using nlohmann::json;

json decision_json(const machine::Reservation& reservation, const placement::Request& request) {
  json answer = placement::to_json(reservation.decision(), request, reservation.inputs());
  answer["cuda_visible_devices"] = placement::cuda_visible_devices(reservation.decision());
  return answer;
}

/// "wait_s": none, a number of seconds, or negative: without end.
std::optional<std::chrono::milliseconds> wait_of(json& options) {
  const json wait = options.value("wait_s", json());
  options.erase("wait_s");
  if (wait.is_null()) return std::nullopt;
  const auto seconds = value_as<double>("wait_s", wait);
  constexpr double kYear = 365.0 * 86400;
  if (seconds < 0 || seconds > kYear) return std::chrono::milliseconds::max();
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

struct Acquired {
  machine::Reservation reservation;
  json decision;
};

Result<Acquired> acquire(const Machine& machine, const machine::ReservationRequest& request,
                         const machine::Holder& holder, const std::stop_token& stop) {
  GPUWARDEN_TRY(auto reservation, machine::reserve(machine, request, holder, system_clock(), stop));
  json decision = decision_json(reservation, request.gpus);
  return Acquired{std::move(reservation), std::move(decision)};
}

std::string select(const OpenMachine& self, const std::string& text) {
  json options = read_options(text);
  const auto wait = wait_of(options);
  const auto machine = self.share();
  const auto request = unwrap(selection_from(options));
  return json_text(unwrap(interruptible([&](const std::stop_token& stop) -> Result<json> {
    GPUWARDEN_TRY(const auto acquired, acquire(*machine, {.gpus = request, .hold = false, .wait = wait},
                                               {.run_id = "", .command = "gpuwarden.select"}, stop));
    return acquired.decision;
  })));
}

/// GPUs that are held until they are released, at the latest with this object.
class HeldGpus {
 public:
  explicit HeldGpus(Acquired acquired) : acquired_(std::move(acquired)) {}
  HeldGpus(const HeldGpus&) = delete;
  HeldGpus& operator=(const HeldGpus&) = delete;
  /// A forked child's copy says nothing about the parent's: its descriptors close, the records stay.
  ~HeldGpus() {
    if (!owner_.here() && acquired_) [[maybe_unused]]
      auto* kept = new Acquired(std::move(*acquired_));
  }

  void release() {
    owner_.check("Reservation");
    const nb::gil_scoped_release without_gil;
    const std::scoped_lock lock(mutex_);
    if (acquired_) decision_ = acquired_->decision;
    acquired_.reset();
  }
  bool held() const {
    const std::scoped_lock lock(mutex_);
    return owner_.here() && acquired_.has_value();
  }
  std::string decision() const {
    const std::scoped_lock lock(mutex_);
    return json_text(acquired_ ? acquired_->decision : decision_);
  }
  std::vector<std::string> uuids() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> uuids;
    if (acquired_)
      for (const Uuid& uuid : acquired_->reservation.devices()) uuids.push_back(uuid.value);
    return uuids;
  }
  std::vector<std::string> warnings() const {
    const std::scoped_lock lock(mutex_);
    return acquired_ ? acquired_->reservation.warnings() : std::vector<std::string>{};
  }

 private:
  Owner owner_;
  mutable std::mutex mutex_;
  std::optional<Acquired> acquired_;
  json decision_;
};

std::unique_ptr<HeldGpus> reserve(const OpenMachine& self, const std::string& text) {
  json options = read_options(text);
  const auto wait = wait_of(options);
  const std::string command = option_or(options, "command", "python");
  options.erase("command");
  const auto machine = self.share();
  const auto request = unwrap(selection_from(options));
  auto acquired = unwrap(interruptible([&](const std::stop_token& stop) {
    return acquire(*machine, {.gpus = request, .hold = true, .wait = wait},
                   {.run_id = launch::make_run_id(), .command = command}, stop);
  }));
  return std::make_unique<HeldGpus>(std::move(acquired));
}

/// What of the options is about the run, taken out of them.
Result<launch::RunRequest> run_request(json& options, std::vector<std::string> argv) {
  launch::RunRequest request{.argv = std::move(argv), .environment = current_environment()};
  const auto take = [&](const char* key) {
    json value = options.value(key, json());
    options.erase(key);
    return value;
  };
  const auto fill = [&]<class T>(const char* key, std::optional<T>& into) {
    if (const json value = take(key); !value.is_null()) into = value_as<T>(key, value);
  };
  if (const json ranks = take("ranks"); ranks == "gpu")
    request.rank_per_gpu = true;
  else if (ranks.is_number_unsigned())
    request.ranks = ranks.get<std::uint32_t>();
  else if (!ranks.is_null())
    return fail(ErrorCode::invalid_argument, "ranks: '" + ranks.dump() + "' is neither a number nor \"gpu\"");
  fill("nodes", request.nodes);
  fill("node_rank", request.node_rank);
  fill("master_address", request.master_address);
  fill("master_port", request.master_port);
  if (const json folder = take("log_directory"); !folder.is_null())
    request.log_directory = value_as<std::string>("log_directory", folder);
  if (const json grace = take("grace_s"); !grace.is_null())
    request.grace = milliseconds_of("grace_s", value_as<double>("grace_s", grace));
  const json variables = take("environment");
  if (!variables.is_null() && !variables.is_object())
    return fail(ErrorCode::invalid_argument, "environment: '" + json_text(variables) + "' is not a dict");
  for (const auto& [name, value] : variables.items())
    request.environment[name] = value_as<std::string>("environment: " + name, value);
  if (const json one = take("one_gpu_per_rank"); !one.is_null())
    request.one_device_per_rank = value_as<bool>("one_gpu_per_rank", one);
  return request;
}

Result<json> run_job(const Machine& machine, const launch::RunPlan& plan, const placement::Request& gpus,
                     const std::optional<std::chrono::milliseconds>& wait, const launch::RunOptions& given) {
  const auto& argv = plan.job.argv;
  std::optional<machine::Reservation> held;
  if (gpus.force_cpu) {
    held = machine::Reservation::of_cpu();
  } else {
    GPUWARDEN_TRY(held, machine::reserve(machine, {.gpus = gpus, .hold = true, .wait = wait},
                                         {.run_id = plan.job.run_id, .command = argv[0]}, system_clock(), given.stop));
  }
  launch::RunOptions options = given;
  options.look_after = [&held] { return held->repair(); };
  const launch::ReadyRun job = launch::ready(plan, machine, held->decision(), held->snapshot(), held->descriptors());
  GPUWARDEN_TRY(const launch::RunReport report, launch::run(job, machine, options, system_clock()));
  json answer = launch::to_json(report);
  answer["warnings"] = report.end.warnings;
  return answer;
}

std::string run(const OpenMachine& self, std::vector<std::string> argv, const std::string& text) {
  json options = read_options(text);
  const auto wait = wait_of(options);
  launch::RunOptions given;
  if (options.contains("simulated_load"))
    given.load = unwrap(machine::parse_load(option<std::string>(options, "simulated_load")));
  options.erase("simulated_load");
  if (options.contains("sample_period_s"))
    given.sample_period = std::max(std::chrono::milliseconds(10),
                                   milliseconds_of("sample_period_s", option<double>(options, "sample_period_s")));
  options.erase("sample_period_s");
  const auto machine = self.share();
  if (machine->captured())
    raise({ErrorCode::invalid_argument, "nothing runs on a captured machine", "open it with simulate=FILE"});
  const auto plan = unwrap(launch::plan_run(unwrap(run_request(options, std::move(argv)))));
  auto request = unwrap(selection_from(options));
  launch::complete(plan, request);
  unwrap(launch::check_program(plan.job.argv[0], plan.job.environment));
  return json_text(unwrap(interruptible([&](const std::stop_token& stop) {
    launch::RunOptions stoppable = given;
    stoppable.stop = stop;
    return run_job(*machine, plan, request, wait, stoppable);
  })));
}

std::string leases(const OpenMachine& self) {
  const auto machine = self.share();
  return json_text(unwrap(interruptible([&](const std::stop_token& stop) -> Result<json> {
    GPUWARDEN_TRY(const auto holdings, machine::holdings_of(*machine, stop));
    return lease::to_json({holdings.here, holdings.fleets, machine->simulated()});
  })));
}

Result<json> disabled_json(const Machine& machine) {
  GPUWARDEN_TRY(const auto view, machine.disablings().read());
  json list = json::array();
  for (const facts::Disabling& one : view.disabled) list.push_back(facts::to_json(one));
  return json{{"disabled", list}, {"warnings", view.warnings}};
}

std::string disable(const OpenMachine& self, const std::vector<std::string>& gpus, const std::string& reason) {
  const auto machine = self.share();
  return json_text(unwrap(without_gil([&]() -> Result<json> {
    GPUWARDEN_CHECK(machine::take_out(*machine, gpus, reason, system_clock()));
    return disabled_json(*machine);
  })));
}

std::string enable(const OpenMachine& self, const std::vector<std::string>& gpus) {
  const auto machine = self.share();
  return json_text(unwrap(without_gil([&]() -> Result<json> {
    GPUWARDEN_CHECK(machine::put_back(*machine, gpus, "", system_clock()));
    return disabled_json(*machine);
  })));
}

}  // namespace

void bind_reserve(nb::module_& module) {
  nb::class_<HeldGpus>(module, "Reservation", nb::is_weak_referenceable())
      .def("release", &HeldGpus::release)
      .def_prop_ro("held", &HeldGpus::held)
      .def("decision", &HeldGpus::decision)
      .def("uuids", &HeldGpus::uuids)
      .def("warnings", &HeldGpus::warnings);
  module.def("select", &select, nb::arg("machine"), nb::arg("options"));
  module.def("reserve", &reserve, nb::arg("machine"), nb::arg("options"));
  module.def("run", &run, nb::arg("machine"), nb::arg("argv"), nb::arg("options"));
  module.def("leases", &leases, nb::arg("machine"));
  module.def("disable", &disable, nb::arg("machine"), nb::arg("gpus"), nb::arg("reason"));
  module.def("enable", &enable, nb::arg("machine"), nb::arg("gpus"));
  module.def(
      "disabled", [](const OpenMachine& self) { return json_text(unwrap(disabled_json(*self.share()))); },
      nb::arg("machine"));
  module.def("fleets", [] {
    return json_text(
        machine::to_json(unwrap(without_gil([] { return machine::list_fleets(own_options().simulator); }))));
  });
}

}  // namespace gpuwarden::python
