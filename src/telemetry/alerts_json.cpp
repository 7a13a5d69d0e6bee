// SPDX-License-Identifier: Apache-2.0
// Alerts as JSON, and the state of a book that survives a restart.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/telemetry/alerts.hpp"

namespace gpuwarden::telemetry {
namespace {

using Json = nlohmann::json;
using WallTime = std::chrono::system_clock::time_point;

Json milliseconds_of(const std::optional<WallTime>& time) {
  if (!time) return nullptr;
  return std::chrono::floor<std::chrono::milliseconds>(time->time_since_epoch()).count();
}

/// Reads the keys of an object; the first that is wrong makes an error, and the rest is left as it is.
class AlertJsonReader {
 public:
  AlertJsonReader(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) error_ = corrupt(name_, "an object");
  }

  template <class T>
  void read(const char* key, T& value) {
    if (error_) return;
    const auto at = json_.find(key);
    if (at == json_.end() || at->is_null()) return;
    if (!take(*at, value)) error_ = corrupt(fmt::format("{}.{}", name_, key), kind_of(value));
  }
  /// A list, each entry by `one(json, name of the entry)`, which gives a Result<void>.
  template <class One>
  void each(const char* key, One one) {
    if (error_) return;
    const auto at = json_.find(key);
    if (at == json_.end() || at->is_null()) return;
    if (!at->is_array()) {
      error_ = corrupt(fmt::format("{}.{}", name_, key), "a list");
      return;
    }
    for (std::size_t i = 0; i < at->size() && !error_; ++i) {
      const Result<void> done = one((*at)[i], fmt::format("{}.{}[{}]", name_, key, i));
      if (!done) error_ = done.error();
    }
  }
  void complain(const char* key, std::string_view wanted) {
    if (!error_) error_ = corrupt(fmt::format("{}.{}", name_, key), wanted);
  }
  Result<void> result() const {
    if (error_) return std::unexpected(*error_);
    return {};
  }

 private:
  static Error corrupt(const std::string& what, std::string_view wanted) {
    return {ErrorCode::corrupt, fmt::format("'{}' should be {}", what, wanted), ""};
  }
  static bool take(const Json& json, std::string& value) {
    if (!json.is_string()) return false;
    value = json.get<std::string>();
    return true;
  }
  static bool take(const Json& json, bool& value) {
    if (!json.is_boolean()) return false;
    value = json.get<bool>();
    return true;
  }
  static bool take(const Json& json, std::uint64_t& value) {
    if (!json.is_number_integer() || (!json.is_number_unsigned() && json.get<std::int64_t>() < 0)) return false;
    value = json.get<std::uint64_t>();
    return true;
  }
  static bool take(const Json& json, double& value) {
    if (!json.is_number()) return false;
    value = json.get<double>();
    return true;
  }
  /// Beyond the years that a clock can hold it is no time.
  static bool take(const Json& json, WallTime& value) {
    constexpr std::int64_t kMost = 253'402'300'800'000;  // the year 10000, in ms
    if (!json.is_number_integer()) return false;
    const auto count = json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(kMost)
                           ? -1
                           : json.get<std::int64_t>();
    // Nanoseconds in 64 bits end in 2262.
    if (count < 0 || count > 9'200'000'000'000) return false;
    value = WallTime(std::chrono::milliseconds(count));
    return true;
  }
  template <class T>
  static bool take(const Json& json, std::optional<T>& value) {
    T inner{};
    if (!take(json, inner)) return false;
    value = std::move(inner);
    return true;
  }
  static std::string_view kind_of(const std::string&) { return "a text"; }
  static std::string_view kind_of(bool) { return "true or false"; }
  static std::string_view kind_of(std::uint64_t) { return "a whole number"; }
  static std::string_view kind_of(double) { return "a number"; }
  static std::string_view kind_of(WallTime) { return "a time in milliseconds since 1970"; }
  template <class T>
  static std::string_view kind_of(const std::optional<T>&) {
    return kind_of(T{});
  }

