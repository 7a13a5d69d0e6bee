// SPDX-License-Identifier: Apache-2.0
// What the exit codes of every command mean. `run` passes the job's own code on.
#pragma once

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::cli {

inline constexpr int kFine = 0;
inline constexpr int kNo = 1;           ///< the answer is "no": nothing fits, a GPU in trouble
inline constexpr int kWrongUsage = 2;   ///< wrong usage or bad input
inline constexpr int kUnavailable = 3;  ///< no driver, no library, mismatch, not permitted
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  ///< and the signal's number, as shells have it
inline constexpr int kInterrupted = 130;

/// The code for an error of the library.
constexpr int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::not_found:
    case ErrorCode::corrupt:
      return kWrongUsage;
    case ErrorCode::unsatisfied:
    case ErrorCode::timed_out:
    case ErrorCode::failed:
      return kNo;
    case ErrorCode::unavailable:
    case ErrorCode::permission_denied:
      return kUnavailable;
    case ErrorCode::interrupted:
      return kInterrupted;
  }
  return kNo;
}

/// The code for a program that cannot be started, as shells have it.
constexpr int exit_code_of_start(ErrorCode code) {
  return code == ErrorCode::not_found           ? kNotFound
         : code == ErrorCode::permission_denied ? kNotExecutable
                                                : exit_code_of(code);
}

}  // namespace gpuwarden::cli
