// SPDX-License-Identifier: Apache-2.0
// Choosing and holding GPUs, running jobs on them, taking them out of use.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/jobs/gpus_from.hpp"
#include "gpuwarden/jobs/job.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/machine/fleets.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "gpuwarden/machine/take_out.hpp"
#include "gpuwarden/placement/json.hpp"
#include "gpuwarden/placement/selection.hpp"
#include "gpuwarden/redact/redact.hpp"
#include "support/arguments.hpp"
#include "support/open_machine.hpp"

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

/// What is asked of the choice.
const std::vector<std::span<const ValueName>> kChoice{placement::selection_names(), jobs::waiting_names()};
/// The same, and how a job is run.
const std::vector<std::span<const ValueName>> kRun{placement::selection_names(), jobs::waiting_names(),
                                                   jobs::run_names()};

machine::ReservationRequest request_of(const json& options, bool hold) {
  const auto asked = unwrap(Arguments::read(options, kChoice));
  auto request = unwrap(asked.told(asked.gpus()));
  request.hold = hold;
  return request;
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
  const auto machine = self.share();
  const auto request = request_of(read_options(text), false);
  return json_text(unwrap(interruptible([&](const std::stop_token& stop) -> Result<json> {
    GPUWARDEN_TRY(const auto acquired, acquire(*machine, request, {.run_id = "", .command = "gpuwarden.select"}, stop));
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
  const std::string command = option_or(options, "command", "python");
  options.erase("command");
  const auto machine = self.share();
  const auto request = request_of(options, true);
  auto acquired = unwrap(interruptible([&](const std::stop_token& stop) {
    return acquire(*machine, request, {.run_id = launch::make_run_id(), .command = command}, stop);
  }));
  return std::make_unique<HeldGpus>(std::move(acquired));
}

/// The process's variables under those of "environment", which is taken out of the options.
Environment environment_of(json& options) {
  Environment environment = current_environment();
  const json variables = options.value("environment", json());
  options.erase("environment");
  if (!variables.is_null() && !variables.is_object())
    throw Refused({ErrorCode::invalid_argument, "environment: '" + json_text(variables) + "' is not a dict", ""});
  for (const auto& [name, value] : variables.items())
    environment[name] = value_as<std::string>("environment: " + name, value);
  return environment;
}

/// What is told while a job runs, in the order in which it was.
class Told {
 public:
  void hear(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    told_.push_back(text);
  }
  std::vector<std::string> all() const {
    const std::scoped_lock lock(mutex_);
    return told_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> told_;
};

/// `gpuwarden run`, whose report is the answer.
Result<json> run_job(const Machine& machine, jobs::Job job, const std::stop_token& stop) {
  GPUWARDEN_TRY(const auto knowledge, machine.knowledge());
  Told told;
  std::ranges::for_each(job.needless, [&](const std::string& sentence) { told.hear("rdzv_conf: " + sentence); });
  job.options.run.rules = knowledge.rules();
  job.options.run.stop = stop;
  job.options.run.warning = [&](const std::string& text) { told.hear(with_arguments(text)); };
  GPUWARDEN_TRY(auto gpus, jobs::hold_gpus(job, machine, system_clock(), stop));
  for (const std::string& text : machine::warnings_of(gpus, machine)) told.hear(text);
  GPUWARDEN_TRY(const auto recorder, jobs::open_recorder(job, gpus, system_clock()));
  if (recorder) job.options.run.hear = [&](telemetry::Reading reading) { recorder->add(std::move(reading)); };
  const auto healed = jobs::run(job, machine, std::move(gpus), system_clock());
  if (recorder) recorder->finish(healed ? std::optional(healed->report.end.exit_code) : std::nullopt);
  if (!healed) return std::unexpected(healed.error());
  json answer = healing::to_json(*healed, redact::secret_values(job.plan.job.environment));
  answer["warnings"] = told.all();
  return answer;
}

std::string run(const OpenMachine& self, std::vector<std::string> argv, const std::string& text) {
  json options = read_options(text);
  Environment environment = environment_of(options);
  const auto asked = unwrap(Arguments::read(options, kRun));
  const auto machine = self.share();
  if (machine->captured())
    raise({ErrorCode::invalid_argument, "nothing runs on a captured machine", "open it with simulate=FILE"});
  auto gpus = unwrap(asked.told(asked.gpus()));
  auto job = unwrap(asked.told(jobs::job_from(
      asked.values(), {.argv = std::move(argv), .environment = std::move(environment), .gpus = std::move(gpus)})));
  unwrap(launch::check_program(job.plan.job.argv[0], job.plan.job.environment));
  return json_text(unwrap(
      asked.told(interruptible([&](const std::stop_token& stop) { return run_job(*machine, std::move(job), stop); }))));
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
