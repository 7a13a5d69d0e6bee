// SPDX-License-Identifier: Apache-2.0
// What a monitor tells other processes of unfit GPUs, and what it hears from those before it. One thread's own.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/lease/health_notices.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::telemetry {

class ToldHealth {
 public:
  using Log = std::function<void(const std::string&)>;
  /// Without places nothing is told or heard.
  ToldHealth(std::optional<lease::HealthPlaces> places, std::string program, std::chrono::milliseconds interval,
             Log log);

  void begin();
  void end() { publisher_.reset(); }
  /// Reads what outlives monitors; where that fails it stays as it was known last, which is logged once. Gives the
  /// verdicts that this monitor has not heard of: those of the first time that they could be read.
  std::vector<lease::Verdict> hear();
  const std::vector<lease::Acceptance>& accepted() const { return accepted_; }
  /// Between begin() and end(). What fails is logged once, and tried again with the next reading.
  void tell(std::span<const facts::Health> health, const Reading& reading);

 private:
  std::optional<lease::HealthPlaces> places_;
  std::string program_;
  std::chrono::milliseconds interval_;
  Log log_;
  std::optional<lease::HealthPublisher> publisher_;
  std::vector<lease::Acceptance> accepted_;
  bool heard_ = false;
  bool hearing_failed_ = false;
  bool telling_failed_ = false;
};

}  // namespace gpuwarden::telemetry
