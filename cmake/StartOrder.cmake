# SPDX-License-Identifier: Apache-2.0
# What the commonest commands run lies side by side at the beginning of the program. A listing runs 700 of 18,000
# functions: spread over ten megabytes they made the kernel map half of these. scripts/start_order.py writes the list; a
# name that is no longer there does no harm.
foreach(room base facts lease fitness probe machine launch)
  target_compile_options(gpuwarden_${room} PRIVATE -ffunction-sections)
endforeach()

# GNU ld takes an order only in its script: its own, with the list before what else goes into .text. A section of their
# own would do, too, but valgrind names no function outside of .text.
set(start_order_option "")
separate_arguments(linker_flags NATIVE_COMMAND "${CMAKE_EXE_LINKER_FLAGS}")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${linker_flags} -Wl,--verbose -x c++ /dev/null
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR} OUTPUT_VARIABLE told ERROR_QUIET)
string(REGEX MATCH "\n=====+\n(.*\n)=====+\n" found "${told}")
set(script "${CMAKE_MATCH_1}")
string(REGEX MATCH "\n  [.]text +:\n  {\n" text_begins "${script}")
if(text_begins AND NOT GPUWARDEN_SANITIZE)
  set(functions_file ${CMAKE_CURRENT_LIST_DIR}/start_order.txt)
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
    set(start_order_option -Wl,-T,${start_order})
  endif()
endif()

# gpuwarden_order_start(TARGET): a program that begins with these.
function(gpuwarden_order_start target)
  if(start_order_option)
    target_link_options(${target} PRIVATE ${start_order_option})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${start_order})
  endif()
endfunction()
