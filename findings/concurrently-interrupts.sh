#!/bin/bash
# One Ctrl-C in a terminal reaches a program twice under npm's concurrently 9.2.5 and nodemon 3.1.14: the terminal interrupts
# all programs in the foreground, and these two send a signal to the program, too, some hundredths of a second later. Hurt:
# developers whose server, worker or listener finishes its work after the first Ctrl-C and exits immediately after the
# second: it always exits immediately.
# Usage: findings/concurrently-interrupts.sh. Needs Python 3, Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts concurrently@9.2.5 nodemon@3.1.14
cat > count.py <<'PYTHON'
import pathlib, signal, time

interrupts = []
for name in ["SIGINT", "SIGTERM", "SIGUSR2"]:
    signal.signal(getattr(signal, name), lambda *_, name=name: interrupts.append(name))
print("ready", flush=True)
end = time.monotonic() + 2
while time.monotonic() < end:
    time.sleep(0.01)
pathlib.Path("interrupts").write_text(str(len(interrupts)))
PYTHON
cat > press.py <<'PYTHON'
"""Runs a command in a terminal, presses Ctrl-C once, and prints how many signals the program gets."""
import os, pathlib, pty, select, shlex, sys, time

path, (command, expected) = pathlib.Path("interrupts"), sys.argv[1:]
path.unlink(missing_ok=True)
process, terminal = pty.fork()
if process == 0:
    arguments = shlex.split(command)
    os.execvp(arguments[0], arguments)
output, is_pressed, end = b"", False, time.monotonic() + 30
while not path.exists() and time.monotonic() < end:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            output += os.read(terminal, 4096)
        except OSError:
            time.sleep(0.1)  # The command has ended, but not the program.
    if b"ready" in output and not is_pressed:
        time.sleep(0.3)
        os.write(terminal, b"\x03")
        is_pressed = True
time.sleep(0.1)
found = path.read_text()
print(f"{command}: {found}")
os.close(terminal)
sys.exit(found != expected)
PYTHON
bin=node_modules/.bin
python3 press.py "python3 count.py" 1
python3 press.py "$bin/concurrently --raw 'python3 count.py'" 2
python3 press.py "$bin/nodemon --quiet --exec 'python3 count.py'" 2
