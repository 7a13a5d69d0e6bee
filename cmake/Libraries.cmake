# SPDX-License-Identifier: Apache-2.0
# The C++ libraries that the rooms use. Opened as shared libraries they are most of what starting a program costs: ten
# files to map, and thousands of names to look up. So this tree's programs bring them along where archives of all of
# them are installed. Rooms that are installed name the libraries' own targets: who builds on them links as they like.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(pugixml REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(re2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(z REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ncursesw REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(libevent REQUIRED IMPORTED_TARGET libevent libevent_openssl openssl)
# Options like -pthread are no matter for compiling, but what has them cannot share the precompiled header of what has not.
set_property(TARGET PkgConfig::re2 PkgConfig::sqlite3 PkgConfig::z PkgConfig::ncursesw PkgConfig::libevent PROPERTY INTERFACE_COMPILE_OPTIONS "")

# gpuwarden_find_archive(NAME LIBRARY): GPUWARDEN_ARCHIVE_<NAME>, the archive beside the library that was found, so that
# it is of the version whose headers are used.
function(gpuwarden_find_archive name library)
  if(library MATCHES "^PkgConfig::")
    string(REGEX REPLACE ".*::" "" package ${library})
    list(GET ${package}_LINK_LIBRARIES 0 location)
  else()
    get_target_property(location ${library} LOCATION)
    if(NOT location)  # a name for the one that is linked to, as pugixml::pugixml is for pugixml::shared
      get_target_property(linked ${library} INTERFACE_LINK_LIBRARIES)
      list(GET linked 0 linked)
      get_target_property(location ${linked} LOCATION)
    endif()
  endif()
  get_filename_component(folder "${location}" DIRECTORY)
  find_library(GPUWARDEN_ARCHIVE_${name} lib${name}.a PATHS "${folder}" NO_DEFAULT_PATH)
  mark_as_advanced(GPUWARDEN_ARCHIVE_${name})
endfunction()

option(GPUWARDEN_ARCHIVES "Programs bring their C++ libraries along: they start faster" ON)
include(CheckLinkerFlag)
check_linker_flag(CXX -static-libstdc++ GPUWARDEN_HAS_STATIC_LIBSTDCXX)
set(GPUWARDEN_ARCHIVED "")
# Sanitizers watch the C++ library that they come with. An RE2 since 2023-06 needs more archives than its own.
if(GPUWARDEN_ARCHIVES AND NOT GPUWARDEN_SANITIZE AND GPUWARDEN_HAS_STATIC_LIBSTDCXX AND NOT "${re2_STATIC_LIBRARIES}" MATCHES "absl")
  set(GPUWARDEN_ARCHIVED fmt::fmt yaml-cpp pugixml::pugixml PkgConfig::re2 PkgConfig::sqlite3 PkgConfig::z PkgConfig::ncursesw)
endif()
foreach(library ${GPUWARDEN_ARCHIVED})
  string(REGEX REPLACE ".*::" "" name ${library})
  gpuwarden_find_archive(${name} ${library})
  # fmt 9 comes without one in Debian, but with its implementation among its headers.
  if(NOT GPUWARDEN_ARCHIVE_${name} AND NOT (name STREQUAL fmt AND fmt_VERSION MATCHES "^9[.]"))
    message(STATUS "no lib${name}.a: programs open their libraries at every start")
    set(GPUWARDEN_ARCHIVED "")
  endif()
endforeach()

# gpuwarden_headers_of(NAME LIBRARY): the library's headers and definitions without the library.
function(gpuwarden_headers_of target library)
  foreach(property INCLUDE_DIRECTORIES SYSTEM_INCLUDE_DIRECTORIES COMPILE_DEFINITIONS)
    set_property(TARGET ${target} PROPERTY INTERFACE_${property} $<TARGET_PROPERTY:${library},INTERFACE_${property}>)
  endforeach()
endfunction()

foreach(library ${GPUWARDEN_ARCHIVED})
  string(REGEX REPLACE ".*::" "" name ${library})
  if(GPUWARDEN_ARCHIVE_${name})
    add_library(gpuwarden_archived_${name} INTERFACE IMPORTED GLOBAL)
    set_property(TARGET gpuwarden_archived_${name} PROPERTY INTERFACE_LINK_LIBRARIES ${GPUWARDEN_ARCHIVE_${name}})
    if(name STREQUAL ncursesw)
      # Its other half is an archive of its own.
      gpuwarden_find_archive(tinfo ${library})
      set_property(TARGET gpuwarden_archived_${name} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${GPUWARDEN_ARCHIVE_tinfo})
    endif()
  else()
    add_library(gpuwarden_archived_${name} STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
    target_include_directories(gpuwarden_archived_${name} SYSTEM PRIVATE $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
  endif()
  gpuwarden_headers_of(gpuwarden_archived_${name} ${library})
endforeach()

# gpuwarden_libraries(OUTPUT LIBRARIES...): the same for target_link_libraries, for programs with archives instead of
# what they stand for. Shared libraries cannot have them: Debian's are not compiled for any address.
function(gpuwarden_libraries output)
  set(result "")
  foreach(library ${ARGN})
    if(library IN_LIST GPUWARDEN_ARCHIVED)
      string(REGEX REPLACE ".*::" "" name ${library})
      set(program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
      list(APPEND result $<BUILD_INTERFACE:$<IF:${program},gpuwarden_archived_${name},${library}>>
        $<INSTALL_INTERFACE:${library}>)
    else()
      list(APPEND result ${library})
    endif()
  endforeach()
  set(${output} ${result} PARENT_SCOPE)
endfunction()

# gpuwarden_starts_fast(TARGET): the C++ library comes along as well. Only for what has no C++ library beside it: two of
# them may not hand things to each other.
function(gpuwarden_starts_fast target)
  if(GPUWARDEN_ARCHIVED)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()
