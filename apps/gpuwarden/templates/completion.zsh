#compdef gpuwarden
# zsh completion for gpuwarden; made by `gpuwarden completion zsh`.
_gpuwarden() {
  local -a subcommands
  subcommands=(
@SUMMARIES@
    'help:help for a command'
    'version:print the version'
  )
  if (( CURRENT == 2 )); then
    _describe command subcommands
    return
  fi
  local subcommand=$words[2]
  shift words
  (( CURRENT-- ))
  case $subcommand in
    help) _describe command subcommands ;;
@COMMANDS@
  esac
}
if [[ $funcstack[1] == _gpuwarden ]]; then _gpuwarden "$@"; else compdef _gpuwarden gpuwarden; fi
