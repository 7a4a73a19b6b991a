#!/bin/bash
# PHP-FPM 8.2.36-1~deb12u1 of Debian 12 kills the scripts in progress at a SIGUSR2, which its manual calls a graceful reload,
# and at a SIGQUIT, a graceful stop, because `process_control_timeout` is 0 by default. nginx 1.22.1-9+deb12u11 answers 502 to
# the events in progress, and work after `fastcgi_finish_request`, where Laravel's and Symfony's jobs after the response run, is
# lost after a 204. With `process_control_timeout = 15`, the scripts end first, but not at a SIGTERM, which `systemctl stop`
# and `docker stop` send. Hurt: receivers of webhooks in PHP: each reload, as after a deployment, loses such events.
# Source: https://www.php.net/manual/install.fpm.configuration.php
# Usage: findings/php-fpm-reload.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${nginx:-} ${fpm:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libapparmor1=3.0.8-3 libargon2-1=0~20171227-0.3+deb12u1 \
  libicu72=72.1-3+deb12u1 libpcre3=2:8.39-15 libsodium23=1.0.18-1+deb12u1 libxml2=2.9.14+dfsg-1.3~deb12u6 \
  nginx=1.22.1-9+deb12u11 php8.2-fpm=8.2.36-1~deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
chmod 755 .
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
port=$((20000 + $$ % 12000))
cat > hook.php <<'PHP'
<?php
$event = file_get_contents("php://input");
http_response_code(204);
if ($_SERVER["QUERY_STRING"] === "after") fastcgi_finish_request();
for ($end = microtime(true) + 2; microtime(true) < $end;) usleep(10000);
file_put_contents(__DIR__ . "/events", $event, FILE_APPEND);
PHP
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server {
    listen 127.0.0.1:$port;
    fastcgi_param SCRIPT_FILENAME $folder/hook.php;
    fastcgi_param REQUEST_METHOD \$request_method;
    fastcgi_param QUERY_STRING \$query_string;
    fastcgi_param CONTENT_TYPE \$content_type;
    fastcgi_param CONTENT_LENGTH \$content_length;
    location / { fastcgi_pass unix:$folder/socket; }
  }
}
NGINX
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> nginx.log &
nginx=$!
changed=0

# Starts PHP-FPM with this process_control_timeout, sends it a signal while a script handles an event, and compares the
# status of the response, and whether the event was stored.
expect() {
  rm -f events socket
  cat > fpm.conf <<FPM
[global]
error_log = $folder/fpm.log
daemonize = no
process_control_timeout = $1
[www]
user = $(id --user)
group = $(id --group)
listen = $folder/socket
pm = static
pm.max_children = 2
FPM
  usr/sbin/php-fpm8.2 --no-php-ini --allow-to-run-as-root --fpm-config fpm.conf 2> /dev/null &
  fpm=$!
  for _ in {1..100}; do [ -S socket ] && break; sleep 0.1; done
  (sleep 1; kill "-$2" "$fpm") &
  local seen
  seen=$(curl --silent --max-time 10 --output /dev/null --write-out '%{http_code}' --data '{}' "http://127.0.0.1:$port/?$3")
  sleep 2.5
  seen+=", $([ -s events ] && echo stored || echo lost)"
  echo "process_control_timeout $1, SIG$2, work ${3:+$3 }the response: $seen"
  [ "$seen" = "$4" ] || changed=1
  kill "$fpm" 2> /dev/null || true
  wait "$fpm" || true
}

expect 0 USR2 before '502, lost'
expect 0 USR2 after '204, lost'
expect 0 QUIT before '502, lost'
expect 0 QUIT after '204, lost'
expect 15 USR2 before '204, stored'
expect 15 USR2 after '204, stored'
expect 15 QUIT after '204, stored'
expect 15 TERM after '204, lost'
exit $changed
