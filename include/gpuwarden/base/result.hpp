// SPDX-License-Identifier: Apache-2.0
// Expected failures are values: Result<T> holds a T or an Error that says what failed on what and what to do about it.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace gpuwarden {

/// What kind of failure an Error is; programs branch on this, people read the message.
enum class ErrorCode {
  invalid_argument,   ///< the caller's input is wrong
  not_found,          ///< a named thing does not exist
  unsatisfied,        ///< the request is valid, but cannot be met now
  unavailable,        ///< no driver, no library, mismatch: the service behind is not there
  permission_denied,  ///< the system refused
  timed_out,          ///< no answer within the deadline
  interrupted,        ///< stopped by a signal or a stop token
  corrupt,            ///< data was read that breaks its own format
  failed,             ///< anything else; the message says what
};

/// The stable name of a code ("invalid_argument"), as JSON shows it.
std::string_view to_string(ErrorCode code);

/// A failure: the code for programs, a sentence with what was tried on what, and a hint (may be empty) what to do.
struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;
  std::string hint;

  bool operator==(const Error&) const = default;
};

template <class T>
using Result = std::expected<T, Error>;

/// Shorthand for returning a failure.
inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(hint)});
}

/// An Error from errno: "WHAT: No such file or directory"; ENOENT, EACCES, EPERM and EROFS get their own codes.
Error error_from_errno(int error_number, std::string_view what);

}  // namespace gpuwarden

#define GPUWARDEN_CONCAT_INNER(a, b) a##b
#define GPUWARDEN_CONCAT(a, b) GPUWARDEN_CONCAT_INNER(a, b)
/// GPUWARDEN_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define GPUWARDEN_TRY(declaration, expression)                                      \
  auto GPUWARDEN_CONCAT(result_, __LINE__) = (expression);                          \
  if (!GPUWARDEN_CONCAT(result_, __LINE__))                                         \
    return std::unexpected(std::move(GPUWARDEN_CONCAT(result_, __LINE__)).error()); \
  declaration = std::move(GPUWARDEN_CONCAT(result_, __LINE__)).value()
/// GPUWARDEN_CHECK(f()): returns f()'s error from the enclosing function, drops its value.
#define GPUWARDEN_CHECK(expression)                                                                  \
  if (auto GPUWARDEN_CONCAT(result_, __LINE__) = (expression); !GPUWARDEN_CONCAT(result_, __LINE__)) \
  return std::unexpected(std::move(GPUWARDEN_CONCAT(result_, __LINE__)).error())
