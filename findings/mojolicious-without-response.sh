#!/bin/bash
# Debian 12's Mojolicious 9.31+dfsg-1 sends no response if an action renders nothing and no template has its name: it takes
# this for a response that will follow, and closes the connection after 30 seconds, its `inactivity_timeout`. The log says
# so at its level "trace" only. An action that fails is answered with 500. Hurt: receivers of webhooks whose action stores the
# event and returns: the sender runs into its time-out and repeats an event that has been processed, and to the sender the
# receiver looks as if it had stopped. `$c->rendered(204)` at the end is enough.
# Usage: findings/mojolicious-without-response.sh. Needs apt-get of Debian 12, Perl 5.36 and Python 3. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libjs-bootstrap4=4.6.1+dfsg1-4+deb12u1 \
  libjs-highlight.js=9.18.5+dfsg1-2 libjs-jquery=3.6.1+dfsg+~3.5.14-1 libjs-popper.js=1.16.1+ds-6 \
  libmojolicious-perl=9.31+dfsg-1
for package in *.deb; do dpkg --extract "$package" .; done
cat > receiver.pl <<'PERL'
use Mojolicious::Lite -signatures;

my @events;
post '/stored' => sub ($c) { push @events, $c->req->body };
post '/answered' => sub ($c) {
  push @events, $c->req->body;
  $c->rendered(204);
};
post '/failed' => sub ($c) { die "The database is away\n" };
app->log->path('log');
app->start;
PERL
port=$((20000 + $$ % 12000))
PERL5LIB=$folder/usr/share/perl5 perl receiver.pl daemon --mode production --listen "http://127.0.0.1:$port" > /dev/null 2>&1 &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time


def seen(path):
    """The status, and the seconds until the response or the end of the connection."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
            start = time.monotonic()
            connection.request("POST", path, b"{}", {"content-type": "application/json"})
            return connection.getresponse().status, round(time.monotonic() - start)
        except ConnectionRefusedError:
            time.sleep(0.1)
        except http.client.RemoteDisconnected:
            return "no response", round(time.monotonic() - start)


found = {path: seen(path) for path in ("/answered", "/failed", "/stored")}
for path, (status, seconds) in found.items():
    print(f"{path}: {status} after {seconds} s")
sys.exit(found != {"/answered": (204, 0), "/failed": (500, 0), "/stored": ("no response", 30)})
PYTHON
python3 client.py "$port"
cat log
