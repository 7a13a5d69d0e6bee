# SPDX-License-Identifier: Apache-2.0
# gpuwarden_test(NAME [DIR dir] [LIBRARIES targets...] [LABELS labels...] [TIMEOUT seconds] [RESOURCE_LOCK name]
# [COST seconds]): the executable NAME_tests from tests/NAME/*_test.cpp; every TEST in it is a test of ctest, with
# RESOURCE_LOCK one at a time. What costs most begins first: a long test that begins last keeps the cores waiting.
# Tests of what several threads share have the label `threads`: ThreadSanitizer runs them (target threaded_tests).
option(GPUWARDEN_TEST_SHARDS "Run the tests of a program several at a time in one process: for sanitizers, whose programs are slow to start" OFF)
if(GPUWARDEN_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_custom_target(threaded_tests)
endif()

# One test of ctest for every four test files; a shard is every n-th TEST of the program.
function(gpuwarden_add_shards target files timeout labels)
  list(LENGTH files count)
  math(EXPR shards "(${count} + 3) / 4")
  math(EXPR last "${shards} - 1")
  math(EXPR patience "${timeout} * 4")
  # What a library leaks that is not ours; without a word about it, for tests compare what programs print.
  set(leaks "suppressions=${PROJECT_SOURCE_DIR}/tests/leaks.supp:print_suppressions=0")
  foreach(shard RANGE ${last})
    add_test(NAME ${target}.${shard} COMMAND ${target} --gtest_brief=1)
    set_tests_properties(${target}.${shard} PROPERTIES TIMEOUT ${patience} LABELS "${labels}" ${ARGN}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard};LSAN_OPTIONS=${leaks}")
  endforeach()
endfunction()

function(gpuwarden_test name)
  cmake_parse_arguments(ARG "" "DIR;TIMEOUT;RESOURCE_LOCK;COST" "LIBRARIES;LABELS;DEFINITIONS" ${ARGN})
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
  if(GPUWARDEN_UNITY)
    # Most of a test file's time goes into instantiating the same templates of GoogleTest and JSON.
    set_target_properties(${name}_tests PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(threaded_tests ${name}_tests)
  endif()
  set(order "")
  if(ARG_RESOURCE_LOCK)
    list(APPEND order RESOURCE_LOCK ${ARG_RESOURCE_LOCK})
  endif()
  if(ARG_COST)
    list(APPEND order COST ${ARG_COST})
  endif()
  if(GPUWARDEN_TEST_SHARDS)
    gpuwarden_add_shards(${name}_tests "${sources}" ${ARG_TIMEOUT} "${ARG_LABELS}" ${order})
    return()
  endif()
  gtest_discover_tests(${name}_tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ${order})
endfunction()
