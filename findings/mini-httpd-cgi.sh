#!/bin/bash
# Debian 12's mini-httpd 1.30-3 runs a CGI script for a POST request and then closes the connection without its response, if
# the body has arrived together with the headers, as small bodies do: the process that passes the body on ends the sending
# side of the connection. If the body arrives later, the response is sent. In both cases, the script sees none of the headers
# of a webhook, since only a fixed list of headers, such as `user-agent` and `accept`, becomes `HTTP_...`; RFC 3875 requires
# none. Hurt: receivers of webhooks on small devices: the script runs at each attempt, no attempt succeeds, and a signature
# cannot be verified.
# Source: https://www.rfc-editor.org/rfc/rfc3875#section-4.1.18
# Usage: findings/mini-httpd-cgi.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet mini-httpd=1.30-3
dpkg --extract mini-httpd_*.deb .
chmod 755 .
mkdir -p www/cgi-bin
cat > www/cgi-bin/hook <<CGI
#!/bin/sh
head -c "\$CONTENT_LENGTH" > /dev/null
env | grep -c '^HTTP_WEBHOOK' >> "$folder/headers"
printf 'Status: 204 No Content\r\n\r\n'
CGI
chmod -R 755 www
touch headers
chmod 666 headers
port=$((20000 + $$ % 12000))
usr/sbin/mini_httpd -D -h 127.0.0.1 -p "$port" -d "$folder/www" -c 'cgi-bin/*' -u "$(id --user --name)" 2> log &
server=$!
cat > client.py <<'PYTHON'
import socket, sys, time

EVENT = b'{"event":"job.completed","job_id":"job-1","status":"completed","result":{"answer":42}}'
HEAD = b"""POST /cgi-bin/hook HTTP/1.1\r
host: localhost\r
content-type: application/json\r
webhook-id: msg_1\r
webhook-timestamp: 1795255377\r
content-length: %d\r
\r
""" % len(EVENT)


def seen(*parts):
    """The first line of the response to a request that is sent in these parts, and the webhook headers of the script."""
    for _ in range(100):
        try:
            connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    for part in parts:
        connection.sendall(part)
        time.sleep(0.5)
    response = b"".join(iter(lambda: connection.recv(1000), b""))
    time.sleep(0.5)
    with open("headers") as headers:
        return response.split(b"\r\n")[0].decode() or "none", headers.read().split()


together = seen(HEAD + EVENT)
apart = seen(HEAD, EVENT)
print(f"together: {together[0]}; apart: {apart[0]}; webhook headers of each run of the script: {apart[1]}")
sys.exit((together, apart) != (("none", ["0"]), ("HTTP/1.0 204 Something", ["0", "0"])))
PYTHON
python3 client.py "$port"
