#!/bin/bash
# Debian 12's Feersum 1.410-2 sends a response whose body is `['']`, which Dancer2 0.400001 makes of a route that returns
# nothing, and then neither closes the connection nor reads from it again: the next event on it gets no response. After a
# body `[]` or `['ok']`, it closes the connection, as after each response, without announcing it. Hurt: receivers of webhooks
# on Feersum whose senders reuse connections: of two events within a few seconds, the second attempt runs into the sender's
# time-out.
# Usage: findings/feersum-empty-bodies.sh. Needs apt-get of Debian 12, Perl 5.36 and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet feersum=1.410-2 libcommon-sense-perl=3.75-3 \
  libev-perl=4.33-2 libplack-perl=1.0050-1 libtry-tiny-perl=0.31-2
for package in *.deb; do dpkg --extract "$package" .; done
cat > app.psgi <<'PERL'
my %bodies = ('/none' => [], '/empty' => [''], '/text' => ['ok']);
sub {
    my $environment = shift;
    $environment->{'psgi.input'}->read(my $event, $environment->{CONTENT_LENGTH});
    return [200, ['Content-Type' => 'text/plain'], $bodies{$environment->{PATH_INFO}}];
};
PERL
cat > client.py <<'PYTHON'
import http.client, socket, subprocess, sys, time

EVENT = '{"event":"job.completed","job_id":"job-1","status":"completed","result":{"answer":42}}'


def post(connection, path):
    """The status, or how the request ends without a response."""
    try:
        connection.request("POST", path, EVENT, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status
    except ConnectionError:
        return "closed"
    except TimeoutError:
        return "no response"


with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
command = ["perl", "usr/bin/feersum", "--listen", f"127.0.0.1:{port}", "app.psgi"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
found = {}
try:
    for path in ("/none", "/empty", "/text"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
        for _ in range(100):
            try:
                connection.connect()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        first = post(connection, path)
        announced = connection.sock is None
        connection.auto_open = 0
        time.sleep(0.3)
        found[path] = first, "announced" if announced else post(connection, path)
finally:
    server.terminate()
    server.wait()
for path, (first, second) in found.items():
    print(f"{path}: {first}, and the next event on the connection: {second}")
sys.exit(found != {"/none": (200, "closed"), "/empty": (200, "no response"), "/text": (200, "closed")})
PYTHON
export PERL5LIB=$folder/usr/share/perl5:$folder/usr/lib/x86_64-linux-gnu/perl5/5.36
python3 client.py
