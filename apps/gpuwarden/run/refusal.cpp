// SPDX-License-Identifier: Apache-2.0
#include "run/refusal.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::cli {

void write_refusal(const Context& context, const Machine& machine, const placement::Decision& refused,
                   const Error& error, int exit_code) {
  using nlohmann::json;
  using Kind = placement::Verdict::Kind;
  const auto file = context.args.text("report");
  if (!file) return;
  json trouble = json::array();
  for (const placement::Verdict& one : refused.verdicts) {
    if (one.kind != Kind::unhealthy && one.kind != Kind::disabled) continue;
    trouble.push_back({{"index", one.device.index.value}, {"uuid", one.device.uuid.value}, {"cause", one.reason}});
  }
  const json document{{"schema", facts::kJsonSchema},
                      {"simulated", machine.simulated()},
                      {"exit_code", exit_code},
                      {"error", {{"code", to_string(error.code)}, {"message", error.message}, {"hint", error.hint}}},
                      {"gpus_in_trouble", trouble}};
  const auto written = write_output(*file, document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  if (!written) complain(written.error());
}

}  // namespace gpuwarden::cli
