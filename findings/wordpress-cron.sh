#!/bin/bash
# Debian's WordPress 6.1.9 keeps all jobs of `wp_schedule_single_event` in one row of the database, which each process reads at
# its start and writes back as a whole. Of several requests at once, each replaces the jobs that the others have added, and all
# calls return true. While wp-cron.php runs, it writes the jobs back as they were when it started after each one, so all events
# that arrive during a job are lost if another one follows it. Also with `DISABLE_WP_CRON` and a cron job of the system, which
# is what WordPress recommends. Hurt: receivers of webhooks in WordPress that add a job for each event and answer 204: events
# that arrive together, or while others are processed, are lost without an error. Insert each event into a table of its own.
# Source: https://core.trac.wordpress.org/ticket/49520
# Usage: findings/wordpress-cron.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${database:-}" ${server:+-$server} 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libaio1=0.3.113-4 libmariadb3=1:10.11.19-0+deb12u1 \
  libnuma1=2.0.16-1 liburing2=2.3-3 mariadb-server-core=1:10.11.19-0+deb12u1 php8.2-cli=8.2.36-1~deb12u1 \
  php8.2-common=8.2.36-1~deb12u1 php8.2-mysql=8.2.36-1~deb12u1 wordpress=6.1.9+dfsg1-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
port=$((20000 + $$ % 12000))
mkdir data
touch database.log
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/mariadbd --no-defaults --user="$(id --user --name)" --datadir="$folder/data" \
  --socket="$folder/socket" --skip-grant-tables --skip-networking --lc-messages-dir="$folder/usr/share/mysql" 2> database.log &
database=$!
for _ in {1..300}; do grep --quiet 'ready for connections' database.log && break; sleep 0.1; done
site=$folder/usr/share/wordpress
cat > "$site/wp-config.php" <<PHP
<?php
const DB_NAME = 'wordpress', DB_USER = 'root', DB_PASSWORD = '', DB_HOST = 'localhost:$folder/socket', DB_CHARSET = 'utf8mb4';
const DB_COLLATE = '', DISABLE_WP_CRON = true, WP_HTTP_BLOCK_EXTERNAL = true;
\$table_prefix = 'wp_';
require_once '$site/wp-settings.php';
PHP
mkdir --parents "$site/wp-content/mu-plugins"
cat > "$site/wp-content/mu-plugins/receiver.php" <<'PHP'
<?php
add_action('rest_api_init', fn () => register_rest_route('receiver/v1', '/hook', [
    'methods' => 'POST',
    'permission_callback' => '__return_true',
    'callback' => function ($request) {
        $added = wp_schedule_single_event(time(), 'process_event', [$request->get_header('webhook-id')], true);
        return new WP_REST_Response(null, $added === true ? 204 : 500);
    },
]));
add_action('process_event', function ($id) {
    file_put_contents(getenv('FOLDER') . '/processed', "$id\n", FILE_APPEND);
    sleep(2);
});
PHP
for name in mysqlnd mysqli ctype tokenizer; do echo "extension=$folder/usr/lib/php/20220829/$name.so"; done > php.ini
export FOLDER=$folder
php() { usr/bin/php8.2 --php-ini php.ini "$@"; }
cat > install.php <<PHP
<?php
(new mysqli('localhost', 'root', '', null, 0, '$folder/socket'))->query('CREATE DATABASE wordpress');
const WP_INSTALLING = true;
function wp_mail() { return true; }
\$_SERVER['HTTP_HOST'] = '127.0.0.1';
require '$site/wp-load.php';
require_once '$site/wp-admin/includes/upgrade.php';
wp_install('Receiver', 'admin', 'admin@example.com', false);
PHP
php install.php > install.log
PHP_CLI_SERVER_WORKERS=8 setsid usr/bin/php8.2 --php-ini php.ini -S "127.0.0.1:$port" -t "$site" > server.log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

post() {
  curl --silent --output /dev/null --write-out '%{http_code}\n' --header "webhook-id: $1" --json '{}' \
    "http://127.0.0.1:$port/?rest_route=/receiver/v1/hook"
}
run_cron() { php "$site/wp-cron.php"; }

touch processed
for id in {1..8}; do post "$id" & requests+=($!); done > statuses
wait "${requests[@]}"
run_cron
at_once=$(sort --unique processed | wc --lines) accepted=$(grep --count 204 statuses)
: > processed
echo "8 events at once: $accepted answered with 204, $at_once processed"

for id in first second; do post "$id"; done > statuses
run_cron &
cron=$!
for _ in {1..100}; do grep --quiet first processed && break; sleep 0.1; done
for id in third fourth; do post "$id"; done >> statuses
wait "$cron"
run_cron
later=$(tr '\n' ' ' < processed)
echo "two events, and two during the first job: $(grep --count 204 statuses) answered with 204, processed: $later"
[ "$(grep --count 204 statuses)" = 4 ] && [ "$accepted" = 8 ] && [ "$at_once" -lt 8 ] && [ "$later" = "first second " ]
