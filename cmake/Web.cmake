# SPDX-License-Identifier: Apache-2.0
# The page of `gpuwarden serve`: TypeScript in web/, checked by tsc, bundled by esbuild together with dygraphs, and put
# into the program as C++. All of it are packages of Debian: node-typescript, esbuild, libjs-dygraphs, nodejs. Where one
# is missing the server has everything but the page.
find_program(GPUWARDEN_NODE NAMES node nodejs DOC "Node.js, for the page")
find_program(GPUWARDEN_ESBUILD esbuild DOC "Bundles the page")
find_program(GPUWARDEN_TSC tsc DOC "Checks the page's types")
find_path(GPUWARDEN_DYGRAPHS_SOURCE dygraph.js NO_DEFAULT_PATH DOC "dygraphs 2, as its modules"
  PATHS /usr/share/javascript/dygraphs/src /usr/share/nodejs/dygraphs/src)
mark_as_advanced(GPUWARDEN_NODE GPUWARDEN_ESBUILD GPUWARDEN_TSC GPUWARDEN_DYGRAPHS_SOURCE)

set(missing "")
foreach(part "NODE:nodejs" "ESBUILD:esbuild" "TSC:node-typescript" "DYGRAPHS_SOURCE:libjs-dygraphs")
  string(REGEX MATCH "^([A-Z_]+):(.*)" found ${part})
  if(NOT GPUWARDEN_${CMAKE_MATCH_1})
    list(APPEND missing ${CMAKE_MATCH_2})
  endif()
endforeach()

set(GPUWARDEN_PAGE_FOLDER "")
if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "gpuwarden serve will have no page: ${missing} not found")
  target_sources(gpuwarden_serve PRIVATE ${PROJECT_SOURCE_DIR}/web/no_page.cpp)
  return()
endif()

set(web ${PROJECT_SOURCE_DIR}/web)
set(made ${PROJECT_BINARY_DIR}/generated/web)
set(GPUWARDEN_PAGE_FOLDER ${made}/page)
set(GPUWARDEN_ESBUILD_OPTIONS --bundle --target=es2020 --log-level=warning --alias:dygraphs=${GPUWARDEN_DYGRAPHS_SOURCE})
file(GLOB_RECURSE web_sources CONFIGURE_DEPENDS ${web}/*.ts ${web}/*.css ${web}/*.html ${web}/*.svg)
file(MAKE_DIRECTORY ${made})
# Notices of licences are kept at the end of what they belong to.
add_custom_command(OUTPUT ${made}/page.cpp
  COMMAND ${GPUWARDEN_TSC} --noEmit -p ${web}
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${made}/page
  COMMAND ${GPUWARDEN_ESBUILD} ${web}/src/app.ts ${web}/src/app.css ${GPUWARDEN_ESBUILD_OPTIONS} --minify --format=esm --splitting
    --legal-comments=eof --chunk-names=chunk-[hash] --outdir=${made}/page
  COMMAND ${CMAKE_COMMAND} -E copy ${web}/index.html ${web}/icon.svg ${made}/page
  COMMAND ${GPUWARDEN_NODE} ${web}/embed.mjs ${made}/page ${made}/page.cpp
  DEPENDS ${web_sources} ${web}/tsconfig.json ${web}/embed.mjs
  COMMENT "Bundling the page" VERBATIM)
target_sources(gpuwarden_serve PRIVATE ${made}/page.cpp)
set_source_files_properties(${made}/page.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
add_custom_target(generated_page DEPENDS ${made}/page.cpp)
add_dependencies(generated generated_page)
