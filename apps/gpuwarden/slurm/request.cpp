// SPDX-License-Identifier: Apache-2.0
#include "slurm/request.hpp"

#include <filesystem>
#include <system_error>

#include "options.hpp"
#include "slurm/job_options.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;

/// The run's own options, as they were given.
std::vector<std::string> forwarded(const Context& context) {
  const auto kept = jobs::names_kept_from_nodes();
  std::vector<std::string> ours(kept.begin(), kept.end());
  for (const Option& option : kSlurmJobOptions) ours.push_back(key_of(option));
  for (const Option& option : kSlurmRunOptions) ours.push_back(key_of(option));
  auto words = option_words(context, std::vector<std::string_view>(ours.begin(), ours.end()));
  if (const auto config = context.args.text("config")) {
    words.push_back("--config=" + fs::absolute(*config).string());
    // What the file says of restarts is done here, by submitting the job again.
    words.emplace_back("--max-restarts=0");
  }
  return words;
}

}  // namespace

std::string node_program(const Args& args) {
  if (const auto program = args.text("remote-program")) return *program;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  return error ? "gpuwarden" : own.string();
}

Result<jobs::SlurmJob> read_slurm_job(Context& context, slurm::Programs& programs,
                                      Result<slurm::Site> (*read_site)(slurm::Programs&)) {
  // A file is checked here, not only on the nodes, which read it too.
  GPUWARDEN_TRY(const auto from_file, fall_back_to_config(context));
  GPUWARDEN_CHECK(jobs::check_file_for_slurm(from_file, context.args.text("config").value_or("")));
  GPUWARDEN_CHECK(jobs::check_for_slurm(context.args));
  GPUWARDEN_TRY(const slurm::Site site, read_site(programs));
  return jobs::slurm_job_from(context.args, {context.args.rest, node_program(context.args), forwarded(context)}, site);
}

}  // namespace gpuwarden::cli
