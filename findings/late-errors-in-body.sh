#!/bin/bash
# Debian 12's Unicorn 6.0.0-2+b4 (Ruby) and Twiggy 0.1026+dfsg-1 (Perl) write the status of a late error as text into the body
# of a 200, which is then complete: an error in Sinatra 3.0.5's `stream`, or in any other body with `each`, becomes a 200 with
# the text "HTTP/1.1 500 Internal Server Error", also if nothing was sent before. In Twiggy, it is a body that cannot be
# written, such as one with a character above 255, and a streamed 200 ends as if it was complete. Puma 5.6.5-3+deb12u2 and
# Starman 0.4016-1 break the response off. Hurt: receivers of webhooks that do the work while the body is written: the event
# counts as delivered, and is lost.
# Usage: findings/late-errors-in-body.sh. Needs apt-get of Debian 12, Perl 5.36, Python 3 and Ruby 3.1. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libanyevent-perl=7.170-2+b3 libclone-perl=0.46-1 \
  libcommon-sense-perl=3.75-3 libdata-dump-perl=1.25-1 libencode-locale-perl=1.05-3 libev-perl=4.33-2 \
  libhash-multivalue-perl=0.16-3 libhttp-date-perl=6.05-2 libhttp-message-perl=6.44-1 libhttp-parser-xs-perl=0.17-2+b2 \
  libio-html-perl=1.004-3 liblwp-mediatypes-perl=6.04-2 libnet-server-perl=2.013-2 libplack-perl=1.0050-1 \
  libstream-buffered-perl=0.03-3 libtimedate-perl=2.3300-2 libtry-tiny-perl=0.31-2 liburi-perl=5.17-1 puma=5.6.5-3+deb12u2 \
  ruby-kgio=2.11.2-2+b5 ruby-mustermann=3.0.0-2 ruby-nio4r=2.5.8-3 ruby-rack=2.2.22-0+deb12u2 \
  ruby-rack-protection=3.0.5-3+deb12u1 ruby-raindrops=0.20.0-1+b2 ruby-ruby2-keywords=0.0.5-1 \
  ruby-sinatra=3.0.5-3+deb12u1 ruby-tilt=2.0.11-2 starman=0.4016-1 twiggy=0.1026+dfsg-1 unicorn=6.0.0-2+b4
for package in *.deb; do dpkg --extract "$package" .; done
port=$((20000 + $$ % 12000))
cat > config.ru <<'RUBY'
require "sinatra/base"

class Receiver < Sinatra::Base
  set environment: :production, logging: false
  post("/stream") { stream { |out| out << store(request.body.read) } }
  post("/later") do
    stream do |out|
      out << "storing"
      sleep 0.2
      store(request.body.read)
    end
  end
  post("/before") { store(request.body.read) }
  def store(_event) = raise("the database does not answer")
end
run Receiver
RUBY
cat > app.pl <<'PERL'
use Starman::Server;
use Twiggy::Server;

my ($server, $port) = @ARGV;
my $app = sub {
    my $environment = shift;
    my $headers = ['Content-Type' => 'text/plain'];
    $environment->{'psgi.input'}->read(my $event, $environment->{CONTENT_LENGTH});
    return [200, $headers, ["stored \x{263a}"]] if $environment->{PATH_INFO} eq '/stream';
    die 'the database does not answer' if $environment->{PATH_INFO} eq '/before';
    return sub {
        my $writer = shift->([200, $headers]);
        $writer->write('storing');
        die 'the database does not answer';
    };
};
my %options = (host => '127.0.0.1', port => $port, listen => ["127.0.0.1:$port"], workers => 1, quiet => 1);
if ($server eq 'Starman') {
    Starman::Server->new->run($app, \%options);
} else {
    my $twiggy = Twiggy::Server->new(%options);
    $twiggy->register_service($app);
    AE::cv->recv;
}
PERL
shared=usr/lib/x86_64-linux-gnu
libraries=$shared/rubygems-integration/3.1.0
export RUBYLIB="usr/lib/ruby/vendor_ruby:$shared/ruby/vendor_ruby/3.1.0"
for directory in usr/share/rubygems-integration/all/gems/*/lib "$libraries"/gems/*/lib \
  "$libraries"/extensions/x86_64-linux/3.1.0/*; do RUBYLIB+=:$directory; done
RUBYLIB="$(realpath --no-symlinks ${RUBYLIB//:/ } | paste --serial --delimiters=:)"
export PERL5LIB=$folder/usr/share/perl5:$folder/$shared/perl5/5.36
ruby usr/bin/unicorn --env production --listen "127.0.0.1:$port" > unicorn.log 2>&1 &
servers=$!
ruby -e 'require "puma/cli"; Puma::CLI.new(ARGV).run' -- --environment production \
  --bind "tcp://127.0.0.1:$((port + 1))" > puma.log 2>&1 &
servers+=" $!"
perl app.pl Twiggy $((port + 2)) > twiggy.log 2>&1 &
servers+=" $!"
perl app.pl Starman $((port + 3)) > starman.log 2>&1 &
servers+=" $!"
cat > client.py <<'PYTHON'
import http.client, sys, time

CUT = "200, broken off"
EXPECTED = {
    "Unicorn": ["500", "200, complete: HTTP/1.1 500 Internal Server Error", "200, complete: storingHTTP/1.1 500 Internal Server Error"],
    "Puma": ["500", CUT, CUT],
    "Twiggy": ["500", "200, complete: HTTP/1.0 400 Bad Request", "200, complete: storing"],
    "Starman": ["500", CUT, CUT],
}


def post(port, path):
    """The status, and for a 200 the first line of the body, if it is complete."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("POST", path, '{"event":"job.completed"}', {"content-type": "application/json"})
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    response = connection.getresponse()
    try:
        body = response.read().decode()
    except http.client.IncompleteRead:
        return CUT
    return f"200, complete: {body.splitlines()[0]}" if response.status == 200 else str(response.status)


changed = False
for number, (name, expected) in enumerate(EXPECTED.items()):
    found = [post(int(sys.argv[1]) + number, path) for path in ("/before", "/stream", "/later")]
    for case, answer in zip(["before the response", "at the beginning of the body", "after a part of the body"], found):
        print(f"{name}, an error {case}: {answer}")
    changed |= found != expected
sys.exit(changed)
PYTHON
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
