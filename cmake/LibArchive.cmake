# SPDX-License-Identifier: Apache-2.0
# libarchive is opened when it is needed (gpuwarden/base/libarchive.hpp), under the name that linking would note.
find_package(LibArchive REQUIRED)
file(REAL_PATH ${LibArchive_LIBRARIES} library)
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE headers ERROR_QUIET)
if(headers MATCHES "SONAME +([^ \n]+)")
  set(GPUWARDEN_LIBARCHIVE ${CMAKE_MATCH_1})
else()
  message(FATAL_ERROR "${library} is no shared library with a name: install libarchive-dev")
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/libarchive.cpp PROPERTIES
  COMPILE_DEFINITIONS GPUWARDEN_LIBARCHIVE="${GPUWARDEN_LIBARCHIVE}" SKIP_UNITY_BUILD_INCLUSION ON)
# dpkg-shlibdeps sees what is linked; this is not, and libarchive.so.13 is in libarchive13.
string(REGEX REPLACE "^(.*)[.]so[.](.*)$" "\\1\\2" GPUWARDEN_LIBARCHIVE_PACKAGE ${GPUWARDEN_LIBARCHIVE})
