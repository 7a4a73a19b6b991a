#!/bin/bash
# Debian 12's wget 1.21.3 and ruby-httpclient 2.8.3, PyPI's httplib2 0.32.1, npm's axios-retry 4.5.0 with axios 1.21.1, and Java
# 17's HttpURLConnection send a POST again, also on a new connection, if the server reads it and then closes the connection
# without a response. wget sends it up to 20 times, axios-retry as often as `retries` says, the others twice. axios-retry's
# README names GET, HEAD, OPTIONS, PUT and DELETE as its default, which holds for a 5xx only. Hurt: developers who call an API
# with them: if a server or a proxy closes the connection after the call was processed, one call has issued two keys or sent
# two invitations, and the program sees at most one of the responses.
# Source: https://github.com/softonic/axios-retry#options and https://www.gnu.org/software/wget/manual/wget.html
# Usage: findings/repeated-posts.sh. Needs apt-get of Debian 12, Java 17 with its compiler, npm, pip and Ruby. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet wget=1.21.3-1+deb12u1 \
  ruby-httpclient=2.8.3+git20211122.4658227-1
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check httplib2==0.32.1
npm install --silent --no-fund --no-audit axios@1.21.1 axios-retry@4.5.0
cat > server.py <<'PYTHON'
import http.server, sys


class Server(http.server.BaseHTTPRequestHandler):
    """Reads each request, and closes the connection without a response."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        with open(self.path[1:] + ".requests", "a") as requests:
            print(body, file=requests)
        self.close_connection = True

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
PYTHON
cat > httplib2.client.py <<'PYTHON'
import httplib2, sys

httplib2.Http().request(sys.argv[1] + "/httplib2", "POST", '{"name":"ci"}', {"content-type": "application/json"})
PYTHON
cat > httpclient.rb <<'RUBY'
require "httpclient"

HTTPClient.new.post(ARGV[0] + "/httpclient", '{"name":"ci"}', "content-type" => "application/json")
RUBY
cat > axios.mjs <<'JS'
import axios from "axios";
import axiosRetry from "axios-retry";

const client = axios.create();
axiosRetry(client, { retries: 3 });
await client.post(process.argv[2] + "/axios-retry", { name: "ci" });
JS
cat > Client.java <<'JAVA'
import java.net.HttpURLConnection;
import java.net.URL;

class Client {
    public static void main(String[] arguments) throws Exception {
        var connection = (HttpURLConnection) new URL(arguments[0] + "/HttpURLConnection").openConnection();
        connection.setDoOutput(true);
        connection.getOutputStream().write("{\"name\":\"ci\"}".getBytes());
        connection.getResponseCode();
    }
}
JAVA
port=$((20000 + $$ % 12000))
python3 server.py "$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
url=http://127.0.0.1:$port
# Four seconds include the first three of wget's requests.
timeout 4 usr/bin/wget --quiet --output-document=- --post-data='{"name":"ci"}' "$url/wget" || true
{
  python/bin/python httplib2.client.py "$url" || true
  ruby -I usr/share/rubygems-integration/all/gems/httpclient-2.8.3/lib httpclient.rb "$url" || true
  node axios.mjs "$url" || true
  java Client.java "$url" || true
} 2> errors
changed=0
while read -r client expected; do
  count=$(grep --count '^{"name":"ci"}$' "$client.requests") || true
  echo "$client: one call, $count requests"
  [ "$count" = "$expected" ] || changed=1
done <<'EXPECTED'
wget 3
httplib2 2
httpclient 2
axios-retry 4
HttpURLConnection 2
EXPECTED
exit $changed
