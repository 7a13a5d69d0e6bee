# SPDX-License-Identifier: Apache-2.0
# gpuwarden_module(NAME FLOOR n DEPENDS rooms... LIBRARIES targets...): one room of the house. Its sources are
# src/NAME/**.cpp, its public headers include/gpuwarden/NAME/**.hpp (a verified, installed header set), its tests
# tests/NAME/*_test.cpp. A room without sources is an interface library.
set_property(GLOBAL PROPERTY GPUWARDEN_ROOMS "")

# Parsing the standard library, fmt and JSON is half of what a file costs, so the files of a target are compiled several
# at a time, and what they all include is parsed before. scripts/lint.sh looks at each by itself (preset lint), so that
# every file includes what it uses.
function(gpuwarden_parse_once target)
  if(GPUWARDEN_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
    gpuwarden_precompile(${target} 1)
  endif()
endfunction()

# gpuwarden_precompile(TARGET LEVEL): gives it the headers precompiled with -O<LEVEL>; GCC takes none of another level.
function(gpuwarden_precompile target level)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  if(NOT GPUWARDEN_UNITY OR NOT "nlohmann_json::nlohmann_json" IN_LIST libraries)
    return()
  endif()
  set(holder gpuwarden_precompiled_${level})
  if(NOT TARGET ${holder})
    file(WRITE ${PROJECT_BINARY_DIR}/generated/${holder}.cpp "")
    add_library(${holder} OBJECT ${PROJECT_BINARY_DIR}/generated/${holder}.cpp)
    # The same warnings: GCC defines other macros with -Wpedantic.
    target_link_libraries(${holder} PRIVATE gpuwarden_warnings fmt::fmt nlohmann_json::nlohmann_json)
    # What ccache needs to look into them.
    target_compile_options(${holder} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    gpuwarden_set_level(${holder} ${level})
    target_precompile_headers(${holder} PRIVATE <algorithm> <array> <charconv> <chrono> <expected> <filesystem>
      <functional> <map> <memory> <optional> <ranges> <set> <span> <string> <string_view> <utility> <variant> <vector>
      <fmt/format.h> <nlohmann/json.hpp>)
  endif()
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  set_target_properties(${target} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${holder})
endfunction()

function(gpuwarden_module name)
  cmake_parse_arguments(ARG "" "FLOOR" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/gpuwarden/${name}/*.hpp)
  set(target gpuwarden_${name})
  set(visibility PUBLIC)
  set(private PRIVATE)
  if(sources)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:gpuwarden_warnings> PUBLIC ${ARG_LIBRARIES})
    gpuwarden_parse_once(${target})
  else()
    add_library(${target} INTERFACE)
    set(visibility INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_LIBRARIES})
  endif()
  add_library(gpuwarden::${name} ALIAS ${target})
  target_compile_features(${target} ${visibility} cxx_std_23)
  foreach(room ${ARG_DEPENDS})
    target_link_libraries(${target} ${visibility} gpuwarden_${room})
  endforeach()
  if(headers)
    target_sources(${target} ${visibility} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
  else()
    target_include_directories(${target} ${visibility} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  set_property(GLOBAL APPEND PROPERTY GPUWARDEN_ROOMS ${name})
  set_property(GLOBAL PROPERTY GPUWARDEN_FLOOR_${name} ${ARG_FLOOR})
  set_property(GLOBAL PROPERTY GPUWARDEN_DEPENDS_${name} ${ARG_DEPENDS})
endfunction()

# -O<LEVEL> in release; what asks for more than the least is optimised for sanitizers, too, a little.
function(gpuwarden_set_level target level)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O${level}>)
  if(GPUWARDEN_SANITIZE AND level GREATER 1)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# gpuwarden_optimize(LEVEL rooms...): -O<LEVEL> instead of -O1 in release.
function(gpuwarden_optimize level)
  foreach(room ${ARGN})
    gpuwarden_set_level(gpuwarden_${room} ${level})
    gpuwarden_precompile(gpuwarden_${room} ${level})
  endforeach()
endfunction()

# gpuwarden_threaded(rooms...): their tests get the label `threads`.
function(gpuwarden_threaded)
  set_property(GLOBAL APPEND PROPERTY GPUWARDEN_THREADED_ROOMS ${ARGN})
endfunction()
