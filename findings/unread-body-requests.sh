#!/bin/bash
# Three servers of Debian 12 keep a connection open after a handler has answered without reading the body, and do not skip
# all of the body: SWI-Prolog 9.0.4+dfsg-2 and Poco 1.11.0-3+deb12u1 answer 400 to the next event on the connection, or close
# it, and cpp-httplib 0.11.4+ds-1+deb12u1, in a handler with a `ContentReader`, answers 414 if the body was large. If the
# handler has read the body, they serve the next event. Hurt: receivers of webhooks that refuse a request by its headers, with
# 401 or 503: the next event on the connection, which is valid, fails with a status that no code of the receiver sends.
# Usage: findings/unread-body-requests.sh. Needs apt-get of Debian 12, g++ and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libarchive13=3.6.2-1+deb12u5 \
  libcpp-httplib-dev=0.11.4+ds-1+deb12u1 libcpp-httplib0.11=0.11.4+ds-1+deb12u1 libossp-uuid16=1.6.2-1.5+b11 \
  libpcre3=2:8.39-15 libpoco-dev=1.11.0-3+deb12u1 libpocofoundation80=1.11.0-3+deb12u1 libpoconet80=1.11.0-3+deb12u1 \
  libtcmalloc-minimal4=2.10-1 swi-prolog-core=9.0.4+dfsg-2 swi-prolog-core-packages=9.0.4+dfsg-2 \
  swi-prolog-nox=9.0.4+dfsg-2
for package in *.deb; do dpkg --extract "$package" .; done
# Each server answers 503 to /early without reading the body, and reads the body for /hook before it answers 204.
cat > receiver.pl <<'PROLOG'
:- use_module(library(http/http_client)).
:- use_module(library(http/http_dispatch)).
:- use_module(library(http/thread_httpd)).
:- http_handler(root(early), early, []).
:- http_handler(root(hook), hook, []).

early(_) :- format("Status: 503~n~n").
hook(Request) :- http_read_data(Request, _, [to(string)]), format("Status: 204~n~n").

serve(Port) :- http_server(http_dispatch, [port(localhost:Port)]), thread_get_message(stop).
PROLOG
cat > httplib.cpp <<'CPP'
#include <cstdlib>
#include <httplib.h>

int main(int, char **arguments) {
  httplib::Server server;
  server.Post("/early", [](const httplib::Request &, httplib::Response &response, const httplib::ContentReader &) {
    response.status = 503;
  });
  server.Post("/hook", [](const httplib::Request &, httplib::Response &response, const httplib::ContentReader &read) {
    read([](const char *, size_t) { return true; });
    response.status = 204;
  });
  server.listen("127.0.0.1", std::atoi(arguments[1]));
}
CPP
cat > poco.cpp <<'CPP'
#include <Poco/Net/HTTPRequestHandler.h>
#include <Poco/Net/HTTPRequestHandlerFactory.h>
#include <Poco/Net/HTTPServer.h>
#include <Poco/Net/HTTPServerRequest.h>
#include <Poco/Net/HTTPServerResponse.h>
#include <Poco/NullStream.h>
#include <Poco/StreamCopier.h>

using namespace Poco::Net;

struct Handler : HTTPRequestHandler {
  void handleRequest(HTTPServerRequest &request, HTTPServerResponse &response) override {
    if (request.getURI() == "/early") {
      response.setStatusAndReason(HTTPResponse::HTTP_SERVICE_UNAVAILABLE);
      response.setContentLength(0);
    } else {
      Poco::NullOutputStream nowhere;
      Poco::StreamCopier::copyStream(request.stream(), nowhere);
      response.setStatusAndReason(HTTPResponse::HTTP_NO_CONTENT);
    }
    response.send();
  }
};

struct Factory : HTTPRequestHandlerFactory {
  HTTPRequestHandler *createRequestHandler(const HTTPServerRequest &) override { return new Handler; }
};

int main(int, char **arguments) {
  HTTPServer server(new Factory, ServerSocket(SocketAddress("127.0.0.1", arguments[1])), new HTTPServerParams);
  server.start();
  for (;;) Poco::Thread::sleep(1000);
}
CPP
library=$folder/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$library:$folder/lib/x86_64-linux-gnu SWI_HOME_DIR=$folder/usr/lib/swi-prolog
compile() { g++ -std=c++17 -I usr/include -L "$library" -Wl,-rpath-link,"$LD_LIBRARY_PATH" "$@"; }
compile httplib.cpp -o httplib -lcpp-httplib -pthread
compile poco.cpp -o poco -lPocoNet -lPocoFoundation
cat > client.py <<'PYTHON'
import http.client, socket, subprocess, sys, time

EVENT = '{"event":"job.completed","job_id":"job-1","status":"completed","result":"RESULT"}'


def post(connection, path, size):
    """The status and whether the response announces a close, or how a request ends without a response."""
    body = EVENT.replace("RESULT", "x" * size)
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    try:
        connection.sendall((head + body).encode())
        response = http.client.HTTPResponse(connection, method="POST")
        response.begin()
        response.read()
        return response.status, response.will_close
    except (ConnectionError, http.client.BadStatusLine):
        return "closed", True
    except TimeoutError:
        return "no response", True


def seen(command, path, size):
    """The responses to an event of this size and, on the same connection, to a small one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [word.replace("PORT", str(port)) for word in command.split()]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                connection = socket.create_connection(("127.0.0.1", port), timeout=5)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        first, announced = post(connection, path, size)
        time.sleep(0.3)
        return first, "announced" if announced else post(connection, "/hook", 10)[0]
    finally:
        server.kill()
        server.wait()


changed = False
for name, command, served in [
    ("SWI-Prolog", "usr/lib/swi-prolog/bin/x86_64-linux/swipl -g serve(PORT) receiver.pl", [False, False]),
    ("cpp-httplib", "./httplib PORT", [True, False]),
    ("Poco", "./poco PORT", [False, False]),
]:
    found = {path: [seen(command, path, size) for size in (10, 100_000)] for path in ("/hook", "/early")}
    print(f"{name}, with the body read: {found['/hook']}, unread: {found['/early']}")
    changed |= found["/hook"] != [(204, 204)] * 2 or [first for first, _ in found["/early"]] != [503] * 2
    changed |= [second == 204 for _, second in found["/early"]] != served
sys.exit(changed)
PYTHON
python3 client.py
