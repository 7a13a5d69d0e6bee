// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/result.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace gpuwarden {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::unsatisfied:
      return "unsatisfied";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::permission_denied:
      return "permission_denied";
    case ErrorCode::timed_out:
      return "timed_out";
    case ErrorCode::interrupted:
      return "interrupted";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::failed:
      return "failed";
  }
  std::unreachable();
}

Error error_from_errno(int error_number, std::string_view what) {
  ErrorCode code = ErrorCode::failed;
  if (error_number == ENOENT || error_number == ENOTDIR) code = ErrorCode::not_found;
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS) code = ErrorCode::permission_denied;
  return {code, fmt::format("{}: {}", what, std::generic_category().message(error_number)), {}};
}

}  // namespace gpuwarden
