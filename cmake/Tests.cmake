# SPDX-License-Identifier: Apache-2.0
# gpuwarden_test(NAME [DIR dir] [LIBRARIES targets...] [LABELS labels...] [TIMEOUT seconds] [RESOURCE_LOCK name]): the
# executable NAME_tests from tests/NAME/*_test.cpp; every TEST in it is a test of ctest, with RESOURCE_LOCK one at a time.
if(GPUWARDEN_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

function(gpuwarden_test name)
  cmake_parse_arguments(ARG "" "DIR;TIMEOUT;RESOURCE_LOCK" "LIBRARIES;LABELS;DEFINITIONS" ${ARGN})
  if(NOT ARG_DIR)
    set(ARG_DIR ${PROJECT_SOURCE_DIR}/tests/${name})
  endif()
  if(NOT ARG_TIMEOUT)
    # It ends what hangs, and measures nothing: far above what a busy machine with sanitizers takes.
    set(ARG_TIMEOUT 300)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${ARG_DIR}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_tests ${sources})
  target_include_directories(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name}_tests PRIVATE gpuwarden_warnings gpuwarden_test_support ${ARG_LIBRARIES}
    GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name}_tests PRIVATE ${ARG_DEFINITIONS})
  target_precompile_headers(${name}_tests REUSE_FROM gpuwarden_test_support)
  set(lock "")
  if(ARG_RESOURCE_LOCK)
    set(lock RESOURCE_LOCK ${ARG_RESOURCE_LOCK})
  endif()
  gtest_discover_tests(${name}_tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ${lock})
endfunction()
