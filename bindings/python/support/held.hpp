// SPDX-License-Identifier: Apache-2.0
// Objects with threads of their own as Python holds them, and Python functions that such threads call.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>

#include "support/support.hpp"

namespace gpuwarden::python {

/// Whether Python code can still be run: a thread of the library that asks for the interpreter's lock while the
/// interpreter ends is stopped for ever.
inline bool interpreter_lives() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#endif
}

/// An object that is closed once. It ends without the interpreter's lock, since its threads may wait for that; in a
/// forked child it is let be: its threads are not there.
template <class T>
class Held {
 public:
  Held(std::shared_ptr<T> object, const char* what) : object_(std::move(object)), what_(what) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { close(); }

  /// Kept alive for as long as the caller has it. Raises where it is closed, or in a forked child.
  std::shared_ptr<T> share() const {
    owner_.check(what_);
    if (!object_) raise({ErrorCode::unavailable, "this " + std::string(what_) + " is closed", "make another"});
    return object_;
  }
  void close() {
    auto last = std::make_unique<std::shared_ptr<T>>(std::move(object_));
    object_.reset();
    if (!owner_.here()) {
      static_cast<void>(last.release());
      return;
    }
    const nb::gil_scoped_release without_gil;
    last.reset();
  }
  bool closed() const { return object_ == nullptr; }

 private:
  Owner owner_;
  std::shared_ptr<T> object_;
  const char* what_;
};

/// A Python function that any thread may call and drop. What it raises goes to sys.unraisablehook.
class PythonFunction {
 public:
  explicit PythonFunction(nb::callable function)
      : function_(new nb::callable(std::move(function)), [](nb::callable* last) {
          if (!interpreter_lives()) return;  // the process ends: nobody's memory any more
          const nb::gil_scoped_acquire locked;
          delete last;
        }) {}

  /// Calls it with texts.
  template <class... Texts>
  void operator()(const Texts&... texts) const {
    if (!interpreter_lives()) return;
    const nb::gil_scoped_acquire locked;
    try {
      (*function_)(texts...);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("a callback of gpuwarden");
    }
  }
  const nb::callable& function() const { return *function_; }
  /// What the garbage collector visits.
  PyObject* object() const { return function_->ptr(); }

 private:
  std::shared_ptr<nb::callable> function_;
};

}  // namespace gpuwarden::python
