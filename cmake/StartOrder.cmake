# SPDX-License-Identifier: Apache-2.0
# What the commonest commands run lies side by side at the beginning of the program. A listing runs 700 of 18,000
# functions: spread over ten megabytes they made the kernel map two fifths of these. scripts/start_order.py writes the
# list; a name that is no longer there does no harm.
foreach(room base facts lease fitness probe machine launch)
  target_compile_options(gpuwarden_${room} PRIVATE -ffunction-sections)
endforeach()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/start_order.txt)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/start_order.txt functions)
list(TRANSFORM functions REPLACE "(.+)" "    *(.text.\\1)\n")
list(JOIN functions "" functions)
set(GPUWARDEN_START_ORDER ${PROJECT_BINARY_DIR}/generated/start_order.ld)
file(WRITE ${GPUWARDEN_START_ORDER}.new "SECTIONS {\n  .text.start : {\n${functions}  }\n} INSERT BEFORE .text;\n")
configure_file(${GPUWARDEN_START_ORDER}.new ${GPUWARDEN_START_ORDER} COPYONLY)
include(CheckLinkerFlag)
check_linker_flag(CXX -Wl,-T,${GPUWARDEN_START_ORDER} GPUWARDEN_ORDERS_FUNCTIONS)

# gpuwarden_order_start(TARGET): a program that begins with these.
function(gpuwarden_order_start target)
  if(GPUWARDEN_ORDERS_FUNCTIONS AND NOT GPUWARDEN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-T,${GPUWARDEN_START_ORDER})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${GPUWARDEN_START_ORDER})
  endif()
endfunction()
