// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a job, looks after them, and leaves nothing behind. How: docs/internals/launch.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::launch {

/// Which of each rank's two streams are meant: bit 0 standard output, bit 1 standard error, as torchrun counts them.
struct StreamChoice {
  std::uint8_t everywhere = 0;                    ///< of ranks that are not named
  std::map<std::uint32_t, std::uint8_t> by_rank;  ///< of these, by LOCAL_RANK
  /// "3", or "0:3,12:1" for single ranks. Fails with invalid_argument.
  static Result<StreamChoice> parse(std::string_view text);
  std::uint8_t of(std::uint32_t local_rank) const;
  bool none() const { return everywhere == 0 && by_rank.empty(); }
};

/// How long a job may run, and what its ranks hear before.
struct TimeLimit {
  std::optional<Clock::SteadyTime> end;  ///< empty: as long as it likes
  bool ends_job = true;                  ///< as SIGTERM would; false: somebody else does (Slurm)
  int signal = 0;                        ///< to the ranks' own processes `before` the end; 0: none
  std::chrono::milliseconds before = std::chrono::seconds(60);
};

/// What to run and how.
struct JobSpec {
  std::vector<std::string> argv;
  std::uint32_t ranks = 1;  ///< processes on this machine (LOCAL_WORLD_SIZE)
  std::uint32_t nodes = 1;
  std::uint32_t node_rank = 0;
  std::string master_address = "127.0.0.1";
  std::optional<std::uint16_t> master_port;  ///< empty: a free one
  std::string rendezvous_id;                 ///< TORCHELASTIC_RUN_ID; empty: run_id
  std::string role = "default";              ///< ROLE_NAME
  std::uint32_t restart_count = 0;           ///< how often the job was started before
  /// How many of these starts count against max_restarts, as torchrun counts them; empty: all.
  std::optional<std::uint32_t> counted_restarts;
  /// Of all nodes' ranks, where not every node has as many as this one: how many, and how many on the nodes before.
  std::optional<std::uint32_t> world_size;
  std::optional<std::uint32_t> first_rank;
  std::uint32_t max_restarts = 0;
  std::optional<std::uint32_t> threads;  ///< OMP_NUM_THREADS of each of several ranks, where it is not set; empty: 1
  /// Value of CUDA_VISIBLE_DEVICES, comma-separated; empty for the CPU.
  std::string visible_devices;
  /// Each rank sees only its own entry of visible_devices, as device 0 (MIG instances need this).
  bool one_device_per_rank = false;
  Environment environment;            ///< what the job starts from (the caller's own)
  Environment extra_environment;      ///< set on top, e.g. GPUWARDEN_*, ACCELERATE_*, FSDP_*
  std::string run_id;                 ///< unique; reaches the job as GPUWARDEN_RUN_ID
  std::vector<int> held_descriptors;  ///< lease locks every rank and the guardian hold
  std::optional<std::filesystem::path> log_directory;
  /// Streams that go to the log alone, and those that go there and to our own; with either of them the other streams
  /// are not logged, without both of them all are logged and shown. Need a log directory.
  StreamChoice redirects;
  StreamChoice tee;
  /// LOCAL_RANKs whose output is shown; that of the others goes nowhere but into logs. Empty: all of them.
  std::optional<std::vector<std::uint32_t>> shown_ranks;
  /// Keep the end of each rank's output (RankEnd::last_output, last_words), which then goes through a pipe.
  bool keep_last_words = false;
  /// The CPUs of each rank, by LOCAL_RANK; an empty list, or none: it may use those of the launcher.
  std::vector<std::vector<unsigned>> cpus;
  bool prefix_lines = true;  ///< "[rank 3] " before each line when there are several ranks
  std::chrono::milliseconds grace = std::chrono::seconds(10);  ///< between SIGTERM and SIGKILL
  TimeLimit time_limit;
  /// The calling program is nothing but this job's launcher: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT,
  /// SIGUSR1 and SIGUSR2 go to the ranks unless the program ignores them, and a single rank gets the terminal. Else no
  /// signal of the caller's is touched; JobHooks::stop ends the job.
  bool takes_signals = false;
  /// Put the ranks into a control group (version 2) of their own where the machine lets us make one.
  bool control_group = true;
  /// A folder where the run is noted down while it lasts, for find_leftovers(); empty: nowhere.
  std::filesystem::path record_directory;
};

