#!/bin/bash
# Python 3.11's `email` writes a `List-Unsubscribe` header as RFC 2047 encoded words if its URL does not fit into a line of
# 78 characters: `=?utf-8?q?=3Chttps=3A//...`, with the documented API and pure ASCII. RFC 2369 has URLs in angle brackets
# there, so mail programs see none: npm's mailparser 3.14.2 returns the raw words as the name of the list and no URL. With
# `policy.SMTP.clone(max_line_length=0)`, the header is intact. Hurt: senders with one-click
# unsubscription, whose tokens make long URLs: a short test URL works, the button is missing in production.
# Usage: findings/python-list-unsubscribe.sh. Needs Python 3.11, Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts mailparser@3.14.2
cat > write.py <<'PYTHON'
from email import policy
from email.message import EmailMessage

LONG = policy.SMTP.clone(max_line_length=0)
for name, length, rules in [("short", 20, policy.SMTP), ("long", 60, policy.SMTP), ("unfolded", 60, LONG)]:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "jobs@example.com", "ada@example.com", "A job failed"
    message["List-Unsubscribe"] = f"<https://example.com/unsubscribe?token={'a' * length}>"
    message.set_content("It ran out of cogs.")
    with open(f"{name}.eml", "wb") as file:
        file.write(message.as_bytes(policy=rules))
PYTHON
python3 write.py
cat > read.cjs <<'NODE'
const { readFileSync } = require("node:fs");
const { simpleParser } = require("mailparser");

(async () => {
  let same = true;
  for (const [name, isFound] of [["short", true], ["long", false], ["unfolded", true]]) {
    const source = readFileSync(`${name}.eml`);
    const { unsubscribe } = (await simpleParser(source)).headers.get("list");
    const line = source.toString().match(/^List-Unsubscribe: .{0,40}/m)[0];
    console.log(`${name}: ${line}... -> ${JSON.stringify(unsubscribe).slice(0, 60)}`);
    same &&= Boolean(unsubscribe.url) === isFound;
  }
  process.exit(same ? 0 : 1);
})();
NODE
node read.cjs
