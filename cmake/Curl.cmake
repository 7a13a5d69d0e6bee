# SPDX-License-Identifier: Apache-2.0
# libcurl is opened when it is needed (src/net), under the name that linking would note: it brings twenty libraries.
find_package(CURL REQUIRED)
file(REAL_PATH ${CURL_LIBRARIES} library)
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE headers ERROR_QUIET)
if(headers MATCHES "SONAME +([^ \n]+)")
  set(GPUWARDEN_LIBCURL ${CMAKE_MATCH_1})
else()
  message(FATAL_ERROR "${CURL_LIBRARIES} is no shared library with a name: install libcurl4-openssl-dev")
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/net/libcurl.cpp PROPERTIES
  COMPILE_DEFINITIONS GPUWARDEN_LIBCURL="${GPUWARDEN_LIBCURL}" SKIP_UNITY_BUILD_INCLUSION ON)
# As with libarchive; most commands work without it, so the package only recommends it.
string(REGEX REPLACE "^(.*)[.]so[.](.*)$" "\\1\\2" GPUWARDEN_LIBCURL_PACKAGE ${GPUWARDEN_LIBCURL})
