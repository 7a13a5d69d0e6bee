// SPDX-License-Identifier: Apache-2.0
// A job that is started again after a failure: after a pause, on other GPUs where these were at fault, and with what
// keeps the cause from coming back where that is wanted.
//
//     auto gpus = machine::reserve(*machine, request, holder, clock);
//     const auto healed = healing::run(*plan, *machine, std::move(*gpus), {.policy = {.max_restarts = 3}}, clock);
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/healing/judgement.hpp"
#include "gpuwarden/healing/total.hpp"
#include "gpuwarden/launch/restarts.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/machine/reservation.hpp"

namespace gpuwarden::healing {

using launch::RestartPolicy;

/// A job that goes on with fewer GPUs when one is lost, and grows again when it is back.
struct Elastic {
  std::uint32_t least = 1;
  std::uint32_t most = 1;
  /// More GPUs beside those that are held: at least `least` (0: any number that is available at once), at most `most`,
  /// none of `without`.
  std::function<Result<machine::Reservation>(std::uint32_t least, std::uint32_t most, const std::vector<Uuid>& without)>
      more;
};

/// Where the nodes of a job agree on starting and restarting their ranks. All nodes are given the same, but for `node`.
struct MeetingPlace {
  std::uint32_t node = 0;  ///< this one's number; 0 is the host of the meeting
  std::uint32_t least = 2;
  std::uint32_t most = 2;
  std::string address;  ///< of node 0
  std::string key;      ///< what tells this job from others: the ports follow from it
  /// With fewer than `most` nodes the job starts when none has come for so long.
  std::chrono::milliseconds last_call = std::chrono::seconds(10);
  std::chrono::milliseconds patience = std::chrono::minutes(10);  ///< for the nodes to come
};

/// One try that failed, and what follows.
struct Attempt {
  std::uint32_t number = 0;  ///< 0: the first one
  launch::JobEnd end;        ///< without the ranks' output
  std::vector<GpuIndex> gpus;
  Judgement judgement;
  bool restarts = false;  ///< another try follows, after `pause`, with `changes`
  bool counts = true;     ///< against RestartPolicy::max_restarts; not where an elastic job lost GPUs
  std::string decision;   ///< why, or why not: a sentence
  std::chrono::milliseconds pause{0};
  Environment changes;
  std::optional<std::uint32_t> fewer_gpus;  ///< a remedy: the next try has so many
};

struct Options {
  RestartPolicy policy;
  std::optional<Elastic> elastic;
  /// Several nodes restart together. Empty: each restarts its own ranks.
  std::optional<MeetingPlace> meeting;
  /// The file or folder that changes when the program has saved its state. After that a job with fewer GPUs or nodes
  /// than it may have is ended and started again where there are more. Empty: it grows only when it is started again
  /// anyway.
  std::filesystem::path checkpoint;
  /// A GPU that was at fault is chosen again when it has been well for so long; twice as long after each further time,
  /// up to an hour.
  std::chrono::milliseconds probation = std::chrono::minutes(1);
  /// Where all GPUs of the job are gone and there are no others, it goes on with as many ranks on the CPU.
  bool cpu_fallback = false;
  /// Whether a job with a GPU far behind the others (launch::Straggler) is ended and started again without it, where
  /// restarts and time are left and another GPU is held for it first, or enough are left without it.
  bool replaces_stragglers = false;
  launch::RunOptions run;
  /// The job of each try before it is started.
  std::function<void(launch::JobSpec&, const machine::Reservation&)> starting;
  /// Each try that failed, before the pause.
  std::function<void(const Attempt&)> failed;
  /// The last try that failed, where another one was announced and cannot be made after all (Attempt::decision).
  std::function<void(const Attempt&)> gave_up;
  /// The job was ended to be started again with more GPUs: a sentence.
  std::function<void(const std::string&)> regrouped;
  /// Waits; false: the job is not to be started again. Empty: the clock's, which RunOptions::stop ends.
  std::function<bool(std::chrono::milliseconds)> pause;
  /// Waits for other nodes by calling what it is given with a token that ends the waiting. Empty: RunOptions::stop ends
  /// it.
  std::function<void(const std::function<void(const std::stop_token&)>&)> attend;
  /// GPUs for another try, without those that were at fault so far; called after the old ones were given back. Empty:
  /// such a failure is the end.
  std::function<Result<machine::Reservation>(const std::vector<Uuid>& without)> other_gpus;
  /// One GPU more beside those that are held, at once, while ranks run: none of `without`, and with at least so much
  /// memory where the first choice was made for a model. Empty: a job of a fixed number is not ended for a straggler.
  std::function<Result<machine::Reservation>(const std::vector<Uuid>& without, std::optional<Bytes> memory)> one_more;
};

/// What became of the job in the end.
struct Healed {
  launch::RunReport report;         ///< of the last try
  Total total;                      ///< of all tries
  std::vector<Attempt> failed;      ///< oldest first; the last one is the report's where that failed
  std::vector<Uuid> gpus_at_fault;  ///< of all tries
  std::uint32_t regroups = 0;       ///< how often it was started again to use more GPUs
};

/// Runs the job until it ends well, until nothing speaks for another try, or until the tries are used up. Fails as
/// launch::run() does in the first try; later that ends the job.
Result<Healed> run(const launch::RunPlan& plan, const machine::Machine& machine, machine::Reservation gpus,
                   const Options& options, Clock& clock);

/// launch::to_json() of the last try, with "total" (of all tries), "attempts" (each failed one) and "post_mortem" (the
/// last failed one's diagnosis, or null). Secrets are taken out of what programs wrote; `known` are those values that
/// are secret.
nlohmann::json to_json(const Healed& healed, std::span<const std::string> known = {});

/// What the JSON of a run says of its failure; nothing where it did not fail, or is another kind of file. Fails with
/// corrupt.
Result<std::optional<diagnosis::Diagnosis>> read_post_mortem(const std::filesystem::path& file);

/// As launch::signal_text(), of the JSON of a run; empty for another kind of file.
std::string read_signal_text(const std::filesystem::path& file);

}  // namespace gpuwarden::healing
