#!/bin/bash
# Debian 12's nginx 1.22.1-9+deb12u11 asks the service of `auth_request` with the event's `content-length`, but without its
# body. A service that reads the body waits for it until nginx answers 500, after a minute by default. If the service
# answers 429 or 503 with `Retry-After`, nginx answers 500 without it; 401 and 403 are passed on. Hurt: receivers of webhooks
# that leave the verification, or a limit on requests, to such a service: no event arrives, and a sender does not learn how
# long it has to wait. With `proxy_pass_request_body off`, the service can check a token, but no signature.
# Usage: findings/nginx-auth-request.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet nginx=1.22.1-9+deb12u11
dpkg --extract nginx_*.deb .
port=$((20000 + $$ % 12000))
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server {
    listen 127.0.0.1:$port;
    location / { proxy_pass http://127.0.0.1:$((port + 1)); }
    location /as-is { auth_request /check-as-is; proxy_pass http://127.0.0.1:$((port + 1)); }
    location /headers { auth_request /check-headers; proxy_pass http://127.0.0.1:$((port + 1)); }
    location /check-as-is { internal; proxy_read_timeout 2s; proxy_pass http://127.0.0.1:$((port + 1)); }
    location /check-headers {
      internal;
      proxy_pass_request_body off;
      proxy_set_header content-length "";
      proxy_pass http://127.0.0.1:$((port + 1));
    }
  }
}
NGINX
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> log &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
cat > client.py <<'PYTHON'
import http.client, http.server, sys, threading

port = int(sys.argv[1])
checks = []


class Service(http.server.BaseHTTPRequestHandler):
    """Receives events, answers 204 to all, and checks them, with the answer that the event asks for."""

    def do_GET(self):
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        is_check = self.path.startswith("/check")
        if is_check:
            checks.append((self.command, length, len(body)))
            self.send_response(int(self.headers["x-answer"]))
            self.send_header("retry-after", "7")
        else:
            self.send_response(204)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_):
        pass


service = http.server.ThreadingHTTPServer(("127.0.0.1", port + 1), Service)
threading.Thread(target=service.serve_forever, daemon=True).start()


def post(path, answer):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", path, b"{}", {"x-answer": str(answer)})
    response = connection.getresponse()
    return response.status, response.getheader("retry-after")


answers = {answer: post("/headers", answer) for answer in (204, 401, 403, 429, 503)}
for answer, (status, wait) in answers.items():
    print(f"the service answers {answer}: {status}, Retry-After {wait}")
whole = post("/as-is", 204)
service.shutdown()
print(f"the service reads the body: {whole[0]}; it got a {checks[-1][0]} with {checks[-1][2]} of {checks[-1][1]} bytes")
expected = {answer: (answer if answer < 429 else 500, None) for answer in answers}
sys.exit((answers, whole, checks[-1]) != (expected, (500, None), ("GET", 2, 0)))
PYTHON
python3 client.py "$port" || { cat log; exit 1; }
