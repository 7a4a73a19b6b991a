#!/bin/bash
# Debian 12's ModSecurity 2.9.7-1+deb12u2, in its recommended configuration with `SecRuleEngine On`, answers 400 to valid
# JSON with more than 1000 values, such as an array of 1001 numbers: it counts each as an argument, and its limit of
# arguments is 1000. Its log says "JSON parsing error". It answers 413 to more than 128 KB of JSON, although
# `SecRequestBodyLimit` is 12.5 MB: the limit is `SecRequestBodyNoFilesLimit`. Neither needs a rule about attacks. Hurt:
# receivers of webhooks behind such a server: small events arrive, and those with a longer list fail with a 400 that the
# application never saw.
# Usage: findings/modsecurity-json.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet apache2-bin=2.4.71-1~deb12u1 \
  libapache2-mod-security2=2.9.7-1+deb12u2 libapr1=1.7.2-3+deb12u1 libaprutil1=1.6.3-1+deb12u1 liblua5.1-0=5.1.5-9 \
  libyajl2=2.1.0-3+deb12u2
for package in *.deb; do dpkg --extract "$package" .; done
port=$((20000 + $$ % 12000))
sed --in-place "s#^SecUnicodeMapFile unicode.mapping#SecUnicodeMapFile $folder/etc/modsecurity/unicode.mapping#; /^SecAuditLog/d
  s/^SecRuleEngine DetectionOnly/SecRuleEngine On/" etc/modsecurity/modsecurity.conf-recommended
mkdir htdocs
touch htdocs/hook
cat > httpd.conf <<APACHE
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$port
User www-data
Group www-data
PidFile $folder/pid
ErrorLog $folder/error.log
LoadModule mpm_event_module usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module usr/lib/apache2/modules/mod_authz_core.so
LoadModule unique_id_module usr/lib/apache2/modules/mod_unique_id.so
LoadModule security2_module usr/lib/apache2/modules/mod_security2.so
Include $folder/etc/modsecurity/modsecurity.conf-recommended
SecAuditEngine Off
SecDataDir $folder
SecTmpDir $folder
DocumentRoot $folder/htdocs
APACHE
chmod 755 .
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/apache2 -f "$folder/httpd.conf" -X > log 2>&1 &
server=$!
cat > post.py <<'PYTHON'
import http.client, json, sys, time

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for attempt in range(100):
    try:
        connection.connect()
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
changed = False
for name, result, expected in [
    ("1000 numbers", list(range(1000)), 200),
    ("1001 numbers", list(range(1001)), 400),
    ("a text of 128 KB less 100 bytes", "x" * (131_072 - 100), 200),
    ("a text of 128 KB", "x" * 131_072, 413),
]:
    body = json.dumps({"result": result})
    connection.request("POST", "/hook", body, {"content-type": "application/json", "connection": "close"})
    response = connection.getresponse()
    response.read()
    print(f"{name}, {len(body)} bytes: {response.status}")
    changed |= response.status != expected
sys.exit(changed)
PYTHON
python3 post.py $port || { cat log error.log; exit 1; }
grep --only-matching 'ModSecurity: JSON parsing error: [^[\\]*' error.log
