// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/programs.hpp"

#include <fmt/format.h>

#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::slurm {
namespace {

/// A controller at work may take its time; Slurm's own clients wait 10 s for each try (MessageTimeout).
constexpr std::chrono::seconds kPatience{60};
/// Some KiB for each node and each job of a great cluster.
constexpr std::size_t kMostAnswer = std::size_t{128} << 20U;
/// slurm.conf is on no path, and DNS knows no server of it: the programs are installed, and no cluster is joined.
constexpr const char* kNoCluster = "Could not establish a configuration source";
constexpr const char* kAbsent = "this machine has no Slurm; try where sinfo works: a login node of the cluster";

class RealPrograms final : public Programs {
 public:
  explicit RealPrograms(Environment environment) : environment_(std::move(environment)) {}
  Result<Completed> run(const Command& command) override {
    Command own = command;
    own.environment = environment_;
    return run_command(own);
  }

 private:
  Environment environment_;
};

/// The program's last words, without its own name before each: "sbatch: error: ...".
std::string words_of(const Completed& done, const std::string& program) {
  std::string text;
  for (std::string_view line : split(done.standard_error.empty() ? done.standard_output : done.standard_error, '\n')) {
    line = trim(line);
    if (line.starts_with(program + ": ")) line.remove_prefix(program.size() + 2);
    if (line.starts_with("error: ")) line.remove_prefix(7);
    if (line.empty()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : "; ", printable(line));
  }
  return text.empty() ? fmt::format("exit code {}", done.exit_code.value_or(-1)) : text;
}

}  // namespace

std::unique_ptr<Programs> real_programs(Environment environment) {
  return std::make_unique<RealPrograms>(std::move(environment));
}

bool has_cluster(Programs& programs) {
  const auto done = programs.run({.argv = {"scontrol", "show", "config"}, .deadline = kPatience});
  return done && !done->standard_error.contains(kNoCluster);
}

Result<std::string> output_of(Programs& programs, std::vector<std::string> argv, ErrorCode code,
                              std::string standard_input) {
  const std::string program = argv.at(0);
  auto done = programs.run({.argv = std::move(argv),
                            .standard_input = std::move(standard_input),
                            .deadline = kPatience,
                            .output_cap = kMostAnswer});
  if (!done) return fail(ErrorCode::unavailable, fmt::format("cannot start {}", program), kAbsent);
  if (done->timed_out)
    return fail(ErrorCode::unavailable, fmt::format("{} did not answer within {} s", program, kPatience.count()),
                "Slurm's controller may be down: scontrol ping");
  // Half a table would be taken for the whole cluster.
  if (done->truncated) return fail(ErrorCode::corrupt, fmt::format("{} prints more than is read", program));
  if (done->exit_code == 0) return std::move(done->standard_output);
  const std::string words = words_of(*done, program);
  if (words.contains(kNoCluster))
    return fail(ErrorCode::unavailable,
                fmt::format("{} finds no Slurm cluster: neither a slurm.conf nor a server that has one", program),
                "try on a login node of the cluster; SLURM_CONF names its slurm.conf");
  if (words.contains("Unable to contact slurm controller"))
    return fail(ErrorCode::unavailable, fmt::format("{}: {}", program, words), "see scontrol ping");
  return fail(code, fmt::format("{}: {}", program, words));
}

}  // namespace gpuwarden::slurm
