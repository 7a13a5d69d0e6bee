// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/examine.hpp"

#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/doctor/leftovers.hpp"
#include "gpuwarden/machine/lease_watch.hpp"

namespace gpuwarden::machine {

Result<doctor::ExaminationRequest> read_examination(const NamedValues& values, const knowledge::Knowledge& knowledge) {
  GPUWARDEN_TRY(auto request, doctor::read_request(values, knowledge));
  const auto file = values.text("expect");
  if (!file) return request;
  GPUWARDEN_TRY(const std::string text, read_file(*file));
  GPUWARDEN_TRY(request.expected, doctor::parse_expected(text, *file));
  return request;
}

doctor::MachineReport report_of(const Examined& examined, const doctor::ExaminationRequest& request) {
  return {examined.examination, examined.snapshot, request.purpose, examined.burn_in ? &*examined.burn_in : nullptr};
}

Result<Examined> examine(const Machine& machine, const knowledge::Knowledge& knowledge,
                         const doctor::ExaminationRequest& request, ExaminationScope scope) {
  Examined done;
  done.snapshot = machine.survey(
      scope.survey, {.detail = probe::Detail::full, .links = true, .holders = true, .stop = std::move(scope.stop)});
  if (scope.test) {
    GPUWARDEN_TRY(done.burn_in, scope.test(done.snapshot));
  }
  done.examination = doctor::examine(done.snapshot, knowledge, request.purpose, request.choice,
                                     done.burn_in ? &*done.burn_in : nullptr);
  doctor::add_told(done.examination, std::move(scope.told), request.choice);
  if (!machine.captured())
    doctor::add_leftovers(done.examination, done.snapshot, watch_leases(machine)(done.snapshot), request.choice);
  if (request.expected) doctor::add_expected(done.examination, done.snapshot, *request.expected);
  return done;
}

}  // namespace gpuwarden::machine
