# bash completion for gpuwarden; made by `gpuwarden completion bash`.
_gpuwarden() {
  local word=${COMP_WORDS[COMP_CWORD]} before= command= action= options= actions= words= paths= prefix= i
  ((COMP_CWORD > 0)) && before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  # Bash hands "--option=value" over as three words.
  if [[ $word == "=" ]]; then
    word=
  elif [[ $before == "=" ]] && ((COMP_CWORD > 1)); then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}
  ((COMP_CWORD > 2)) && action=${COMP_WORDS[2]}
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null && ((COMP_CWORD > i)); then
        _command_offset $((i + 1))
      else
        mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
      fi
      return
    fi
  done
  case $command in
    '') actions='@COMMAND_NAMES@' ;;
@COMMANDS@
    help) options= actions='@COMMAND_NAMES@' ;;
  esac
  case "$command $before" in
@VALUES@
  esac
  if [[ $words || $paths ]]; then
    # A list goes on behind its last comma.
    if [[ $prefix && $word == *,* ]]; then
      prefix=${word%,*},
      word=${word##*,}
    else
      prefix=
    fi
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "$word")
    case $paths in
      files) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word") ;;
      folders) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$word") ;;
    esac
  elif [[ -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$actions --help --version" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ $actions ]] && ((COMP_CWORD == 2)); then
    mapfile -t COMPREPLY < <(compgen -W "$actions" -- "$word")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _gpuwarden gpuwarden
