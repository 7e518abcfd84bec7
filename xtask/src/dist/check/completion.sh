# Each shell finds its script, and completes a command.
bash -c '
    source /usr/share/bash-completion/completions/clearway
    COMP_WORDS=(clearway ser) COMP_CWORD=1
    _clearway clearway ser clearway
    [ "${COMPREPLY[*]}" = serve ]'
zsh -fc '
    autoload -U compinit
    compinit -D
    [ "$_comps[clearway]" = _clearway ] && autoload +X _clearway'
fish -c 'complete --do-complete "clearway ser"' | grep '^serve'
