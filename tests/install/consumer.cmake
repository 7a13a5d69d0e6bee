# SPDX-License-Identifier: Apache-2.0
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGN}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/consumer ${WORK}/whole ${WORK}/logs)
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

# The whole library in one program: a simulated machine, a job on its GPUs, a verdict, a plan, a diagnosis.
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/whole -B ${WORK}/whole -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/whole)
file(MAKE_DIRECTORY ${WORK}/logs)
file(WRITE ${WORK}/logs/train.log "RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
run(${CMAKE_COMMAND} -E env GPUWARDEN_SIM_LIB_DIR=${WORK}/prefix/lib/gpuwarden/sim GPUWARDEN_SIM_DIR=${WORK}/sim
  GPUWARDEN_LEASE_DIR=${WORK}/leases ${WORK}/whole/whole h100x8 ${WORK}/logs -- sh -c "test -n \"$CUDA_VISIBLE_DEVICES\"")
string(JSON simulated GET "${out}" run simulated)
string(JSON code GET "${out}" run exit_code)
string(JSON gpus LENGTH "${out}" run gpus)
string(JSON cause GET "${out}" diagnosis causes 0 id)
string(JSON verdict GET "${out}" doctor worst)
string(JSON best GET "${out}" plan verdict)
if(NOT simulated OR NOT code EQUAL 0 OR NOT gpus EQUAL 2 OR NOT cause STREQUAL "ecc_error")
  message(FATAL_ERROR "the whole example answered otherwise:\n${out}")
endif()

# The same for C, with pkg-config alone, on the simulated driver.
file(GLOB pkgconfig ${WORK}/prefix/lib*/pkgconfig ${WORK}/prefix/lib/*/pkgconfig)
get_filename_component(library_dir ${pkgconfig} DIRECTORY)
run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pkgconfig} sh -c
  "cc ${SOURCE}/examples/memory/pool.c $(pkg-config --cflags --libs gpuwarden-memory) -o ${WORK}/consumer/pool")
run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${library_dir}:${WORK}/prefix/lib/gpuwarden/sim/550
  GPUWARDEN_SIM_DIR=${WORK}/sim GPUWARDEN_SIMULATE=h100x8 ${WORK}/consumer/pool)
