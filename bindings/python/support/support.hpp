// SPDX-License-Identifier: Apache-2.0
// What every file of the Python binding uses: errors as exceptions, work without the interpreter's lock that Ctrl-C
// ends, objects that know their process, options and answers as JSON texts.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::python {

namespace nb = nanobind;

/// Raises gpuwarden.Error with code, message and hint. The interpreter's lock must be held.
[[noreturn]] void raise(const Error& error);

/// The value, or the error as an exception.
template <class T>
T unwrap(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// One line of JSON; bytes that are no UTF-8 are replaced.
std::string json_text(const nlohmann::json& document);

/// Options as Python hands them over: a JSON object. Raises invalid_argument for what is none.
nlohmann::json read_options(const std::string& text);

/// What was wrong, thrown where the interpreter's lock may not be held; it arrives in Python as gpuwarden.Error.
class Refused : public std::exception {
 public:
  explicit Refused(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// Has Refused, and what nlohmann::json throws for a value of another type, arrive in Python as gpuwarden.Error.
void translate_exceptions();

/// How a T is called in a message.
template <class T>
constexpr const char* spoken() {
  if constexpr (std::is_same_v<T, bool>)
    return "True or False";
  else if constexpr (std::is_unsigned_v<T>)
    return "a whole number that is 0 or more";
  else if constexpr (std::is_integral_v<T>)
    return "a whole number";
  else if constexpr (std::is_floating_point_v<T>)
    return "a number";
  else if constexpr (std::is_same_v<T, std::string>)
    return "a text";
  else
    return "a list of such values";
}

/// Whether a value is a T without loss: no number for a text, no fraction for a whole number, none out of T's range.
template <class T>
bool is_a(const nlohmann::json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_integral_v<T>) {
    if (value.is_number_unsigned()) return std::in_range<T>(value.get<std::uint64_t>());
    return value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  } else if constexpr (std::is_floating_point_v<T>) {
    return value.is_number();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else {
    return value.is_array() && std::ranges::all_of(value, &is_a<typename T::value_type>);
  }
}

/// A value as T. Throws Refused (invalid_argument), which names the key.
template <class T>
T value_as(const std::string& key, const nlohmann::json& value) {
  if (is_a<T>(value)) return value.get<T>();
  throw Refused({ErrorCode::invalid_argument, key + ": '" + json_text(value) + "' is not " + spoken<T>(), ""});
}

/// An option that is there, as T. Throws as value_as().
template <class T>
T option(const nlohmann::json& options, const char* key) {
  return value_as<T>(key, options.at(key));
}

/// An option as T; `otherwise` where it is not there. Throws as value_as().
template <class T>
T option_or(const nlohmann::json& options, const char* key, T otherwise) {
  const auto found = options.find(key);
  return found == options.end() || found->is_null() ? otherwise : value_as<T>(key, *found);
}
inline std::string option_or(const nlohmann::json& options, const char* key, const char* otherwise) {
  return option_or<std::string>(options, key, otherwise);
}

/// Seconds as Python has them, infinity included, cut to a hundred years. Throws Refused (invalid_argument) for NaN.
std::chrono::milliseconds milliseconds_of(const char* name, double seconds);

/// The process that made an object. What is bound to it (threads, pipes, locks) is not there in a forked child.
class Owner {
 public:
  bool here() const { return pid_ == ::getpid(); }
  /// Raises `unavailable` in a process that was forked from the one that made the object, which `what` names.
  void check(const char* what) const;

 private:
  pid_t pid_ = ::getpid();
};

/// How often a waiting call looks for signals such as Ctrl-C.
inline constexpr std::chrono::milliseconds kSignalPeriod{50};

/// Runs `work(stop_token)`, whose result is a value, in a thread of its own and without the interpreter's lock. A
/// signal handler of Python that raises (Ctrl-C) stops the token; `work` must then end soon, and what was raised is
/// raised here.
template <class Work>
auto interruptible(Work work) {
  using Value = std::invoke_result_t<Work, std::stop_token>;
  std::optional<Value> value;
  std::exception_ptr problem;
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::jthread thread([&](const std::stop_token& stop) {
    try {
      value.emplace(work(stop));
    } catch (...) {
      problem = std::current_exception();
    }
    const std::scoped_lock lock(mutex);
    done = true;
    ended.notify_one();
  });
  const auto wait = [&] {
    const nb::gil_scoped_release without_gil;
    std::unique_lock lock(mutex);
    return ended.wait_for(lock, kSignalPeriod, [&] { return done; });
  };
  while (!wait()) {
    if (PyErr_CheckSignals() == 0) continue;
    nb::python_error raised;  // takes what was raised
    {
      const nb::gil_scoped_release without_gil;
      thread.request_stop();
      thread.join();
    }
    throw raised;
  }
  {
    const nb::gil_scoped_release without_gil;
    thread.join();
  }
  if (problem) std::rethrow_exception(problem);
  return std::move(*value);
}

/// Runs `work()` here, without the interpreter's lock.
template <class Work>
auto without_gil(Work work) {
  const nb::gil_scoped_release released;
  return work();
}

}  // namespace gpuwarden::python
