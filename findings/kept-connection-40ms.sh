#!/bin/bash
# The HTTP servers in the libraries of Java 17 (com.sun.net.httpserver) and of Python 3.11 (http.server, HTTP/1.1) take over
# 40 ms for each response with a body on a kept connection, and 1 ms without a body or on a new connection: both write the
# headers and the body on their own, without TCP_NODELAY, so the second write waits for the acknowledgment of the first,
# which the client's system delays by 40 ms. Answering 204 avoids it; so does a buffered `wfile` in Python. Hurt: tests and
# small receivers, which answer at most 25 requests a second on a connection, and benchmarks of clients against them.
# Usage: findings/kept-connection-40ms.sh. Needs Linux, Java 17 and Python 3.11. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
cat > Server.java <<'JAVA'
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

public class Server {
  public static void main(String[] arguments) throws Exception {
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", exchange -> {
      exchange.getRequestBody().readAllBytes();
      if (exchange.getRequestURI().getPath().equals("/204")) {
        exchange.sendResponseHeaders(204, -1);
      } else {
        exchange.sendResponseHeaders(200, 2);
        exchange.getResponseBody().write("ok".getBytes());
      }
      exchange.close();
    });
    server.start();
    System.out.println(server.getAddress().getPort());
  }
}
JAVA
cat > server.py <<'PYTHON'
import http.server, sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = int(sys.argv[1])

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204 if self.path == "/204" else 200)
        if self.path == "/200":
            self.send_header("content-length", "2")
        self.end_headers()
        if self.path == "/200":
            self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
cat > measure.py <<'PYTHON'
import http.client, statistics, subprocess, sys, time


def milliseconds(port, path, is_kept):
    """The median time of a request, from the second one on a connection."""
    times, connection = [], None
    for _ in range(25):
        if connection is None or not is_kept:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.connect()
        start = time.perf_counter()
        connection.request("POST", path, b"{}")
        connection.getresponse().read()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[5:])


SERVERS = {
    "Java": (["java", "Server.java"], True),
    "Python": ([sys.executable, "server.py", "0"], True),
    "Python, buffered": ([sys.executable, "server.py", "-1"], False),
}
for name, (command, is_slow) in SERVERS.items():
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        kept, new, empty = milliseconds(port, "/200", True), milliseconds(port, "/200", False), milliseconds(port, "/204", True)
        print(f"{name}: a body on a kept connection {kept:.1f} ms, on a new one {new:.1f} ms; 204 {empty:.1f} ms")
        assert (kept > 35) == is_slow and new < 30 and empty < 30
    finally:
        server.kill()
        server.wait()
PYTHON
python3 measure.py
