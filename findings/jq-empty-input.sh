#!/bin/bash
# Debian 12's jq 1.6 exits with 0 after `jq -e` if its input is empty, whatever the filter is, although its manual says that
# the exit code is 4 if there was no result. A filter that has an input but no result does exit with 4, and so does gojq
# 0.12.11 in both cases. In a pipeline without `pipefail`, `check --json | jq -e '.status == "delivered"'` therefore succeeds
# if `check` fails and prints nothing. Hurt: scripts that wait for, or require, a state that a command reports as JSON.
# Source: https://jqlang.org/manual/v1.6/#invoking-jq
# Usage: findings/jq-empty-input.sh. Needs apt-get of Debian 12. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet jq=1.6-2.1+deb12u3 libjq1=1.6-2.1+deb12u3 libonig5=6.9.8-1 \
  gojq=0.12.11-1
for package in *.deb; do dpkg --extract "$package" .; done
LD_LIBRARY_PATH=$(echo "$PWD"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH

# Compares the exit codes of both programs for this input.
expect() {
  local input=$1 expected=$2 filter='select(.status == "delivered")' by_jq=0 by_gojq=0
  printf '%s' "$input" | usr/bin/jq -e "$filter" > /dev/null || by_jq=$?
  printf '%s' "$input" | usr/bin/gojq -e "$filter" > /dev/null || by_gojq=$?
  echo "input '$input': jq exits with $by_jq, gojq with $by_gojq"
  [ "$by_jq $by_gojq" = "$expected" ]
}
usr/bin/jq --version
expect '{"status":"delivered"}' "0 0"
expect '{"status":"failed"}' "4 4"
expect '' "0 4"
expect $'\n' "0 4"

# A command that fails without output, in a pipeline without `pipefail`.
set +o pipefail
false | usr/bin/jq -e '.status == "delivered"'
echo "false | jq -e: exit code $?"
