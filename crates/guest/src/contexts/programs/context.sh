# Keeps a shell alive: takes code from descriptor 3, and tells on descriptor 4 how it
# ended. The code runs in the shell itself, so that its variables, functions, options and
# working directory stay.
#
# Only an interactive bash leaves a loop when it is interrupted and lives on, so this is
# read twice: as a script, which becomes one, and as that one's start.

if [[ $- != *i* ]]; then
  # It complains that there is no terminal.
  exec 9>&2
  exec "$BASH" --noediting --rcfile "$0" -i +m +H 2>/dev/null
fi
exec 2>&9 9>&-
# Out of the way; while code runs they are closed, and what bash keeps of them meanwhile
# is closed in what it starts.
exec 200<&3 201>&4 3<&- 4>&-
set +o history
unset HISTFILE
PS1= PS2=
__sandbox_busy=

__sandbox_done() {
  local status=$1
  printf '%s done %s\n%s' "$__sandbox_number" "${#status}" "$status" >&201
}

# The next code; what was under way is over, in whichever way it came here.
__sandbox_next() {
  local size LC_ALL=C
  if [[ -n ${__sandbox_busy-} ]]; then
    __sandbox_done 130
  fi
  __sandbox_busy=
  IFS=' ' read -r -u 200 __sandbox_number size || exit 0
  __sandbox_code=
  # It fails for no bytes.
  if ((size > 0)); then
    IFS= read -r -N "$size" -u 200 __sandbox_code || exit 0
  fi
  __sandbox_busy=1
}

printf '0 ready 0\n' >&201
# Before each prompt, and so after each interruption. Not in a function, where `declare`
# would mean something else; twice a loop, for code may `break` out of one.
PROMPT_COMMAND='while :; do
  while __sandbox_next; do
    eval "$__sandbox_code" </dev/null 200<&- 201>&-
    __sandbox_done "$?"
    __sandbox_busy=
  done
done'
