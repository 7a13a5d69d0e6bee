// SPDX-License-Identifier: Apache-2.0
#include "support/open_machine.hpp"

#include <dlfcn.h>

#include "gpuwarden/logs/captures.hpp"
#include "gpuwarden/logs/recognise.hpp"

namespace gpuwarden::python {

Result<std::shared_ptr<OpenMachine>> OpenMachine::open(machine::Source source, machine::Options options) {
  GPUWARDEN_TRY(machine::Machine machine, machine::Machine::open(std::move(source), std::move(options)));
  auto opened = std::make_shared<OpenMachine>();
  opened->machine_ = std::make_shared<const machine::Machine>(std::move(machine));
  return opened;
}

Result<std::shared_ptr<OpenMachine>> OpenMachine::open(std::vector<capture::NamedText> texts,
                                                       machine::Options options) {
  const std::string name = texts.empty() ? "" : texts.front().name;
  auto capture = logs::join_captures(texts);
  if (!capture) {
    // It may be a log alone, which the doctor reads.
    auto known = logs::recognise_all(texts);
    if (!known) return std::unexpected(std::move(capture.error()));
    GPUWARDEN_TRY(auto opened, open(machine::Captured{std::move(known->facts.snapshot), name}, std::move(options)));
    opened->without_facts_ = std::move(capture.error());
    opened->texts_ = std::move(texts);
    return opened;
  }
  GPUWARDEN_TRY(auto opened, open(machine::Captured{std::move(capture->snapshot), name}, std::move(options)));
  opened->texts_ = std::move(texts);
  return opened;
}

Result<OpenMachine::Patient> OpenMachine::patient(std::shared_ptr<const machine::Machine> machine) const {
  if (texts_.empty()) return Patient{std::move(machine), {}};
  GPUWARDEN_TRY(auto known, logs::recognise_all(texts_));
  GPUWARDEN_TRY(auto whole,
                machine::Machine::open(machine::Captured{std::move(known.facts.snapshot), machine->capture_name()},
                                       machine->options()));
  return Patient{std::make_shared<const machine::Machine>(std::move(whole)), std::move(known.told)};
}

std::shared_ptr<const machine::Machine> OpenMachine::share() const {
  if (without_facts_) raise(*without_facts_);
  return share_any();
}

std::shared_ptr<const machine::Machine> OpenMachine::share_any() const {
  owner_.check("Machine");
  const std::scoped_lock lock(mutex_);
  if (!machine_) raise({ErrorCode::unavailable, "this Machine is closed", "open another: gpuwarden.Machine()"});
  return machine_;
}

const machine::Machine& OpenMachine::get() const { return *share(); }

void OpenMachine::close() {
  if (!owner_.here()) return;  // the parent's connection is not this process's to end
  std::shared_ptr<const machine::Machine> last;
  std::shared_ptr<Reading> reading;
  {
    const std::scoped_lock lock(mutex_);
    last = std::move(machine_);
    reading = std::move(reading_);
  }
  if (!reading) return;
  const nb::gil_scoped_release without_gil;
  // Behind whatever another thread reads just now.
  reading->worker.start([&reading] { reading->reader.reset(); }).get();
  reading.reset();
}

OpenMachine::~OpenMachine() {
  if (owner_.here() || !reading_) return;
  // A forked child has the memory of the thread and the reader, but neither: they are the parent's to end.
  [[maybe_unused]] auto* kept = new std::shared_ptr<Reading>(std::move(reading_));
}

bool OpenMachine::closed() const {
  const std::scoped_lock lock(mutex_);
  return machine_ == nullptr;
}

facts::Snapshot OpenMachine::read(const probe::ReadRequest& request) {
  const auto machine = share();
  if (machine->captured()) return *machine->captured();
  std::shared_ptr<Reading> reading;
  {
    const std::scoped_lock lock(mutex_);
    if (!reading_) reading_ = std::make_shared<Reading>();
    reading = reading_;
  }
  std::stop_source stop;
  probe::ReadRequest wanted = request;
  wanted.stop = stop.get_token();
  // Waited for here, and not in one more thread as interruptible() does: what is read most often is not to be slowed.
  auto read = reading->worker.start([&reading = *reading, &machine, &wanted] {
    if (!reading.reader) reading.reader = std::make_unique<probe::MachineReader>(machine->reader());
    return reading.reader->read(wanted);
  });
  while (without_gil([&] { return read.wait_for(kSignalPeriod); }) != std::future_status::ready) {
    if (PyErr_CheckSignals() == 0) continue;
    nb::python_error raised;  // takes what was raised
    stop.request_stop();
    without_gil([&] {
      read.wait();
      return 0;
    });
    throw raised;
  }
  return read.get();
}

std::filesystem::path native_folder() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&native_folder), &here) == 0 || here.dli_fname == nullptr) return {};
  std::error_code ignored;
  return std::filesystem::absolute(here.dli_fname, ignored).parent_path() / "_native";
}

machine::SurveyOptions survey_options(const nlohmann::json& options) {
  std::error_code ignored;
  return {.root = option_or(options, "root", "/"),
          .software = option_or(options, "software", true),
          .start_pythons = option_or(options, "ask_pythons", false),
          .working_directory = std::filesystem::current_path(ignored)};
}

machine::Options own_options() {
  machine::Options options = machine::options_from(current_environment());
  if (options.simulator.libraries.empty()) options.simulator.libraries = native_folder() / "lib/gpuwarden/sim";
  return options;
}

}  // namespace gpuwarden::python
