# SPDX-License-Identifier: Apache-2.0
# gpuwarden_module(NAME FLOOR n DEPENDS rooms... LIBRARIES targets...): one room of the house. Its sources are
# src/NAME/**.cpp, its public headers include/gpuwarden/NAME/**.hpp (a verified, installed header set), its tests
# tests/NAME/*_test.cpp. A room without sources is an interface library.
set_property(GLOBAL PROPERTY GPUWARDEN_ROOMS "")

# Parsing the standard library, fmt and JSON is half of what a file costs, so the files of a target are compiled several
# at a time. scripts/lint.sh looks at each by itself (preset lint), so that every file includes what it uses.
function(gpuwarden_parse_once target)
  if(GPUWARDEN_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
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

# gpuwarden_optimize(LEVEL rooms...): -O<LEVEL> instead of -O1 in release.
function(gpuwarden_optimize level)
  foreach(room ${ARGN})
    target_compile_options(gpuwarden_${room} PRIVATE $<$<CONFIG:Release>:-O${level}>)
  endforeach()
endfunction()

# gpuwarden_threaded(rooms...): their tests get the label `threads`.
function(gpuwarden_threaded)
  set_property(GLOBAL APPEND PROPERTY GPUWARDEN_THREADED_ROOMS ${ARGN})
endfunction()
