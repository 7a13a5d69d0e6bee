# SPDX-License-Identifier: Apache-2.0
# Build-wide settings: standard, output folders, sanitizers, ccache.
option(GPUWARDEN_TESTS "Build the tests" ON)
option(GPUWARDEN_BENCH "Build the benchmarks" OFF)
option(GPUWARDEN_PYTHON "Build the Python extension: what pip does" OFF)
option(GPUWARDEN_FUZZ "Build the fuzzers (clang only)" OFF)
option(GPUWARDEN_UNITY "Compile a target's files ten at a time: twice as fast, but hides missing includes and shadowed names" ON)
set(GPUWARDEN_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them: address,undefined or thread")

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
# One setting for all: programs share a precompiled header with libraries, and the simulator links them into a .so.
add_compile_options(-fPIC)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Most of the program runs once and is compiled often: -O1 takes half of -O3's time. Rooms that compute ask for more
# (gpuwarden_optimize); docs/internals/build.md has the times.
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")

if(GPUWARDEN_SANITIZE)
  add_compile_options(-fsanitize=${GPUWARDEN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${GPUWARDEN_SANITIZE})
  # Sanitized programs are large: lld links one in a sixth of the time of Debian's ld.
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld GPUWARDEN_HAS_LLD)
  if(GPUWARDEN_HAS_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()
if(GPUWARDEN_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(GPUWARDEN_CCACHE ccache)
if(GPUWARDEN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers are only cached with these sloppiness settings. Paths count from the checkout, so that another
  # checkout of the same sources is compiled from the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${GPUWARDEN_CCACHE})
endif()
