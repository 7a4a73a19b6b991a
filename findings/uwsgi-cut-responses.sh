#!/bin/bash
# uWSGI 2.0.30.post1 ends a 200 that an application breaks off as if it was complete: after an error behind the first `yield`,
# as in a response of Flask 3.1.2 that is streamed, and if the process is killed. Its protocol, as nginx 1.22.1-9+deb12u11 with
# `uwsgi_pass` and Apache 2.4.71-1~deb12u1 with mod_proxy_uwsgi speak it, has no sign for the end of a response except the end
# of the connection, so both send the end to the client. gunicorn 27.0.1, also behind nginx, breaks the response off. Hurt:
# receivers of webhooks that stream their response: the sender sees a complete 200, so the event is lost. A response with a
# `content-length` is safe.
# Usage: findings/uwsgi-cut-responses.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet apache2-bin=2.4.71-1~deb12u1 libapr1=1.7.2-3+deb12u1 \
  libaprutil1=1.6.3-1+deb12u1 nginx=1.22.1-9+deb12u11
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check flask==3.1.2 gunicorn==27.0.1 pyuwsgi==2.0.30.post1
chmod 755 .
port=$((20000 + $$ % 12000))
cat > app.py <<'PYTHON'
import os, time

import flask

app = flask.Flask(__name__)


@app.post("/<case>")
def hook(case):
    flask.request.get_data()
    headers = {"content-length": "15"} if case == "error-with-length" else {}
    return app.response_class(events(case), headers=headers, content_type="text/plain")


def events(case):
    yield "storing"
    time.sleep(0.2)
    if case == "killed":
        os.kill(os.getpid(), 9)
    if case.startswith("error"):
        raise RuntimeError("the database does not answer")
    yield ", stored"
PYTHON
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  uwsgi_param REQUEST_METHOD \$request_method; uwsgi_param PATH_INFO \$document_uri;
  uwsgi_param CONTENT_LENGTH \$content_length; uwsgi_param QUERY_STRING \$query_string;
  uwsgi_param SERVER_NAME \$server_name; uwsgi_param SERVER_PORT \$server_port; uwsgi_param SERVER_PROTOCOL \$server_protocol;
  server { listen 127.0.0.1:$((port + 3)); location / { uwsgi_pass 127.0.0.1:$port; } }
  server { listen 127.0.0.1:$((port + 4)); location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$((port + 2)); } }
}
NGINX
cat > httpd.conf <<APACHE
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$((port + 5))
User www-data
Group www-data
PidFile $folder/apache.pid
ErrorLog $folder/apache.log
LoadModule mpm_prefork_module usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_uwsgi_module usr/lib/apache2/modules/mod_proxy_uwsgi.so
ProxyPass / uwsgi://127.0.0.1:$port/
APACHE
uwsgi=(python/bin/uwsgi --master --need-app --processes 2 --module app:app --die-on-term)
[ -e python/bin/uwsgi ] || uwsgi[0]=python/bin/pyuwsgi
"${uwsgi[@]}" --socket "127.0.0.1:$port" > uwsgi.log 2>&1 &
servers=$!
"${uwsgi[@]}" --http-socket "127.0.0.1:$((port + 1))" > uwsgi-http.log 2>&1 &
servers+=" $!"
python/bin/gunicorn --bind "127.0.0.1:$((port + 2))" app:app > gunicorn.log 2>&1 &
servers+=" $!"
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> nginx.log &
servers+=" $!"
usr/sbin/apache2 -X -f "$folder/httpd.conf" > apache.out 2>&1 &
servers+=" $!"
cat > client.py <<'PYTHON'
import http.client, sys, time

COMPLETE, CUT = "200, complete: storing", "200, broken off"
EXPECTED = {
    "uWSGI's own http-socket": (1, [COMPLETE, COMPLETE, CUT]),
    "nginx with uwsgi_pass": (3, [COMPLETE, COMPLETE, CUT]),
    "Apache with mod_proxy_uwsgi": (5, [COMPLETE, COMPLETE, CUT]),
    "gunicorn": (2, [CUT, CUT, CUT]),
    "nginx with proxy_pass to gunicorn": (4, [CUT, CUT, CUT]),
}


def post(port, case):
    """The status of a response, and its body, or that it is broken off."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", f"/{case}", '{"event":"job.completed"}', {"content-type": "application/json"})
    response = connection.getresponse()
    try:
        return f"{response.status}, complete: {response.read().decode()}"
    except http.client.IncompleteRead:
        return CUT


changed = False
for name, (number, expected) in EXPECTED.items():
    port = int(sys.argv[1]) + number
    for _ in range(150):
        try:
            if post(port, "success") == "200, complete: storing, stored":
                break
        except OSError:
            pass
        time.sleep(0.1)
    found = []
    for case in ("error", "killed", "error-with-length"):
        found.append(post(port, case))
        time.sleep(1.5)
    print(f"{name}: after an error {found[0]}; if the process is killed {found[1]}; with a length {found[2]}")
    changed |= found != expected
sys.exit(changed)
PYTHON
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
