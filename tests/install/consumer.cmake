# SPDX-License-Identifier: Apache-2.0
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGN}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/consumer)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/embed -B ${WORK}/consumer -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
file(GLOB programs ${WORK}/consumer/embed ${WORK}/consumer/*embed*)
if(NOT programs)
  message(FATAL_ERROR "the example built no program in ${WORK}/consumer")
endif()
# It plans and selects with a model, GPU or not.
run(${WORK}/consumer/embed)
string(FIND "${out}" "meta-llama/Llama-3.1-8B on 2xl40s: " planned)
if(planned EQUAL -1)
  message(FATAL_ERROR "the example planned nothing:\n${out}")
endif()
# The installed program brings its simulator along, wherever the prefix is.
run(${CMAKE_COMMAND} -E env GPUWARDEN_SIM_DIR=${WORK}/sim ${WORK}/prefix/bin/gpuwarden list --simulate h100x8)

# The same for C, with pkg-config alone, on the simulated driver.
file(GLOB pkgconfig ${WORK}/prefix/lib*/pkgconfig ${WORK}/prefix/lib/*/pkgconfig)
get_filename_component(library_dir ${pkgconfig} DIRECTORY)
run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pkgconfig} sh -c
  "cc ${SOURCE}/examples/memory/pool.c $(pkg-config --cflags --libs gpuwarden-memory) -o ${WORK}/consumer/pool")
run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${library_dir}:${WORK}/prefix/lib/gpuwarden/sim/550
  GPUWARDEN_SIM_DIR=${WORK}/sim GPUWARDEN_SIMULATE=h100x8 ${WORK}/consumer/pool)