  const Json& json_;
  std::string name_;
  std::optional<Error> error_;
};

Result<Alert> read_alert(const Json& json, const std::string& name) {
  Alert alert;
  AlertJsonReader in(json, name);
  std::string level(to_string(alert.level));
  std::uint64_t gpu = 0;
  in.read("id", alert.id);
  in.read("rule", alert.rule);
  in.read("level", level);
  in.read("gpu", gpu);
  in.read("uuid", alert.uuid.value);
  in.read("host", alert.host);
  in.read("message", alert.message);
  in.read("next_step", alert.next_step);
  in.read("condition", alert.condition);
  in.read("value", alert.value);
  in.read("unit", alert.unit);
  in.read("count", alert.count);
  in.read("since_unix_ms", alert.since);
  in.read("ended_unix_ms", alert.ended);
  in.read("acknowledged_by", alert.acknowledged_by);
  in.read("simulated", alert.simulated);
  in.read("part_of", alert.part_of);
  in.each("also", [&](const Json& entry, const std::string& at) -> Result<void> {
    if (!entry.is_string()) return fail(ErrorCode::corrupt, fmt::format("'{}' should be a text", at));
    alert.also.push_back(entry.get<std::string>());
    return {};
  });
  const auto known = alert_level_from(level);
  if (!known) in.complain("level", "INFO, WARNING, ERROR or CRITICAL");
  if (gpu > UINT32_MAX) in.complain("gpu", "an index");
  GPUWARDEN_CHECK(in.result());
  alert.level = *known;
  alert.gpu = GpuIndex{static_cast<std::uint32_t>(gpu)};
  return alert;
}

Result<Silence> read_silence(const Json& json, const std::string& name) {
  Silence silence;
  AlertJsonReader in(json, name);
  in.read("rule", silence.rule);
  in.read("uuid", silence.uuid.value);
  in.read("until_unix_ms", silence.until);
  in.read("by", silence.by);
  in.read("comment", silence.comment);
  GPUWARDEN_CHECK(in.result());
  return silence;
}

}  // namespace

Json to_json(const Alert& alert) {
  return {{"id", alert.id},
          {"rule", alert.rule},
          {"level", std::string(to_string(alert.level))},
          {"gpu", alert.gpu.value},
          {"uuid", alert.uuid.value},
          {"host", alert.host},
          {"message", alert.message},
          {"next_step", alert.next_step},
          {"condition", alert.condition},
          {"value", alert.value ? Json(*alert.value) : Json()},
          {"unit", alert.unit},
          {"count", alert.count},
          {"since_unix_ms", milliseconds_of(alert.since)},
          {"ended_unix_ms", milliseconds_of(alert.ended)},
          {"acknowledged_by", alert.acknowledged_by},
          {"simulated", alert.simulated},
          {"part_of", alert.part_of == 0 ? Json() : Json(alert.part_of)},
          {"also", alert.also}};
}

Result<Alert> alert_from_json(const Json& json) { return read_alert(json, "alert"); }

Json to_json(const AlertChange& change) {
  return {
      {"kind", std::string(to_string(change.kind))}, {"silenced", change.silenced}, {"alert", to_json(change.alert)}};
}

Json to_json(const Silence& silence) {
  return {{"rule", silence.rule},
          {"uuid", silence.uuid.value},
          {"until_unix_ms", milliseconds_of(silence.until)},
          {"by", silence.by},
          {"comment", silence.comment}};
}

Json AlertBook::state() const {
  Json tracks = Json::array();
  for (const auto& [key, track] : tracks_) {
    tracks.push_back({{"rule", key.first},
                      {"uuid", key.second},
                      {"holds_since_unix_ms", milliseconds_of(track.holds_since)},
                      {"clear_since_unix_ms", milliseconds_of(track.clear_since)},
                      {"told_unix_ms", milliseconds_of(track.told)},
                      {"alert", track.alert ? to_json(*track.alert) : Json()}});
  }
  Json silences = Json::array();
  for (const Silence& silence : silences_) silences.push_back(to_json(silence));
  Json gpus = Json::array();
  for (const auto& [uuid, known] : gpus_) {
    Json counters = Json::object();
    for (const auto& metric : facts::metrics()) {
      if (metric.kind != facts::MetricKind::counter) continue;
      if (const auto value = facts::value_of(metric, known.before)) counters[std::string(metric.id)] = *value;
    }
    gpus.push_back({{"uuid", uuid},
                    {"index", known.gpu.index.value},
                    {"name", known.gpu.name},
                    {"bus_id", known.gpu.pci_bus_id},
                    {"counters", std::move(counters)}});
  }
  return {{"version", 1},
          {"next_id", next_id_},
          {"judged_unix_ms", milliseconds_of(judged_)},
          {"tracks", std::move(tracks)},
          {"silences", std::move(silences)},
          {"gpus", std::move(gpus)}};
}

