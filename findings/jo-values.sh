#!/bin/bash
# Debian 12's jo 1.9 writes numbers with 16 digits, also those inside JSON that it is given: 123456789012345678 becomes
# 1.234567890123457e+17, and 1E400 in a nested object becomes null, without an error. A value that looks like a number is
# one, so the job id 0012 becomes 12, 0x1F becomes 31, and an empty value null. With `-s` before a word, its value is a text.
# Hurt: producers in shell scripts, whose ids are refused or belong to another job, and whose results arrive changed.
# Source: https://manpages.debian.org/bookworm/jo/jo.1.en.html
# Usage: findings/jo-values.sh. Needs apt-get of Debian 12. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet jo=1.9-1
dpkg --extract jo_*.deb .

# Compares what jo makes of these words.
expect() {
  local expected=$1 found
  shift
  found=$(usr/bin/jo -- "$@")
  echo "jo $*: $found"
  [ "$found" = "$expected" ]
}
expect '{"job_id":12}' job_id=0012
expect '{"job_id":31}' job_id=0x1F
expect '{"job_id":100000}' job_id=1e5
expect '{"job_id":1.234567890123457e+17}' job_id=123456789012345678
expect '{"job_id":null}' job_id=
expect '{"job_id":"123456789012345678"}' -s job_id=123456789012345678
expect '{"result":{"id":1.234567890123457e+17,"rate":1.5,"large":null}}' \
  'result={"id":123456789012345678,"rate":1.50,"large":1E400}'
expect '{"result":"{\"id\":123456789012345678}"}' -s 'result={"id":123456789012345678}'