/// How one rank ended.
struct RankEnd {
  std::uint32_t rank = 0;
  Pid pid;
  std::optional<int> exit_code;
  std::optional<int> signal;
  /// The end of its standard output and error, at most 64 KiB of each; empty unless JobSpec::keep_last_words.
  std::string last_output;
  std::string last_words;
  std::string stacks;  ///< what it was doing when the job was given up; empty elsewhere
};

/// Why a job was ended before its ranks ended by themselves, where nobody sent a signal and nothing hung.
struct EarlyEnd {
  enum class Kind {
    gpus_lost,     ///< its GPUs are gone, and it does not notice
    no_resources,  ///< the machine's memory, or the disk of its logs, runs out
    out_of_time,   ///< JobSpec::time_limit
    regroup,       ///< it is to be started again with other ranks
    straggler,     ///< one of its GPUs is far behind the others (RunOptions::ends_for)
  };
  Kind kind{};
  std::string why;         ///< a sentence
  bool of_memory = false;  ///< of no_resources: it is the memory, of which fewer ranks need less
};
std::string_view to_string(EarlyEnd::Kind kind);

/// How the job ended. exit_code is what a shell would report: the first failing rank's code, 128 + signal for a
/// signal, 126 / 127 where the program could not be started, 130 / 143 after SIGINT / SIGTERM; 1 where all went well
/// but for output that could not be written.
struct JobEnd {
  int exit_code = 0;
  std::optional<std::uint32_t> first_failure;  ///< rank
  std::vector<RankEnd> ranks;
  std::chrono::milliseconds wall_time{0};
  std::optional<int> interrupted_by;  ///< the signal that was forwarded
  std::string given_up;               ///< JobHooks::give_up's sentence; exit_code is then 124, as timeout(1)'s
  /// exit_code is then 124 where the time was over, else the job's own, and 1 where that was 0.
  std::optional<EarlyEnd> early;
  bool lost_output = false;           ///< some of it could not be written: no space, an error of the disk
  std::vector<std::string> warnings;  ///< e.g. a left-over process that could not be ended, a guardian that was killed
};

/// Called in the launcher after a rank has started.
using OnRankStarted = std::function<void(std::uint32_t rank, Pid pid)>;

/// What the caller wants to hear meanwhile, and how he ends the job; each is called from run_job's own thread.
struct JobHooks {
  OnRankStarted rank_started;
  /// Once, as soon as a rank has failed that nobody ended; the code is what a shell would report.
  std::function<void(std::uint32_t rank, int exit_code)> first_failed;
  std::function<void()> ranks_ended;                ///< once, as soon as none runs any more
  std::function<void(const std::string&)> warning;  ///< each of JobEnd::warnings, at once
  std::stop_token stop;                             ///< as SIGTERM would
  /// Puts right what the job rests on, every kLookAfterPeriod; what it says becomes a warning.
  std::function<std::vector<std::string>()> look_after;
  /// Something came out of a rank (through a pipe: see JobSpec::keep_last_words).
  std::function<void()> output;
  /// Asked every kGiveUpPeriod about the ranks that run: a sentence where the job is to be ended, as SIGTERM would.
  std::function<std::string(const std::vector<RankEnd>& running)> give_up;
  /// Asked before give_up, likewise.
  std::function<std::optional<EarlyEnd>(const std::vector<RankEnd>& running)> end_early;
};

inline constexpr std::chrono::seconds kGiveUpPeriod{1};
inline constexpr int kGivenUp = 124;

inline constexpr std::chrono::seconds kLookAfterPeriod{10};

/// Runs the job to its end. Fails with not_found / permission_denied where argv[0] cannot be run (nothing was
/// started), with failed where processes cannot be made. May be called from any thread of any program: it waits for no
/// process but its own two guardians, adopts none, and leaves the process's signals as they are (see takes_signals).
Result<JobEnd> run_job(const JobSpec& spec, Clock& clock, const JobHooks& hooks = {});

/// A new run id: time, pid and randomness, letters, digits and '-' only.
std::string make_run_id();

}  // namespace gpuwarden::launch
