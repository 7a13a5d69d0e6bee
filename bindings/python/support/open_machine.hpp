// SPDX-License-Identifier: Apache-2.0
// The machine as Python holds it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "support/support.hpp"
#include "support/worker.hpp"

namespace gpuwarden::python {

/// A machine that is open, until it is closed. Thread-safe.
class OpenMachine {
 public:
  OpenMachine() = default;
  OpenMachine(const OpenMachine&) = delete;
  OpenMachine& operator=(const OpenMachine&) = delete;
  ~OpenMachine();
  /// Fails as machine::Machine::open does; `source` is what the machine is, the environment is the process's.
  static Result<std::shared_ptr<OpenMachine>> open(machine::Source source, machine::Options options);
  /// One that texts stand for. Where they are logs alone it is there to be examined, and what needs facts raises.
  static Result<std::shared_ptr<OpenMachine>> open(std::vector<capture::NamedText> texts, machine::Options options);

  /// The machine; raises where it is closed, in a forked child, or where nothing tells its facts.
  const machine::Machine& get() const;
  /// The same, to be kept for as long as some work goes on without the interpreter's lock.
  std::shared_ptr<const machine::Machine> share() const;
  /// The same, also where nothing tells its facts.
  std::shared_ptr<const machine::Machine> share_any() const;
  /// What the doctor looks at: the machine by all that its texts tell. Needs no lock of the interpreter's.
  struct Patient {
    std::shared_ptr<const machine::Machine> machine;
    std::vector<doctor::ToldFinding> told;
  };
  Result<Patient> patient(std::shared_ptr<const machine::Machine> machine) const;
  void close();
  bool closed() const;

  /// Reads with a reader that stays open between calls. Raises as get().
  facts::Snapshot read(const probe::ReadRequest& request);

 private:
  Owner owner_;
  mutable std::mutex mutex_;
  std::shared_ptr<const machine::Machine> machine_;
  std::vector<capture::NamedText> texts_;  ///< that stand for it, where there are such
  std::optional<Error> without_facts_;
  /// The reader, which only the worker's thread touches: its process lives as long as the thread that started it.
  struct Reading {
    std::unique_ptr<probe::MachineReader> reader;
    Worker worker;
  };
  std::shared_ptr<Reading> reading_;
};

/// GPUWARDEN_* of the process's environment, the simulator's libraries and programs that lie beside this module.
machine::Options own_options();
/// What judges look at beside the GPUs: "root", "software", "ask_pythons". Throws Refused.
machine::SurveyOptions survey_options(const nlohmann::json& options);
/// The folder of this module with bin/ and lib/ of the programs that came with it.
std::filesystem::path native_folder();

}  // namespace gpuwarden::python
