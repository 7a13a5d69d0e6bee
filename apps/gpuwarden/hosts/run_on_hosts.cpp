// SPDX-License-Identifier: Apache-2.0
#include "hosts/run_on_hosts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/jobs/on_hosts.hpp"
#include "hosts/hosts_text.hpp"
#include "options.hpp"
#include "run/report_text.hpp"

namespace gpuwarden::cli {
namespace {

Result<hosts::JobOnHosts> read_job_on_hosts(const Context& context) {
  const auto gpus = [&]() -> Result<placement::Request> {
    Context one = context;
    one.args.forget("gpus");
    one.args.forget("nproc-per-node");  // --gpus says how many GPUs there are
    GPUWARDEN_TRY(const Selection selection, read_selection(one));
    return selection.request;
  };
  return jobs::job_on_hosts_from(context.args, {.argv = context.args.rest,
                                                .environment = context.environment,
                                                .version = GPUWARDEN_VERSION,
                                                .options = option_words(context, jobs::names_kept_from_hosts()),
                                                .gpus = gpus,
                                                .warning = [](const std::string& text) { warn(text); }});
}

int write_report(const Context& context, const hosts::HostsReport& report, const hosts::JobOnHosts& job) {
  const int code = report.last.exit_code == 0 && report.lost_output ? kNo : report.last.exit_code;
  std::vector<ReportFile> files;
  if (const auto file = context.args.text("report"))
    files.push_back({*file, facts::json_text(hosts::to_json(report, job))});
  if (const auto file = context.args.text("post-mortem"); file && code != kFine) {
    const auto first_failed = hosts::post_mortem_of(report.last);
    if (first_failed)
      files.push_back({*file, facts::json_text(*first_failed)});
    else
      warn(fmt::format("no host has told why it failed: {} is not written", printable(*file)));
  }
  return write_reports(files, code);
}

}  // namespace

Result<int> run_on_hosts(Context& context) {
  GPUWARDEN_CHECK(fall_back_to_run_config(context));
  GPUWARDEN_TRY(const auto job, read_job_on_hosts(context));
  const bool quiet = context.args.has("quiet");
  hosts::HostsHooks hooks;
  std::string unsaid;
  hooks.warning = [&](const std::string& text) { unsaid += warning_line(text); };
  hooks.starting = [&](const std::vector<hosts::HostEnd>& hosts, const hosts::Start& first) {
    if (!quiet) unsaid += hosts_start_text(hosts, first);
  };
  hooks.failed = [&](const hosts::HostsTry& one) {
    if (!quiet && job.restarts.max_restarts > 0) unsaid += hosts_try_text(one);
  };
  hooks.to_tell = [&] { return std::exchange(unsaid, {}); };
  const auto links = hosts::start_links();
  GPUWARDEN_TRY(const auto report, hosts::run_on_hosts(job, *links, hooks, system_clock()));
  if (!quiet && !context.args.has("no-report")) say("{}", hosts_report_text(report));
  return write_report(context, report, job);
}

}  // namespace gpuwarden::cli
