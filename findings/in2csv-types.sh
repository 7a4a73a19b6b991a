#!/bin/bash
# csvkit 2.2.0's in2csv guesses types also from JSON, where texts and numbers are distinct: the ids "0012" and "12" both become
# 12, "1e5" becomes 1E+5, and "n/a" is lost. A column whose numbers are all 1 becomes True, and so does one of the texts
# "yes" and "no". The workflows "monday" and "friday" become dates in January of the year 1, and "3h" 3:00:00. With
# `--no-inference --blanks`, all values stay as they are. Hurt: readers of logs as CSV, who count two jobs as one, or find no
# number of attempts.
# Source: https://csvkit.readthedocs.io/en/2.2.0/scripts/in2csv.html
# Usage: findings/in2csv-types.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check csvkit==2.2.0 agate==1.14.2
cat > log.ndjson <<'JSON'
{"job_id":"0012","attempts":1,"workflow":"monday","nonce":"1e5","note":"yes","every":"3h","error":"n/a"}
{"job_id":"12","attempts":1,"workflow":"friday","nonce":"2e5","note":"no","every":"10m","error":"stop"}
JSON

# Compares the CSV that in2csv writes with these options.
expect() {
  local expected=$1 found
  shift
  found=$(venv/bin/in2csv --format ndjson "$@" log.ndjson)
  printf 'in2csv %s\n%s\n' "$*" "$found"
  [ "$found" = "$expected" ]
}
expect 'job_id,attempts,workflow,nonce,note,every,error
12,True,0001-01-08,1E+5,True,3:00:00,
12,True,0001-01-05,2E+5,False,0:10:00,stop'
expect 'job_id,attempts,workflow,nonce,note,every,error
0012,1,monday,1e5,yes,3h,n/a
12,1,friday,2e5,no,10m,stop' --no-inference --blanks
