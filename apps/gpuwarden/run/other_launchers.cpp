// SPDX-License-Identifier: Apache-2.0
#include "run/other_launchers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/jobs/on_hosts.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/launch/torchrun_words.hpp"

namespace gpuwarden::cli {

Result<void> fall_back_to_torchrun_environment(Context& context) {
  Args& args = context.args;
  if (jobs::names_hosts(args) || args.has("slurm") || args.has("end-leftovers")) return {};
  GPUWARDEN_TRY(auto defaults, launch::torchrun_defaults(context.environment));
  Args said;
  for (const launch::TorchrunDefault& one : launch::which_count(std::move(defaults), args)) {
    auto parsed = parse_arguments(*context.command, {one.word()});
    if (!parsed) {
      Error error = parsed.error();
      error.message = fmt::format("{}: {}", one.variable, error.message);
      return std::unexpected(std::move(error));
    }
    if (!args.has("quiet")) {
      for (const std::string& sentence : taken_sentences(parsed->taken)) warn(sentence);
    }
    said.fall_back_to(*parsed);
    said.came_from(std::string(one.option), one.variable);
  }
  args.fall_back_to(said);
  return {};
}

Error refusal_of(const Args& args, const Selection& selection, Error error) {
  const bool too_few = error.code == ErrorCode::unsatisfied || error.code == ErrorCode::unavailable;
  const auto ranks = jobs::several_ranks(args);
  const bool said = args.has("num-gpus") || args.has("gpu-ids") || args.has("all") || selection.request.work ||
                    placement::request_from(selection.config).count;
  if (!too_few || said || !ranks || !*ranks || selection.request.count != *ranks) return error;
  const std::string share =
      fmt::format("each of the {0} ranks takes a GPU; on one GPU they share: -n 1 --nproc-per-node {0}", **ranks);
  error.hint = error.hint.empty() ? share : fmt::format("{}; {}", share, error.hint);
  return error;
}

Result<void> refuse_deepspeeds_count(const Context& context) {
  static constexpr std::string_view kTyped = "--num_gpus";
  const Args& args = context.args;
  if (args.has("nproc-per-node") || args.has("config") || args.text("num-gpus").value_or("1") == "1") return {};
  // The command's own words are its own.
  const std::size_t own = context.typed.size() - std::min(context.typed.size(), args.rest.size());
  for (std::size_t i = 0; i < own && context.typed[i] != "--"; ++i) {
    const std::string_view word = context.typed[i];
    if (word != kTyped && !(word.starts_with(kTyped) && word.substr(kTyped.size()).starts_with('='))) continue;
    const std::string count = printable(*args.text("num-gpus"));
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--num_gpus {} is a rank for each GPU in DeepSpeed, and one process with all of them here", count),
        fmt::format("write --nproc-per-node {0} for the ranks, -n {0} for one process", count));
  }
  return {};
}

}  // namespace gpuwarden::cli
