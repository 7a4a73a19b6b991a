#!/bin/bash
# Debian 12's Mono 6.8.0.105+dfsg-3.3+deb12u1 answers with a complete 200 if a handler calls `HttpListenerResponse.Abort`, which
# is documented as closing the connection without a response: before the first bytes, the 200 is empty, and after them, it
# ends with the last chunk. With `ContentLength64`, a response that has begun is broken off. Hurt: receivers of webhooks with
# `HttpListener` that abort the response after an error: the sender sees a success, and the event is lost. A handler has to
# set `StatusCode` before the first bytes.
# Source: https://learn.microsoft.com/dotnet/api/system.net.httplistenerresponse.abort
# Usage: findings/mono-abort.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
version=6.8.0.105+dfsg-3.3+deb12u1
packages=
for package in libmono-corlib4.5-cil libmono-corlib4.5-dll libmono-microsoft-csharp4.0-cil libmono-security4.0-cil \
  libmono-system-configuration4.0-cil libmono-system-core4.0-cil libmono-system-numerics4.0-cil \
  libmono-system-security4.0-cil libmono-system-xml4.0-cil libmono-system4.0-cil mono-4.0-gac mono-gac mono-mcs \
  mono-runtime mono-runtime-common mono-runtime-sgen; do
  packages+=" $package=$version"
done
apt-get -o APT::Sandbox::User=root download --quiet --quiet $packages
for package in *.deb; do dpkg --extract "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib MONO_CFG_DIR=$folder/etc MONO_GAC_PREFIX=$folder/usr MONO_PATH=$folder/usr/lib/mono/4.5
cat > Receiver.cs <<'CSHARP'
using System;
using System.IO;
using System.Net;
using System.Text;
using System.Threading;

class Receiver {
  static void Main(string[] arguments) {
    var listener = new HttpListener();
    listener.Prefixes.Add("http://127.0.0.1:" + arguments[0] + "/");
    listener.Start();
    while (true) Handle(listener.GetContext());
  }

  static void Handle(HttpListenerContext context) {
    var response = context.Response;
    context.Request.InputStream.CopyTo(Stream.Null);
    try {
      if (context.Request.RawUrl == "/early") Store();
      if (context.Request.RawUrl == "/with-length") response.ContentLength64 = 30;
      var text = Encoding.UTF8.GetBytes("storing the event\n");
      response.OutputStream.Write(text, 0, text.Length);
      Thread.Sleep(200);
      Store();
    } catch (Exception) {
      response.Abort();
    }
  }

  static void Store() { throw new Exception("The database is away"); }
}
CSHARP
usr/bin/mono-sgen usr/lib/mono/4.5/mcs.exe Receiver.cs
port=$((20000 + $$ % 12000))
usr/bin/mono-sgen Receiver.exe "$port" > log 2>&1 &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time

EXPECTED = {"/early": "200, complete", "/late": "200, complete", "/with-length": "200, broken off"}


def seen(path):
    """The status of a response, and whether it is complete."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    connection.request("POST", path, "{}", {"content-type": "application/json"})
    try:
        response = connection.getresponse()
        response.read()
        return f"{response.status}, complete"
    except http.client.IncompleteRead:
        return f"{response.status}, broken off"
    except ConnectionError:
        return "no response"


found = {path: seen(path) for path in EXPECTED}
for path, answer in found.items():
    print(f"{path}: {answer}")
sys.exit(found != EXPECTED)
PYTHON
python3 client.py "$port" || { cat log; exit 1; }
