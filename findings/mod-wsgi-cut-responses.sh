#!/bin/bash
# Debian 12's mod_wsgi 4.9.4-1+b2 in daemon mode, under Apache 2.4.71-1~deb12u1, ends a chunked 200 that the application breaks
# off as if it was complete: after an error behind the first `yield`, if the process is killed, and if it is reloaded by
# touching the WSGI file and the event takes longer than five seconds more. In embedded mode, or with a `content-length`, the
# response is broken off for the sender, too. A reload before the first `yield` answers 500, and the next event waits five
# seconds, also if the process was idle. Hurt: receivers of webhooks that stream their response, as with Django's
# StreamingHttpResponse: the sender sees a complete 200, so the event is lost.
# Source: https://modwsgi.readthedocs.io/en/master/configuration-directives/WSGIDaemonProcess.html
# Usage: findings/mod-wsgi-cut-responses.sh. Needs apt-get of Debian 12, its libpython3.11, and Python 3. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet apache2-bin=2.4.71-1~deb12u1 libapache2-mod-wsgi-py3=4.9.4-1+b2 \
  libapr1=1.7.2-3+deb12u1 libaprutil1=1.6.3-1+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
chmod 755 .
port=$((20000 + $$ % 12000))
cat > hook.wsgi <<'PYTHON'
import os, time


def application(environ, start_response):
    environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    case = environ["PATH_INFO"].removeprefix("/")
    length = [("content-length", "15")] if case == "error-with-length" else []
    start_response("200 OK", [("content-type", "text/plain"), *length])
    return events(case)


def events(case):
    if case == "reload-before":
        time.sleep(6)
    yield b"storing"
    if case.startswith("error"):
        raise RuntimeError("the database does not answer")
    if case == "killed":
        os.kill(os.getpid(), 9)
    if case == "reload":
        time.sleep(6)
        yield b", stored"
PYTHON
cat > httpd.conf <<APACHE
ServerRoot $folder
ServerName localhost
User www-data
Group www-data
PidFile $folder/pid
ErrorLog $folder/error.log
DefaultRuntimeDir $folder
LoadModule mpm_prefork_module usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module usr/lib/apache2/modules/mod_authz_core.so
LoadModule wsgi_module usr/lib/apache2/modules/mod_wsgi.so
WSGISocketPrefix $folder/wsgi
Listen 127.0.0.1:$port
<VirtualHost 127.0.0.1:$port>
  WSGIDaemonProcess hook processes=1 threads=4
  WSGIProcessGroup hook
  WSGIScriptAlias / $folder/hook.wsgi
</VirtualHost>
Listen 127.0.0.1:$((port + 1))
<VirtualHost 127.0.0.1:$((port + 1))>
  WSGIScriptAlias / $folder/hook.wsgi
</VirtualHost>
APACHE
cat > client.py <<'PYTHON'
import http.client, os, subprocess, sys, threading, time

port = int(sys.argv[1])
CUT = "200, broken off"
EXPECTED = {
    "success": ["200, complete"] * 2,
    "error": ["200, complete", CUT],
    "error-with-length": [CUT, CUT],
    "killed": ["200, complete", CUT],
    "reload": ["200, complete: storing", "200, complete: storing, stored"],
    "reload-before": ["500, complete", "200, complete: storing"],
}


def post(number, case):
    """The status of a response, and whether it is complete."""
    connection = http.client.HTTPConnection("127.0.0.1", port + number, timeout=20)
    connection.request("POST", f"/{case}", '{"event":"job.completed"}', {"content-type": "application/json"})
    response = connection.getresponse()
    try:
        body = response.read().decode()
    except http.client.IncompleteRead:
        return CUT
    text = f": {body}" if case.startswith("reload") and response.status == 200 else ""
    return f"{response.status}, complete{text}"


def touch():
    touched.append(time.time() + 2 * len(touched))
    os.utime("hook.wsgi", (touched[-1], touched[-1]))


def post_and_reload(number, case):
    """Touches the file while the event is in progress, and sends another event, which reloads the process."""
    found = []
    thread = threading.Thread(target=lambda: found.append(post(number, case)))
    thread.start()
    time.sleep(0.5)
    touch()
    assert post(number, "success") == "200, complete"
    thread.join()
    return found[0]


command = ["usr/sbin/apache2", "-f", os.path.abspath("httpd.conf"), "-D", "FOREGROUND"]
# Apache passes a SIGTERM to its process group.
server = subprocess.Popen(command, start_new_session=True)
touched = []
waited = []
found = {}
try:
    for _ in range(100):
        try:
            assert post(0, "success") == "200, complete"
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    for number in (0, 1):
        for case in EXPECTED:
            run = post_and_reload if case.startswith("reload") else post
            found.setdefault(case, []).append(run(number, case))
            time.sleep(0.5)
        touch()
        begin = time.monotonic()
        assert post(number, "success") == "200, complete"
        waited.append(time.monotonic() - begin)
finally:
    server.terminate()
    server.wait()
for case, (daemon, embedded) in found.items():
    print(f"{case}: in daemon mode {daemon}; embedded {embedded}")
print(f"the next event after a reload of an idle process takes {waited[0]:.0f} s in daemon mode; embedded {waited[1]:.0f} s")
sys.exit(found != EXPECTED or not (4 < waited[0] < 7 and waited[1] < 2))
PYTHON
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
python3 client.py "$port" || { tail --lines 5 error.log; exit 1; }
