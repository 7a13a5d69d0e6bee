# SPDX-License-Identifier: Apache-2.0
# Installed libraries are found by find_package(gpuwarden); the packages are built by CPack.
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY GPUWARDEN_ROOMS)
add_library(gpuwarden_gpuwarden INTERFACE)
set_target_properties(gpuwarden_gpuwarden PROPERTIES EXPORT_NAME gpuwarden)
add_library(gpuwarden::gpuwarden ALIAS gpuwarden_gpuwarden)
foreach(room ${rooms})
  target_link_libraries(gpuwarden_gpuwarden INTERFACE gpuwarden_${room})
  install(TARGETS gpuwarden_${room} EXPORT gpuwardenTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
endforeach()
# Tables that public headers include; the header sets hold what can be compiled alone.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gpuwarden DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.inc")
install(TARGETS gpuwarden_gpuwarden EXPORT gpuwardenTargets)

# For bindings/python, which can be built beside this tree: the rooms' archives.
set(archives "")
foreach(room ${rooms})
  get_target_property(type gpuwarden_${room} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    string(APPEND archives " $<TARGET_FILE:gpuwarden_${room}>")
  endif()
endforeach()
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/gpuwarden-archives.cmake
  CONTENT "set(GPUWARDEN_VERSION ${PROJECT_VERSION})\nset(GPUWARDEN_ROOM_ARCHIVES${archives})\n")

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpuwarden)
install(EXPORT gpuwardenTargets NAMESPACE gpuwarden:: DESTINATION ${config_dir} COMPONENT dev)
configure_package_config_file(cmake/gpuwardenConfig.cmake.in ${PROJECT_BINARY_DIR}/gpuwardenConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpuwardenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpuwardenConfig.cmake ${PROJECT_BINARY_DIR}/gpuwardenConfigVersion.cmake
  DESTINATION ${config_dir} COMPONENT dev)

# tmpfiles.d is read from /usr/lib whatever the prefix of libraries is.
install(FILES packaging/gpuwarden.tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME gpuwarden.conf COMPONENT runtime)
install(FILES packaging/gpuwarden-serve.service DESTINATION lib/systemd/system COMPONENT runtime)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime OPTIONAL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gpuwarden)
set(CPACK_PACKAGE_CONTACT "The gpuwarden developers <gpuwarden@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Knows, judges, chooses, runs and watches GPUs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME gpuwarden)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS ${GPUWARDEN_LIBARCHIVE_PACKAGE})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS ${GPUWARDEN_LIBCURL_PACKAGE})
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libgpuwarden-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
# The runtime package has the shared libraries that CMake's targets name.
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "gpuwarden (= ${PROJECT_VERSION}), libfmt-dev, nlohmann-json3-dev, libyaml-cpp-dev, libpugixml-dev, libarchive-dev, libre2-dev, libsqlite3-dev, zlib1g-dev, libncurses-dev, libevent-dev, libssl-dev, pkgconf")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "The command line and the simulated fleet")
# What is compiled or linked in is a dependency that dpkg-shlibdeps cannot see: the package says so, and brings the terms
# along, as Debian's packages have them.
set(contained nlohmann-json3-dev)
if(GPUWARDEN_ARCHIVED)
  string(APPEND CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "; the program contains fmt, yaml-cpp, pugixml, RE2, SQLite, zlib, ncurses and the GNU C++ library")
  list(APPEND contained libfmt-dev libyaml-cpp-dev libpugixml-dev libre2-dev libsqlite3-dev zlib1g-dev libncurses-dev libstdc++6)
endif()
if(GPUWARDEN_PAGE_FOLDER)
  # The page of `gpuwarden serve` has it in its bundle.
  list(APPEND contained libjs-dygraphs)
endif()
foreach(package ${contained})
  if(EXISTS /usr/share/doc/${package}/copyright)
    file(REAL_PATH /usr/share/doc/${package}/copyright terms)
    install(FILES ${terms} DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright.${package} COMPONENT runtime)
  else()
    message(STATUS "the terms of ${package} are not on this machine: packages built here lack them")
  endif()
endforeach()
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and static libraries of gpuwarden")
include(CPack)
