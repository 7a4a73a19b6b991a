#!/bin/bash
# On Debian 12, npm 11.19.1 and yarn 1.22.22 end at a SIGTERM, and leave the program of `npm run start` running, which does not
# get the signal: they pass it on to `sh` only, and Debian's dash ends without its child. bash replaces itself with the last
# command, so the same script works with `--script-shell=bash`. nodemon 3.1.14 leaves the program, too. With `exec` before the
# program, it gets the signal. hatch 1.18.2 passes on nothing, and pnpm 12.21.0 passes the signal on. Hurt: services under a
# supervisor that signals its child alone: after a restart, the old program keeps the port or shares the queue, so events
# go to code that was replaced.
# Source: https://docs.npmjs.com/cli/v11/using-npm/scripts
# Usage: findings/npm-run-signals.sh. Needs Debian 12's dash 0.5.12 as sh, Python 3.11 with pip, Node.js 20, and the
# registries of PyPI and npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap '[ ! -s program.pid ] || kill -KILL "$(cat program.pid)" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
[ "$(readlink -f /bin/sh)" = "$(readlink -f /bin/dash)" ]
npm install --silent --no-audit --no-fund --ignore-scripts npm@11.19.1 yarn@1.22.22 nodemon@3.1.14
# pnpm's own script links its executable.
npm install --silent --no-audit --no-fund pnpm@12.21.0
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check hatch==1.18.2
PATH=$PWD/node_modules/.bin:$PWD/venv/bin:$PATH
export HATCH_DATA_DIR=$PWD/hatch
# Ends in an orderly way at a SIGTERM, and after a minute at the latest.
cat > program.py <<'PYTHON'
import os, signal, sys


def stop(*_):
    open("stopped", "w").close()
    sys.exit()


signal.signal(signal.SIGTERM, stop)
signal.alarm(60)
with open("program.new", "w") as file:
    file.write(str(os.getpid()))
os.rename("program.new", "program.pid")
while True:
    signal.pause()
PYTHON
cat > package.json <<'JSON'
{"private": true, "name": "program", "version": "1.0.0", "license": "MIT", "scripts": {
  "plain": "python3 program.py", "exec": "exec python3 program.py"}}
JSON
printf '[project]\nname = "program"\nversion = "1"\n[tool.hatch.envs.default]\nskip-install = true\n' > pyproject.toml

# Starts a program by this command, ends the command with SIGTERM, and compares what became of the program.
expect() {
  local expected=$1 found="does not get the signal" runner
  shift
  rm -f program.pid stopped
  setsid "$@" > log 2>&1 < /dev/null &
  runner=$!
  for _ in {1..300}; do
    if [ -s program.pid ]; then break; fi
    sleep 0.1
  done
  [ -s program.pid ]
  sleep 0.5
  kill -TERM $runner
  wait $runner || true
  sleep 1
  if [ -e stopped ]; then found="stops"; fi
  kill -KILL "$(cat program.pid)" 2> /dev/null || true
  echo "$*: the program $found"
  [ "$found" = "$expected" ]
}
lost="does not get the signal"
expect "$lost" npm run plain
expect stops npm run exec
expect stops npm run --script-shell=bash plain
expect "$lost" yarn run plain
expect stops yarn run exec
expect "$lost" nodemon --exec "python3 program.py"
expect stops nodemon --exec "exec python3 program.py"
expect "$lost" hatch run python3 program.py
expect stops pnpm run plain
