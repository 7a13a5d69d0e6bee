// SPDX-License-Identifier: Apache-2.0
#include "support/open_machine.hpp"

#include <dlfcn.h>

namespace gpuwarden::python {

Result<std::shared_ptr<OpenMachine>> OpenMachine::open(machine::Source source, machine::Options options) {
  GPUWARDEN_TRY(machine::Machine machine, machine::Machine::open(std::move(source), std::move(options)));
  auto opened = std::make_shared<OpenMachine>();
  opened->machine_ = std::make_shared<const machine::Machine>(std::move(machine));
  return opened;
}

std::shared_ptr<const machine::Machine> OpenMachine::share() const {
  owner_.check("Machine");
  const std::scoped_lock lock(mutex_);
  if (!machine_) raise({ErrorCode::unavailable, "this Machine is closed", "open another: gpuwarden.Machine()"});
  return machine_;
}

const machine::Machine& OpenMachine::get() const { return *share(); }

void OpenMachine::close() {
  if (!owner_.here()) return;  // the parent's connection is not this process's to end
  std::shared_ptr<const machine::Machine> last;
  {
    const std::scoped_lock lock(mutex_);
    last = std::move(machine_);
  }
  const nb::gil_scoped_release without_gil;
  const std::scoped_lock lock(reading_);
  reader_.reset();
  worker_.reset();
}

OpenMachine::~OpenMachine() {
  if (owner_.here()) return;
  // A forked child has the memory of the thread and the reader, but neither: they are the parent's to end.
  [[maybe_unused]] auto* worker = worker_.release();
  [[maybe_unused]] auto* reader = reader_.release();
}

bool OpenMachine::closed() const {
  const std::scoped_lock lock(mutex_);
  return machine_ == nullptr;
}

facts::Snapshot OpenMachine::read(const probe::ReadRequest& request) {
  const auto machine = share();
  if (machine->captured()) return *machine->captured();
  return interruptible([&](const std::stop_token& stop) {
    probe::ReadRequest wanted = request;
    wanted.stop = stop;
    const std::scoped_lock lock(reading_);
    if (!worker_) worker_ = std::make_unique<Worker>();
    return worker_->run([&] {
      if (!reader_) reader_ = std::make_unique<probe::MachineReader>(machine->reader());
      return reader_->read(wanted);
    });
  });
}

std::filesystem::path native_folder() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&native_folder), &here) == 0 || here.dli_fname == nullptr) return {};
  std::error_code ignored;
  return std::filesystem::absolute(here.dli_fname, ignored).parent_path() / "_native";
}

machine::Options own_options() {
  machine::Options options = machine::options_from(current_environment());
  if (options.simulator.libraries.empty()) options.simulator.libraries = native_folder() / "lib/gpuwarden/sim";
  return options;
}

}  // namespace gpuwarden::python
