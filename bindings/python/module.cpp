// SPDX-License-Identifier: Apache-2.0
// The module gpuwarden._core: a thin face of the library. Each other file of this folder binds one area by a function
// bind_FILE(module); the build writes the list of them into binders.inc.
#include <nanobind/nanobind.h>

#include "support/support.hpp"

namespace nb = nanobind;

#define GPUWARDEN_BIND(name)            \
  namespace gpuwarden::python {         \
  void bind_##name(nanobind::module_&); \
  }
#include "binders.inc"
#undef GPUWARDEN_BIND

NB_MODULE(_core, module) {
  module.doc() = "The library of gpuwarden, for the package's own modules.";
  gpuwarden::python::translate_exceptions();
  module.attr("version") = GPUWARDEN_VERSION;
#define GPUWARDEN_BIND(name) gpuwarden::python::bind_##name(module);
#include "binders.inc"
#undef GPUWARDEN_BIND
}
