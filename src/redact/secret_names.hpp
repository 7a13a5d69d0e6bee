// SPDX-License-Identifier: Apache-2.0
// Which names say that their values are secrets, and which values are none whatever their name.
#pragma once

#include <string_view>

namespace gpuwarden::redact {

enum class Secrecy {
  none,
  likely,   ///< if the value looks like it: "token", "auth"
  certain,  ///< whatever the value: "password", "HF_TOKEN"
};
Secrecy secrecy_of(std::string_view name);

/// "null", "***", "$HF_TOKEN", "<your token>": nothing is lost, and nothing told, by leaving it.
bool is_placeholder(std::string_view value);

/// Base64 of "user:password", as docker keeps it under "auth".
bool is_login_in_base64(std::string_view value);

/// "/run/secrets/hf": where a secret is, not the secret.
bool is_path(std::string_view value);

/// Whether the value of this name is to go.
bool is_secret_value(std::string_view name, std::string_view value);

}  // namespace gpuwarden::redact
