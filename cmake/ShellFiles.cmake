# SPDX-License-Identifier: Apache-2.0
# Completion for shells and man pages: the program prints them from its command table.
if(CMAKE_CROSSCOMPILING)
  message(STATUS "no completion and no man pages: they are made by the program, which does not run here")
  return()
endif()
set(shell_files ${PROJECT_BINARY_DIR}/shell)
add_custom_command(OUTPUT ${shell_files}/made
  COMMAND ${CMAKE_COMMAND} -E make_directory ${shell_files}
  COMMAND gpuwarden completion bash > ${shell_files}/gpuwarden
  COMMAND gpuwarden completion zsh > ${shell_files}/_gpuwarden
  COMMAND gpuwarden completion fish > ${shell_files}/gpuwarden.fish
  COMMAND gpuwarden man --output ${shell_files}/man
  COMMAND ${CMAKE_COMMAND} -E touch ${shell_files}/made
  DEPENDS gpuwarden VERBATIM COMMENT "Completion and man pages")
add_custom_target(gpuwarden_shell_files ALL DEPENDS ${shell_files}/made)
# Debian's zsh looks for what packages bring in a folder of its own.
set(zsh_folder share/zsh/site-functions)
if(EXISTS /etc/debian_version)
  set(zsh_folder share/zsh/vendor-completions)
endif()
set(GPUWARDEN_ZSH_FOLDER ${zsh_folder} CACHE STRING "Where zsh's completion is installed")
install(FILES ${shell_files}/gpuwarden DESTINATION share/bash-completion/completions COMPONENT runtime)
install(FILES ${shell_files}/_gpuwarden DESTINATION ${GPUWARDEN_ZSH_FOLDER} COMPONENT runtime)
install(FILES ${shell_files}/gpuwarden.fish DESTINATION share/fish/vendor_completions.d COMPONENT runtime)
install(DIRECTORY ${shell_files}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
