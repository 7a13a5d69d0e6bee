// SPDX-License-Identifier: Apache-2.0
// What the server answers: rows of a table. Without sockets, so that everything can be asked in process.
//
//     const Response response = serve::answer(sources, {.path = "/api/v1/nodes"});
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/serve/access.hpp"
#include "gpuwarden/serve/events.hpp"
#include "gpuwarden/serve/http.hpp"
#include "gpuwarden/serve/metrics.hpp"
#include "gpuwarden/serve/page.hpp"
#include "gpuwarden/serve/watch.hpp"

namespace gpuwarden::serve {

/// What changes the machine; an empty function: this server cannot do it.
struct Actions {
  /// Sends a signal to a process, which is on a GPU, for the one who asks.
  std::function<Result<void>(Pid, int, const Peer&)> signal;
  std::function<Result<void>(const facts::Disabling&)> disable;
  std::function<Result<void>(const Uuid&)> enable;
  /// For whom what `disable` disables is out of use; empty: for everybody.
  std::string disables_for;
  /// Gives the limit that holds then.
  std::function<Result<Milliwatts>(const Uuid&, Milliwatts)> set_power_limit;
};

/// Answers about nodes that were made before, so that a large cluster is not written anew for every reader.
class NodeTexts {
 public:
  /// The text for what `key` tells apart, made where it is not there.
  std::string get(const std::string& node, const std::string& key, const std::function<std::string()>& make);
  /// Forgets all where there are more than `most`: nodes come and go, and texts of those that went stay.
  void bound(std::size_t most);

 private:
  struct Text {
    std::string key;
    std::string text;
  };
  std::mutex mutex_;
  std::map<std::string, Text> texts_;
};

/// All that answers are made of. What is pointed at outlives it.
struct Sources {
  Watch* watch = nullptr;
  const cluster::NodeSource* nodes = nullptr;  ///< the other machines; may be nullptr
  const Access* access = nullptr;
  Sessions* sessions = nullptr;
  EventHub* events = nullptr;
  const Tally* tally = nullptr;
  NodeTexts* texts = nullptr;
  Clock* clock = &system_clock();
  /// Takes secrets out of a command line.
  std::function<std::string(std::string_view)> redact;
  /// Whether alerts of the rule with this id quote command lines; empty: none does.
  std::function<bool(std::string_view)> quotes_commands;
  /// Why it is not known who has reserved GPUs, or which are disabled; empty, or giving nothing: it is.
  std::function<std::optional<Error>()> leases_problem;
  std::function<std::optional<Error>()> disablings_problem;
  /// What is out of use now, by people or by what monitors judge; empty: that is not looked up.
  std::function<std::vector<facts::Disabling>()> disabled;
  Actions actions;
  MetricsOptions metrics;
  std::chrono::milliseconds interval = std::chrono::seconds(1);  ///< between readings
  std::string host;                                              ///< this machine's name
  std::span<const PageFile> page;
};

/// Why what is known of this machine must not be shown as its state: there is no reading, or it is older than three
/// intervals and ten seconds. Nothing while it may.
std::optional<Error> not_fresh(const Sources& sources);
/// Why this server has nothing to tell of GPUs that work could be given to: not_fresh(), or the driver as a whole does
/// not answer. Nothing where it is ready.
std::optional<Error> not_ready(const Sources& sources);

/// One parameter of a query, or of a path ("{id}").
struct Parameter {
  std::string_view name;
  std::string_view type;  ///< of JSON Schema: "string", "number", "integer", "boolean"
  std::string_view help;
  bool required = false;
};

struct Call;

/// What is answered under a path. A part in braces stands for anything and is a parameter.
struct Route {
  Method method = Method::get;
  std::string_view path;
  std::string_view help;
  Response (*answer)(const Call&) = nullptr;
  bool changes = false;  ///< needs the token and --allow-actions
  bool open = false;     ///< answered to everybody, also where reading needs the token
  std::span<const Parameter> parameters;
  std::string_view type = "application/json";  ///< of the answer
  std::string_view schema = {};                ///< of the answer, by its name in schemas()
  std::string_view body = {};                  ///< of what is posted
  /// Reads or writes files, asks others, or writes megabytes: not for the thread that answers everybody.
  bool waits = false;
};
std::span<const Route> routes();
/// Named JSON Schemas of the answers.
const nlohmann::json& schemas();
/// The routes and schemas as an OpenAPI 3.1 document.
nlohmann::json openapi(std::string_view version, std::uint16_t port = kDefaultPort);

/// Finds the route and has it answer, with the headers that every answer has. 400, 401, 403, 404, 405 and 421 are told
/// here. Never throws.
Response answer(const Sources& sources, const Request& request);
/// Whether answering it may take long; see Route::waits.
bool may_wait(const Request& request);
/// What others than those who see command lines are told of an alert whose rule quotes some.
telemetry::Alert without_command(telemetry::Alert alert);

/// What is told to listeners with each reading, change of an alert and change of health.
void tell_reading(EventHub& hub, const telemetry::Reading& reading);
void tell_alert(EventHub& hub, const telemetry::AlertChange& change);
void tell_health(EventHub& hub, const telemetry::HealthChange& change);

}  // namespace gpuwarden::serve
