# SPDX-License-Identifier: Apache-2.0
# What the commonest commands run lies side by side at the beginning of the program. A listing runs 700 of 18,000
# functions: spread over ten megabytes they made the kernel map half of these. scripts/start_order.py writes the list; a
# name that is no longer there does no harm.
foreach(room base facts lease fitness probe machine launch)
  target_compile_options(gpuwarden_${room} PRIVATE -ffunction-sections)
endforeach()

# GNU ld takes an order only in its script: its own, with the list before what else goes into .text. A section of their
# own would do, too, but valgrind names no function outside of .text.

# The script that ld takes for a target: -pie, -static, -z now and the like choose among its own, so that it is asked
# with all that the target is linked with. Empty: it is not GNU ld, or has no such place.
function(gpuwarden_script_of_ld target output)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  separate_arguments(flags NATIVE_COMMAND
    "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}} ${CMAKE_EXE_LINKER_FLAGS} ${CMAKE_EXE_LINKER_FLAGS_${config}}")
  get_target_property(own ${target} LINK_OPTIONS)
  if(own)
    list(FILTER own EXCLUDE REGEX "[$]<")
    list(TRANSFORM own REPLACE "^LINKER:" "-Wl,")
    list(APPEND flags ${own})
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${flags} -Wl,--verbose -x c++ /dev/null
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR} OUTPUT_VARIABLE told ERROR_QUIET)
  string(REGEX MATCH "\n=====+\n(.*\n)=====+\n" found "${told}")
  set(${output} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# gpuwarden_order_start(TARGET): a program that begins with these; its link options are set before.
function(gpuwarden_order_start target)
  # -Wl takes a comma in the script's path for the end of it.
  if(GPUWARDEN_SANITIZE OR PROJECT_BINARY_DIR MATCHES ",")
    return()
  endif()
  gpuwarden_script_of_ld(${target} script)
  string(REGEX MATCH "\n  [.]text +:\n  {\n" text_begins "${script}")
  if(NOT text_begins)
    return()
  endif()
  set(functions_file ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/start_order.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${functions_file})
  file(STRINGS ${functions_file} functions)
  list(TRANSFORM functions REPLACE "(.+)" "    *(.text.\\1)\n")
  list(JOIN functions "" functions)
  string(REPLACE "${text_begins}" "${text_begins}${functions}" script "${script}")
  set(start_order ${PROJECT_BINARY_DIR}/generated/start_order.ld)
  file(WRITE ${start_order}.new "${script}")
  configure_file(${start_order}.new ${start_order} COPYONLY)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -Wl,-T,${start_order} GPUWARDEN_TAKES_START_ORDER)
  if(GPUWARDEN_TAKES_START_ORDER)
    target_link_options(${target} PRIVATE -Wl,-T,${start_order})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${start_order})
  endif()
endfunction()
