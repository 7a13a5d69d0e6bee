# SPDX-License-Identifier: Apache-2.0
# What the program has opened at every start is the system's C library: any other library costs each start.
execute_process(COMMAND ${OBJDUMP} -p ${PROGRAM} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "NEEDED +[^ \n]+" needed "${headers}")
if(NOT needed)
  message(FATAL_ERROR "${PROGRAM} names no library at all:\n${headers}")
endif()
list(TRANSFORM needed REPLACE "NEEDED +" "")
list(FILTER needed EXCLUDE REGEX "^(lib(c|m|dl|pthread|rt)|ld-linux-[a-z0-9_-]+)[.]so[.]")
if(needed)
  message(FATAL_ERROR "${PROGRAM} opens ${needed} at every start")
endif()
