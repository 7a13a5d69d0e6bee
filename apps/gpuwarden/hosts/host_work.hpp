// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden host-agent` does for its launcher: as `run` and `list` do it on one machine.
#pragma once

#include <optional>

#include "command.hpp"
#include "gpuwarden/hosts/agent.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

class HostWork final : public hosts::AgentWork {
 public:
  explicit HostWork(Environment environment) : environment_(std::move(environment)) {}
  Result<hosts::Held> hold(const hosts::Order& order, const std::stop_token& stop, const hosts::RunEars& ears) override;
  hosts::Done run(const hosts::Start& start, const std::stop_token& stop, const hosts::RunEars& ears) override;
  Result<nlohmann::json> look(const std::vector<std::string>& options) override;

 private:
  Result<void> read_order(const hosts::Order& order, const hosts::RunEars& ears);
  Result<void> choose(const hosts::Order& order, const hosts::RunEars& ears);
  hosts::Done ended(const launch::RunReport& report, const Environment& ranks) const;

  Environment environment_;
  std::optional<Context> context_;
  Selection selection_;
  launch::RunOptions options_;
  launch::RunPlan plan_;
  std::optional<knowledge::Knowledge> knowledge_;
  std::optional<Machine> machine_;
  std::optional<machine::Reservation> gpus_;
};

}  // namespace gpuwarden::cli
