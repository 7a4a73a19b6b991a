#!/bin/bash
# GNU `timeout` of Debian 12 (coreutils 9.1) sends its signal to the program twice: to its process, and immediately afterwards to
# its process group. The second SIGTERM is merged into the first if that is still pending, so a program sees one or two, by
# chance; a real-time signal, which is queued, shows both. With `--foreground`, the program gets one. Hurt: scripts that stop
# a program which finishes its work after the first signal and exits immediately after the second, as many servers do.
# Source: https://www.gnu.org/software/coreutils/manual/html_node/timeout-invocation.html
# Usage: findings/timeout-signals.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet coreutils=9.1-1
dpkg --extract coreutils_*.deb .
cat > count.py <<'PYTHON'
import signal, time

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
count, end = 0, time.monotonic() + 4
while time.monotonic() < end:
    count += signal.sigtimedwait([signal.SIGRTMIN], 0.1) is not None
print(f"signals: {count}")
PYTHON
expect() {
  local expected=$1 found
  shift
  found=$("$@" 2 python3 count.py | tail --lines 1) || true
  echo "${*#usr/bin/}: $found"
  [ "$found" = "signals: $expected" ]
}
expect 2 usr/bin/timeout --signal RTMIN
expect 1 usr/bin/timeout --foreground --signal RTMIN
