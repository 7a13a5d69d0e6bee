# SPDX-License-Identifier: Apache-2.0
# One interface target carries the warnings; they are errors in every preset.
option(GPUWARDEN_WERROR "Treat warnings as errors" ON)
add_library(gpuwarden_warnings INTERFACE)
target_compile_options(gpuwarden_warnings INTERFACE
  # What is a name of one file may be a local one of the next that is compiled with it.
  -Wall -Wextra -Wpedantic $<$<NOT:$<BOOL:${GPUWARDEN_UNITY}>>:-Wshadow> -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-missing-field-initializers $<$<BOOL:${GPUWARDEN_WERROR}>:-Werror>
  # GCC 12 sees overflows in inlined std::string code that are not there (GCC bugs 105329, 105651), and takes an empty
  # std::optional for one that is read before it is set (GCC bug 80635); clang and the sanitizers look at both.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:-Wno-restrict$<SEMICOLON>-Wno-maybe-uninitialized$<SEMICOLON>-Wno-stringop-overflow$<SEMICOLON>-Wno-stringop-overread$<SEMICOLON>-Wno-array-bounds>
  # clang: libstdc++ 12's own stable_sort calls what C++17 deprecates.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-designated-field-initializers$<SEMICOLON>-Wno-deprecated-declarations>)