/// What is read, before it takes the place of what is there.
struct AlertBook::State {
  std::map<Key, Track> tracks;
  std::map<std::string, Known> gpus;
  std::vector<Silence> silences;

  Result<void> read_track(const Json& json, const std::string& name) {
    Key key;
    Track track;
    AlertJsonReader in(json, name);
    in.read("rule", key.first);
    in.read("uuid", key.second);
    in.read("holds_since_unix_ms", track.holds_since);
    in.read("clear_since_unix_ms", track.clear_since);
    in.read("told_unix_ms", track.told);
    GPUWARDEN_CHECK(in.result());
    const auto alert = json.find("alert");
    if (alert != json.end() && !alert->is_null()) {
      GPUWARDEN_TRY(track.alert, read_alert(*alert, name + ".alert"));
    }
    tracks[key] = std::move(track);
    return {};
  }

  Result<void> read_gpu(const Json& json, const std::string& name) {
    std::uint64_t index = 0;
    Known known;
    AlertJsonReader in(json, name);
    in.read("uuid", known.gpu.uuid.value);
    in.read("index", index);
    in.read("name", known.gpu.name);
    in.read("bus_id", known.gpu.pci_bus_id);
    if (index > UINT32_MAX) in.complain("index", "an index");
    GPUWARDEN_CHECK(in.result());
    known.gpu.index = GpuIndex{static_cast<std::uint32_t>(index)};
    GPUWARDEN_CHECK(read_counters(json.value("counters", Json::object()), name + ".counters", known));
    gpus[known.gpu.uuid.value] = std::move(known);
    return {};
  }

  static Result<void> read_counters(const Json& json, const std::string& name, Known& known) {
    AlertJsonReader in(json, name);
    for (const auto& metric : facts::metrics()) {
      if (metric.kind != facts::MetricKind::counter) continue;
      std::optional<double> value;
      in.read(std::string(metric.id).c_str(), value);
      if (value && (*value < metric.range.low || *value > metric.range.high))
        in.complain(std::string(metric.id).c_str(), "what a counter can be");
      GPUWARDEN_CHECK(in.result());
      if (!value) continue;
      facts::set_value(metric, known.before, value);
      known.has_before = true;
    }
    return in.result();
  }
};

Result<void> AlertBook::restore(const Json& json) {
  State state;
  std::uint64_t version = 0;
  std::uint64_t next_id = 1;
  Time judged{};
  AlertJsonReader in(json, "state");
  in.read("version", version);
  if (version != 1) in.complain("version", "1");
  in.read("next_id", next_id);
  in.read("judged_unix_ms", judged);
  in.each("tracks", [&](const Json& entry, const std::string& name) { return state.read_track(entry, name); });
  in.each("gpus", [&](const Json& entry, const std::string& name) { return state.read_gpu(entry, name); });
  in.each("silences", [&](const Json& entry, const std::string& name) -> Result<void> {
    GPUWARDEN_TRY(Silence silence, read_silence(entry, name));
    state.silences.push_back(std::move(silence));
    return {};
  });
  GPUWARDEN_CHECK(in.result());
  tracks_ = std::move(state.tracks);
  gpus_ = std::move(state.gpus);
  silences_ = std::move(state.silences);
  next_id_ = std::max<std::uint64_t>(next_id, 1);
  for (const auto& [key, track] : tracks_) {
    if (track.alert) next_id_ = std::max(next_id_, track.alert->id + 1);
  }
  judged_ = judged;
  resumed_ = true;
  return {};
}

}  // namespace gpuwarden::telemetry
