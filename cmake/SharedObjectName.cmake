# SPDX-License-Identifier: Apache-2.0
# Libraries that are opened when they are needed, under the name that linking would note.

# Sets GPUWARDEN_<name>, as a definition for `source` too, to the name of a shared library, and GPUWARDEN_<name>_PACKAGE
# to Debian's package of it: dpkg-shlibdeps sees what is linked, and this is not.
function(gpuwarden_opened_library name library source development_package)
  file(REAL_PATH ${library} file)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${file} OUTPUT_VARIABLE headers ERROR_QUIET)
  if(NOT headers MATCHES "SONAME +([^ \n]+)")
    message(FATAL_ERROR "${file} is no shared library with a name: install ${development_package}")
  endif()
  set(soname ${CMAKE_MATCH_1})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} PROPERTIES
    COMPILE_DEFINITIONS GPUWARDEN_${name}="${soname}" SKIP_UNITY_BUILD_INCLUSION ON)
  string(REGEX REPLACE "^(.*)[.]so[.](.*)$" "\\1\\2" package ${soname})
  set(GPUWARDEN_${name} ${soname} PARENT_SCOPE)
  set(GPUWARDEN_${name}_PACKAGE ${package} PARENT_SCOPE)
endfunction()
