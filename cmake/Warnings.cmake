# SPDX-License-Identifier: Apache-2.0
# One interface target carries the warnings; they are errors in every preset.
option(GPUWARDEN_WERROR "Treat warnings as errors" ON)
add_library(gpuwarden_warnings INTERFACE)
target_compile_options(gpuwarden_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-missing-field-initializers $<$<BOOL:${GPUWARDEN_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-designated-field-initializers>)
