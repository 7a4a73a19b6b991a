#!/bin/bash
# Debian 12's Catalyst 5.90130-1 (Perl) sends its page of an error as the end of a 200 if an action has called
# `$c->res->write` before it dies: under Starman 0.4016-1, the response is complete. And an action goes on after an action that
# it called with `$c->forward` has died, until it ends, and is then answered with 500; after `$c->detach`, it does not go on.
# Hurt: receivers of webhooks that write a part of the response first, whose event is lost, and those that forward to one
# action for each step, whose later steps run without the earlier ones, and again at each retry.
# Source: https://metacpan.org/pod/Catalyst#$c-%3Eforward(-$action-[,-%5C@arguments-]-)
# Usage: findings/catalyst-errors.sh. Needs apt-get of Debian 12, Perl 5.36 and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${server:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
packages=(libcatalyst-perl=5.90130-1 starman=0.4016-1)
# The Perl modules that Catalyst depends on, if they are not installed.
mapfile -t dependencies < <(apt-get install --simulate --no-install-recommends "${packages[@]}" |
  sed --quiet --regexp-extended 's/^Inst (lib[^ ]+-perl) .*/\1/p' | grep --invert-match --line-regexp libcatalyst-perl)
apt-get -o APT::Sandbox::User=root download --quiet --quiet "${packages[@]}" "${dependencies[@]}"
for package in *.deb; do dpkg --extract "$package" .; done
port=$((20000 + $$ % 12000))
mkdir --parents lib/Receiver/Controller
cat > lib/Receiver.pm <<'PERL'
package Receiver;
use Moose;
use Catalyst;
extends 'Catalyst';
__PACKAGE__->config(name => 'Receiver');
__PACKAGE__->setup;
1;
PERL
cat > lib/Receiver/Controller/Root.pm <<'PERL'
package Receiver::Controller::Root;
use Moose;
BEGIN { extends 'Catalyst::Controller' }
__PACKAGE__->config(namespace => '');
my @steps;
sub store : Private { die 'the database does not answer' }

sub before : Path('/before') { die 'the database does not answer' }

sub write : Path('/write') {
    my ($self, $c) = @_;
    $c->res->write('storing');
    die 'the database does not answer';
}

sub forward : Path('/forward') {
    my ($self, $c) = @_;
    $c->forward('store');
    push @steps, 'notify';
    $c->res->body('stored');
}

sub detach : Path('/detach') {
    my ($self, $c) = @_;
    $c->detach('store');
    push @steps, 'notify';
}

sub steps : Path('/steps') {
    my ($self, $c) = @_;
    $c->res->body("@steps");
    @steps = ();
}
1;
PERL
cat > app.psgi <<'PERL'
use Receiver;
Receiver->psgi_app;
PERL
export PERL5LIB=$folder/lib:$folder/usr/share/perl5:$folder/usr/lib/x86_64-linux-gnu/perl5/5.36
PLACK_ENV=production perl usr/bin/starman --listen "127.0.0.1:$port" --workers 1 app.psgi > log 2>&1 &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time


def post(path):
    """The status and the body of a complete response."""
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
    connection.request("POST", path, '{"event":"job.completed"}', {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read().decode()


for _ in range(200):
    try:
        post("/steps")
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
before = post("/before")[0]
status, body = post("/write")
page = body.startswith("storing<!DOCTYPE") and body.rstrip().endswith("</html>")
print(f"an action that dies: {before}; after it has written: {status}, complete{', with the page of the error' if page else ''}")
found = {}
for path in ("/forward", "/detach"):
    found[path] = post(path)[0], post("/steps")[1]
    print(f"{path} to an action that dies: {found[path][0]}; the steps after it: {found[path][1] or 'none'}")
sys.exit((before, status, page, found) != (500, 200, True, {"/forward": (500, "notify"), "/detach": (500, "")}))
PYTHON
python3 client.py "$port" || { tail --lines 5 log; exit 1; }
