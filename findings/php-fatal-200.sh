#!/bin/bash
# PHP 8.2 answers 200 to a request whose script ends with an uncaught exception, unless `display_errors` is off: the error
# page counts as output of the script. PHP has it on if there is no php.ini, and its own server takes
# `display_errors=stderr`, which keeps errors out of a response elsewhere, for on. Hurt: receivers of webhooks on such an
# installation: the sender's log says "delivered" for each event that the script failed on, and no event is repeated.
# Usage: findings/php-fatal-200.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get install --simulate --reinstall --no-install-recommends php8.2-cli | sed -n 's/^Inst \([^ ]*\).*/\1/p' > packages
xargs apt-get -o APT::Sandbox::User=root download --quiet --quiet < packages
for package in *.deb; do dpkg --extract "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
echo '<?php throw new Exception("the handler failed");' > hook.php
port=$((20000 + $$ % 20000))
for setting in "" display_errors=stderr display_errors=0; do
  usr/bin/php8.2 --no-php-ini ${setting:+-d "$setting"} -S "127.0.0.1:$port" hook.php > /dev/null 2>&1 &
  server=$!
  seen=$(curl --silent --retry 50 --retry-delay 1 --retry-connrefused --output /dev/null \
    --write-out '%{http_code} %{size_download}' -d '{}' "http://127.0.0.1:$port/")
  kill "$server"
  wait "$server" 2> /dev/null || true
  echo "${setting:-without a php.ini}: status and length: $seen"
  case $setting in
    "" | *stderr) [[ $seen = "200 "[1-9]* ]] ;;
    *) [[ $seen = "500 "* ]] ;;
  esac
  port=$((port + 1))
done
