# SPDX-License-Identifier: Apache-2.0
# Compiles knowledge/*.csv in: a tool checks every row and writes constexpr tables, so that nothing is parsed at run time.
add_executable(gpuwarden_knowledge_generator ${PROJECT_SOURCE_DIR}/knowledge/generate.cpp)
set_target_properties(gpuwarden_knowledge_generator PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/generated)

# All that is generated, for those who only parse (scripts/lint.sh).
add_custom_target(generated)

function(gpuwarden_knowledge_table kind csv)
  set(output ${PROJECT_BINARY_DIR}/generated/knowledge/${kind}.inc)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/generated/knowledge)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:gpuwarden_knowledge_generator> ${kind} ${PROJECT_SOURCE_DIR}/knowledge/${csv} ${output}
    DEPENDS gpuwarden_knowledge_generator ${PROJECT_SOURCE_DIR}/knowledge/${csv} VERBATIM)
  target_sources(gpuwarden_knowledge PRIVATE ${output})
  add_custom_target(generated_${kind} DEPENDS ${output})
  add_dependencies(generated generated_${kind})
endfunction()

gpuwarden_knowledge_table(models gpu_models.csv)
gpuwarden_knowledge_table(uses gpu_uses.csv)
gpuwarden_knowledge_table(gpu_names gpu_names.csv)
gpuwarden_knowledge_table(gpu_boards gpu_boards.csv)
gpuwarden_knowledge_table(gpu_products gpu_products.csv)
gpuwarden_knowledge_table(gpu_first_drivers gpu_first_drivers.csv)
gpuwarden_knowledge_table(cuda_compat cuda_compat.csv)
gpuwarden_knowledge_table(cuda_compat_gpus cuda_compat_gpus.csv)
gpuwarden_knowledge_table(other_makers other_makers.csv)
gpuwarden_knowledge_table(pci pci_devices.csv)
gpuwarden_knowledge_table(toolkits cuda_toolkits.csv)
gpuwarden_knowledge_table(architectures architectures.csv)
gpuwarden_knowledge_table(branches driver_branches.csv)
gpuwarden_knowledge_table(torch torch_builds.csv)
gpuwarden_knowledge_table(torch_aarch64 torch_builds_aarch64.csv)
gpuwarden_knowledge_table(xid_before_ampere xid_before_ampere.csv)
gpuwarden_knowledge_table(torch_companions torch_companions.csv)
gpuwarden_knowledge_table(torch_triton torch_triton.csv)
gpuwarden_knowledge_table(bitsandbytes bitsandbytes_cuda.csv)
gpuwarden_knowledge_table(vllm vllm.csv)
gpuwarden_knowledge_table(packages packages.csv)
gpuwarden_knowledge_table(distributions distributions.csv)
gpuwarden_knowledge_table(components components.csv)
gpuwarden_knowledge_table(xid xid.csv)
gpuwarden_knowledge_table(variables variables.csv)
gpuwarden_knowledge_table(catalog model_catalog.csv)
gpuwarden_knowledge_table(planning planning_figures.csv)
gpuwarden_knowledge_table(usable usable_memory.csv)
gpuwarden_knowledge_table(loss loss_memory.csv)

# What `gpuwarden diagnose` knows: rules and causes in YAML, checked and compiled in likewise.
add_executable(gpuwarden_diagnosis_generator ${PROJECT_SOURCE_DIR}/knowledge/generate_diagnosis.cpp)
target_link_libraries(gpuwarden_diagnosis_generator PRIVATE yaml-cpp nlohmann_json::nlohmann_json PkgConfig::re2)
set_target_properties(gpuwarden_diagnosis_generator PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/generated)
target_include_directories(gpuwarden_diagnosis_generator PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_features(gpuwarden_diagnosis_generator PRIVATE cxx_std_20)
file(GLOB diagnosis_data CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/knowledge/diagnosis/*.yaml)
set(diagnosis_table ${PROJECT_BINARY_DIR}/generated/knowledge/diagnosis.inc)
add_custom_command(OUTPUT ${diagnosis_table}
  COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:gpuwarden_diagnosis_generator> ${diagnosis_table} ${diagnosis_data}
  DEPENDS gpuwarden_diagnosis_generator ${diagnosis_data} VERBATIM)
target_sources(gpuwarden_knowledge PRIVATE ${diagnosis_table})
add_custom_target(generated_diagnosis DEPENDS ${diagnosis_table})
add_dependencies(generated generated_diagnosis)
target_include_directories(gpuwarden_knowledge PRIVATE ${PROJECT_BINARY_DIR}/generated)
