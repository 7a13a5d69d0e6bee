// SPDX-License-Identifier: Apache-2.0
// Judges readings by alert rules. Pure: time comes with the readings, and what was decided is handed back.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/gpu.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::telemetry {

/// An alert that lasts, or has just ended.
struct Alert {
  std::uint64_t id = 0;  ///< the same for as long as it lasts; never used again in one state file
  std::string rule;
  AlertLevel level = AlertLevel::warning;
  GpuIndex gpu;
  Uuid uuid;
  std::string host;
  std::string message;
  std::string next_step;
  std::string condition;        ///< the rule's expression
  std::optional<double> value;  ///< of the first number in it, at the last reading in which it was known
  std::string unit;
  std::uint64_t count = 1;  ///< of events: in how many readings they happened since it began
  std::chrono::system_clock::time_point since{};
  std::optional<std::chrono::system_clock::time_point> ended;
  std::string acknowledged_by;  ///< empty: by nobody; an acknowledged alert is not repeated
  bool simulated = false;
  std::uint64_t part_of = 0;      ///< the alert that it is folded into, since it follows from it; 0: none
  std::vector<std::string> also;  ///< messages of those that are folded into it

  bool operator==(const Alert&) const = default;
};

/// Alerts that match are not told until it ends.
struct Silence {
  std::string rule;  ///< empty: all
  Uuid uuid;         ///< empty: all GPUs
  std::chrono::system_clock::time_point until{};
  std::string by;
  std::string comment;

  bool operator==(const Silence&) const = default;
};

/// What a reading changed.
struct AlertChange {
  enum class Kind { began, repeated, ended };
  Kind kind = Kind::began;
  Alert alert;
  bool silenced = false;  ///< shown, but not told to sinks
};
std::string_view to_string(AlertChange::Kind kind);

/// Keeps what lasts. Not thread-safe.
///
/// What is not known neither begins nor ends an alert, and its time does not count. A GPU that was read before and is
/// missing from a reading whose driver answers is judged as one whose state is `lost`, of which nothing else is known;
/// until it is back nothing of it ends. What follows from another alert of the GPU (AlertRule::part_of) is folded into
/// it: it is neither told nor listed, and that one lasts until all of it has ended. After restore() acknowledged alerts
/// of a GPU that is missing are dropped: it was taken out of the machine.
class AlertBook {
 public:
  explicit AlertBook(std::vector<AlertRule> rules);

  /// Judges a reading. How long something holds is counted by Reading::when, so that a clock that is set forward or
  /// back neither begins nor ends anything; readings without it are counted by the time of day, and a clock that is set
  /// back is then taken as standing still. Silences end by the time of day.
  std::vector<AlertChange> judge(const Reading& reading, std::span<const facts::Health> health = {});
  /// Those that last, worst and oldest first, without those that are folded into others.
  std::vector<Alert> active() const;
  /// Fails with not_found for an id that is not active.
  Result<void> acknowledge(std::uint64_t id, std::string by);
  /// Fails with not_found where it is for a rule that there is not, or a GPU that never was, with the nearest.
  Result<void> check(const Silence& silence) const;
  void silence(Silence silence);
  const std::vector<Silence>& silences() const { return silences_; }
  /// Ends the silences of just this rule and GPU; whether there was one.
  bool end_silence(std::string_view rule, const Uuid& uuid);
  /// Other rules; what lasts by a rule that is still there goes on, what lasts by another ends with the next reading.
  void set_rules(std::vector<AlertRule> rules);
  const std::vector<AlertRule>& rules() const { return rules_; }
  /// The rule with this id; nullptr where there is none.
  const AlertRule* find_rule(std::string_view id) const;

  /// The state that survives a restart, and back. Fails with corrupt, naming the key; the book is then unchanged.
  nlohmann::json state() const;
  Result<void> restore(const nlohmann::json& state);

 private:
  using Time = std::chrono::system_clock::time_point;
  struct Track {
    std::optional<Time> holds_since;
    std::optional<Time> clear_since;
    std::optional<Time> told;
    std::optional<Alert> alert;
  };
  /// A GPU that was read before, and its counters then.
  struct Known {
    facts::Gpu gpu;
    facts::GpuSample before;
    bool has_before = false;
  };
  using Key = std::pair<std::string, std::string>;  ///< rule and UUID
  struct Moment;
  struct State;

  void shift(Time::duration gap, bool told_too);
  void resume(Time now, const Reading& reading);
  void name_tracks(const facts::GpuRecord& record);
  static void remember(const facts::GpuSample& sample, Known& known);
  void end_without_rule(Moment& moment);
  void judge_gpu(const facts::GpuRecord& record, const std::string& uuid, Moment& moment);
  void judge_missing(Moment& moment);
  void judge_rule(const AlertRule& rule, const Subject& subject, Moment& moment);
  void begin(const AlertRule& rule, const Subject& subject, Track& track, Moment& moment);
  void go_on(const AlertRule& rule, const Subject& subject, Track& track, Moment& moment);
  void remind(const AlertRule& rule, Track& track, Moment& moment) const;
  bool is_silenced(const Alert& alert, Time now) const;
  const Alert* root_for(const AlertRule& rule, const std::string& uuid) const;
  void take_over(const Alert& root, Moment& moment);
  void move_parts(std::uint64_t from, std::uint64_t to);
  bool has_parts(std::uint64_t id) const;
  void free_orphans();
  std::vector<std::string> parts_of(std::uint64_t id) const;
  std::string key_of(const facts::GpuRecord& record) const;

  std::vector<AlertRule> rules_;
  std::vector<std::size_t> order_;  ///< in which the rules are judged: what others follow from comes first
  bool needs_before_ = false;
  std::map<Key, Track> tracks_;
  std::map<std::string, Known> gpus_;  ///< by UUID
  std::vector<Silence> silences_;
  std::uint64_t next_id_ = 1;
  Time judged_{};  ///< the last reading
  Clock::SteadyTime judged_when_{};
  bool resumed_ = false;  ///< restored, and not judged since
};

nlohmann::json to_json(const AlertChange& change);
nlohmann::json to_json(const Silence& silence);
nlohmann::json to_json(const Alert& alert);
Result<Alert> alert_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::telemetry
