#!/usr/bin/env bash
# The last step of the GitHub Action: runs qcode with the inputs in PROMPT, MODEL, FLAGS and TRUST, and writes the
# answer and the exit code to GITHUB_OUTPUT. Inputs are arguments, never part of a command.
set -euo pipefail
flags=()
while IFS= read -r line; do
  if [[ -n $line ]]; then flags+=("$line"); fi
done <<<"${FLAGS:-}"
if [[ -n ${MODEL:-} ]]; then flags+=(--model "$MODEL"); fi
if [[ ${TRUST:-false} == true ]]; then flags+=(--trust); fi

code=0
qcode "${flags[@]}" --print -- "$PROMPT" </dev/null >"$RUNNER_TEMP/qcode-answer" || code=$?
cat "$RUNNER_TEMP/qcode-answer"
# A random end mark, so that no answer can end the value and set other outputs.
mark="end-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
{
  echo "exit-code=$code"
  echo "result<<$mark"
  cat "$RUNNER_TEMP/qcode-answer"
  echo
  echo "$mark"
} >>"$GITHUB_OUTPUT"
exit "$code"
