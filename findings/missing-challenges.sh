#!/bin/bash
# Jetty's client 9.4.57 of Debian 12 fails with "HTTP protocol violation" at a 401 without `WWW-Authenticate`, and so does Java
# 17's own HttpClient with "WWW-Authenticate header missing" once it has an Authenticator, such as the one for a proxy. The
# program gets neither the status nor the body, which says what to do. HTTP requires the header in a 401. Any scheme will do,
# also one that the client does not know: with `WWW-Authenticate: ApiKey`, both return the response. Hurt: developers who call
# an API that sends no such header with a key that has been deleted: they see an error of the network.
# Source: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.2
# Usage: findings/missing-challenges.sh. Needs apt-get of Debian 12, and Java 17 with its compiler. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libjetty9-java=9.4.57-1.1~deb12u1 \
  libjetty9-extra-java=9.4.57-1.1~deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
cat > server.py <<'PYTHON'
import http.server, sys


class Server(http.server.BaseHTTPRequestHandler):
    """Answers 401, with the scheme in the path, if there is one."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"code":"UNAUTHORIZED"}'
        self.send_response(401)
        if self.path != "/":
            self.send_header("www-authenticate", self.path[1:])
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
PYTHON
cat > Clients.java <<'JAVA'
import java.net.Authenticator;
import java.net.PasswordAuthentication;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import org.eclipse.jetty.client.util.StringContentProvider;

class Clients {
    interface Client {
        String post(String url) throws Exception;
    }

    static String java(HttpClient.Builder client, String url) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofString("{}")).build();
        var response = client.build().send(request, BodyHandlers.ofString());
        return response.statusCode() + " " + response.body();
    }

    static String jetty(String url) throws Exception {
        var client = new org.eclipse.jetty.client.HttpClient();
        client.start();
        try {
            var response = client.POST(url).content(new StringContentProvider("{}")).send();
            return response.getStatus() + " " + response.getContentAsString();
        } finally {
            client.stop();
        }
    }

    static void show(String name, String scheme, Client client, String url) {
        String result;
        try {
            result = client.post(url + "/" + scheme);
        } catch (Exception error) {
            var cause = error.getCause() == null ? error : error.getCause();
            result = cause.getMessage();
        }
        System.out.println(name + ", 401 " + (scheme.isEmpty() ? "without a challenge" : "with " + scheme) + ": " + result);
    }

    public static void main(String[] arguments) {
        var proxy = new Authenticator() {
            @Override
            protected PasswordAuthentication getPasswordAuthentication() {
                return getRequestorType() == RequestorType.PROXY ? new PasswordAuthentication("ada", new char[0]) : null;
            }
        };
        for (var scheme : new String[] {"", "ApiKey"}) {
            show("Java", scheme, url -> java(HttpClient.newBuilder(), url), arguments[0]);
            show("Java with an Authenticator", scheme, url -> java(HttpClient.newBuilder().authenticator(proxy), url), arguments[0]);
            show("Jetty", scheme, Clients::jetty, arguments[0]);
        }
        System.exit(0);
    }
}
JAVA
port=$((20000 + $$ % 12000))
python3 server.py "$port" 2> server.errors &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
java -cp "$(echo usr/share/java/jetty9-{client,http,io,util}.jar | tr ' ' ':')" Clients.java "http://127.0.0.1:$port" \
  2> errors | tee results || { cat errors; exit 1; }
diff results - <<'EXPECTED'
Java, 401 without a challenge: 401 {"code":"UNAUTHORIZED"}
Java with an Authenticator, 401 without a challenge: WWW-Authenticate header missing for response code 401
Jetty, 401 without a challenge: HTTP protocol violation: Authentication challenge without WWW-Authenticate header
Java, 401 with ApiKey: 401 {"code":"UNAUTHORIZED"}
Java with an Authenticator, 401 with ApiKey: 401 {"code":"UNAUTHORIZED"}
Jetty, 401 with ApiKey: 401 {"code":"UNAUTHORIZED"}
EXPECTED
