#!/bin/bash
# Debian 12's Miller 6.6.0 turns a number in JSON into a text if it does not fit into 64 bits, without being asked for a change:
# `mlr --json cat` writes {"id": 9223372036854775808} as {"id": "9223372036854775808"}, and 1E400 as "1E400". Decimals keep
# their digits, and gron 0.7.1 keeps all of these numbers. Hurt: scripts that pass results with large identifiers or amounts
# through Miller to a program that distinguishes numbers from texts.
# Source: https://www.rfc-editor.org/rfc/rfc8259#section-6
# Usage: findings/miller-numbers.sh. Needs apt-get of Debian 12. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet miller=6.6.0-2+b3 gron=0.7.1-1+b6
for package in *.deb; do dpkg --extract "$package" .; done
for number in 9223372036854775807 9223372036854775808 123456789012345678901 1E400 0.12345678901234567890; do
  by_miller=$(echo "{\"id\":$number}" | usr/bin/mlr --ijson --ojsonl cat)
  by_gron=$(echo "{\"id\":$number}" | usr/bin/gron --monochrome | tail -n 1)
  echo "$number: Miller: $by_miller; gron: $by_gron"
  case $number in
    9223372036854775807 | 0.*) [ "$by_miller" = "{\"id\": $number}" ] ;;
    *) [ "$by_miller" = "{\"id\": \"$number\"}" ] ;;
  esac
  [ "$by_gron" = "json.id = $number;" ]
done
