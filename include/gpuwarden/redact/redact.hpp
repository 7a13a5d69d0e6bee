// SPDX-License-Identifier: Apache-2.0
// Takes secrets, and on request the names of people and machines, out of texts before they are handed to others.
// Pure: nothing is read but what is handed in.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::redact {

/// What was taken out. The last seven only go where anonymity is asked for.
enum class Removed {
  token,            ///< known by its shape: "hf_...", "ghp_...", "AKIA...", a JWT
  private_key,      ///< a PEM block
  url_credentials,  ///< user and password in a URL, a signature in its query
  header,           ///< what follows "Authorization:", "Cookie:", "Bearer"
  named_value,      ///< the value of a name that says so: HF_TOKEN=..., --password ..., "api_key": "..."
  known_value,      ///< the value of a secret environment variable, wherever it stands
  user,
  host,
  ip_address,
  mac_address,
  gpu_uuid,
  serial,
  domain,
};
/// As the manifest and the terminal name it: "access token", "user name".
std::string_view to_string(Removed kind);

using Removals = std::map<Removed, std::size_t>;

struct Span;

/// What stands where a secret stood.
inline constexpr std::string_view kRemoved = "[removed]";

struct Redacted {
  std::string text;
  Removals removed;
};

/// The text without its secrets. `known` are values that are secret wherever they stand (secret_values()); those
/// with 5 to 7 characters only as words of their own; shorter ones are left alone, since they could be anything. A
/// commit hash, a checksum or a GPU's UUID stays. Texts are read as bytes: invalid UTF-8 is no obstacle.
Redacted redact_secrets(std::string_view text, std::span<const std::string> known = {});

/// Whether a name (of a variable, an option, a key) says that its value is a secret: "HF_TOKEN", "api-key",
/// "dbPassword"; not "max_tokens", "pad_token", "TOKENIZERS_PARALLELISM".
bool is_secret_name(std::string_view name);

/// The values of those environment variables whose names say that they are secrets.
std::vector<std::string> secret_values(const Environment& environment);

/// Names of this machine and its people, as far as known beforehand.
struct Identities {
  std::vector<std::string> users;
  std::vector<std::string> homes;  ///< home folders outside of /home, /Users and the like
  std::vector<std::string> hosts;
  std::vector<std::string> domains;
  std::vector<std::string> uuids;    ///< of GPUs and MIG instances, whole
  std::vector<std::string> serials;  ///< of boards
};

/// Redacts the texts of one bundle. With anonymity the same name gets the same stand-in in all of them ("user-1").
class Redactor {
 public:
  /// Without `identities` names stay. `known` as in redact_secrets.
  explicit Redactor(std::vector<std::string> known = {}, const Identities* identities = nullptr);
  Redactor(Redactor&&) noexcept;
  Redactor& operator=(Redactor&&) noexcept;
  ~Redactor();

  bool anonymizes() const;
  /// Finds names in a text (home folders, name@host, serial numbers), for all texts that follow. Call it for each text
  /// before the first one is redacted.
  void learn(std::string_view text);
  /// The text without secrets and names; adds what was taken out.
  std::string redact(std::string_view text, Removals& removed);
  /// The same for every string in a document, whose keys stay; a value whose key says that it is a secret goes whole.
  void redact(nlohmann::json& document, Removals& removed);

 private:
  class Names;
  void add_names(std::string_view text, bool addresses, std::vector<Span>& spans);
  std::vector<std::string> known_;
  std::unique_ptr<Names> names_;
};

}  // namespace gpuwarden::redact
