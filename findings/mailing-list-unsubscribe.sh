#!/bin/bash
# Debian 12's mlmmj 1.3.0 passes on `List-Unsubscribe` and `List-Unsubscribe-Post` of an email to each subscriber of a mailing
# list, and changes nothing that a DKIM signature covers. The button of a subscriber's mail program, meant for the list,
# therefore posts to the sender's link, which ends the emails for all subscribers. Mailman 3.3.10 replaces the first header
# by its own, and keeps the second, which then asks for a one-click POST to an address of email. mlmmj removes the headers
# that its file `control/delheaders` names. Hurt: teams that get alerts through a list: after one click of a member, they
# hear of no failure.
# Sources: https://www.rfc-editor.org/rfc/rfc8058#section-3.1 and https://www.rfc-editor.org/rfc/rfc2369#section-4
# Usage: findings/mailing-list-unsubscribe.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet mlmmj=1.3.0-4
dpkg --extract mlmmj_*.deb .
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mailman==3.3.10
# Receives emails by SMTP, and writes each to a file with the name of its recipient.
cat > receive.py <<'PYTHON'
import os, socketserver


class Receiver(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 localhost\r\n")
        while line := self.rfile.readline():
            if line.startswith(b"RCPT"):
                recipient = line.split(b"<")[1].split(b"@")[0].decode()
            if line.startswith(b"DATA"):
                self.wfile.write(b"354 Go ahead\r\n")
                with open("new." + recipient, "wb") as file:
                    while (line := self.rfile.readline()) != b".\r\n":
                        file.write(line)
                os.rename("new." + recipient, recipient + ".eml")
            self.wfile.write(b"250 localhost\r\n")


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Receiver)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
PYTHON
python3 receive.py > port.txt &
until [ -s port.txt ]; do sleep 0.1; done
mkdir -p list/{incoming,queue/discarded,archive,text,subconf,unsubconf,bounce,control,moderation,subscribers.d,digesters.d,requeue}
mkdir list/nomailsubs.d
touch list/index
echo ops@example.org > list/control/listaddress
echo owner@example.org > list/control/owner
echo 127.0.0.1 > list/control/relayhost
cp port.txt list/control/smtpport
echo ada@example.org > list/subscribers.d/a
echo brook@example.org > list/subscribers.d/b
cat > list/incoming/post <<'EMAIL'
Return-Path: <jobs@example.com>
From: jobs@example.com
To: ops@example.org
Subject: A job failed
Message-ID: <1@example.com>
Auto-Submitted: auto-generated
List-Unsubscribe: <https://example.com/unsubscribe?token=a1>
List-Unsubscribe-Post: List-Unsubscribe=One-Click

It ran out of cogs.
EMAIL
cp list/incoming/post sent.eml
usr/bin/mlmmj-process -L "$PWD/list/" -m "$PWD/list/incoming/post" > log 2>&1
for _ in {1..100}; do
  if [ -s ada.eml ] && [ -s brook.eml ]; then break; fi
  sleep 0.1
done
for recipient in ada brook; do
  echo "mlmmj, to $recipient:"
  tr --delete '\r' < $recipient.eml | grep '^List-'
  # The same, but for the envelope and empty lines at the end, which DKIM ignores.
  [ "$(tr --delete '\r' < $recipient.eml)" = "$(sed '1d' sent.eml)" ]
done
cat > replace.py <<'PYTHON'
import email
from types import SimpleNamespace
from mailman.email.message import Message
from mailman.handlers.rfc_2369 import process
from mailman.interfaces.archiver import ArchivePolicy

message = email.message_from_file(open("sent.eml"), Message)
addresses = {f"{name}_address": f"ops-{name}@example.org" for name in ["request", "owner", "leave", "join", "posting"]}
settings = {"include_rfc2369_headers": True, "description": "", "allow_list_posts": True, "archive_policy": ArchivePolicy.never}
process(SimpleNamespace(list_name="ops", mail_host="example.org", **addresses, **settings), message, {})
print("Mailman:")
for name in ["List-Unsubscribe", "List-Unsubscribe-Post"]:
    print(f"{name}: {message[name]}")
assert message.get_all("List-Unsubscribe") == ["<mailto:ops-leave@example.org>"]
assert message.get_all("List-Unsubscribe-Post") == ["List-Unsubscribe=One-Click"]
PYTHON
venv/bin/python replace.py
