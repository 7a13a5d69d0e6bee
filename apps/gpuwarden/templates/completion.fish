# fish completion for gpuwarden; made by `gpuwarden completion fish`.
function __gpuwarden_start
  test (count (commandline -opc)) -eq 1
end
function __gpuwarden_command
  set -l words (commandline -opc)
  test (count $words) -ge 2; and test $words[2] = $argv[1]
end
function __gpuwarden_action
  set -l words (commandline -opc)
  test (count $words) -eq 2; and test $words[2] = $argv[1]
end
@SUMMARIES@
complete -c gpuwarden -n __gpuwarden_start -f -a help -d 'help for a command'
complete -c gpuwarden -n __gpuwarden_start -f -a version -d 'print the version'
@OPTIONS@
