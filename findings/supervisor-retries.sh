#!/bin/bash
# PyPI's supervisor 4.3.0 with `autorestart=true` and npm's pm2 7.0.4 and forever 4.0.3 give up a program that ends early:
# supervisor after 4 or 5 starts, within about ten seconds, pm2 after 16, within about five, and forever after the first,
# because each ended within a second. The program stays down, as FATAL or "errored", until it is started by hand. supervisor's
# `startretries=1000`, pm2's `--exp-backoff-restart-delay 100` and forever's `--minUptime 1000 --spinSleepTime 1000` continue,
# and so does circus 0.19.0. Hurt: receivers of webhooks that exit if their database or broker does not answer: after an outage
# of half a minute, they are down, and all events fail, although `autorestart` and `forever` promise otherwise.
# Source: https://supervisord.org/subprocess.html#process-states, and `max_restarts` and `min_uptime` of
# https://pm2.keymetrics.io/docs/usage/application-declaration/
# Usage: findings/supervisor-retries.sh. Needs Node.js 20, npm's registry, Python 3.11 with pip, and PyPI. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
export PM2_HOME=$folder/home
trap 'kill ${supervisors:-} $(cat pids) 2> /dev/null || true; node_modules/.bin/pm2 kill --silent; wait; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts forever@4.0.3 pm2@7.0.4
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check circus==0.19.0 supervisor==4.3.0
cat > receiver <<'SHELL'
#!/bin/bash
# Ends at once during an outage, and otherwise runs.
echo started >> "starts.$1"
[ ! -e outage ] || exit 1
echo $$ >> pids
echo "$1" > "up.$1"
exec sleep 1000
SHELL
chmod +x receiver
cat > supervisor.conf <<SUPERVISOR
[supervisord]
nodaemon=true
logfile=$folder/supervisor.log
pidfile=$folder/supervisor.pid
user=root
[program:default]
command=$folder/receiver supervisor
directory=$folder
autorestart=true
[program:retries]
command=$folder/receiver supervisor-startretries
directory=$folder
autorestart=true
startretries=1000
SUPERVISOR
cat > circus.ini <<CIRCUS
[circus]
endpoint = ipc://$folder/circus
pubsub_endpoint = ipc://$folder/events
[watcher:receiver]
cmd = $folder/receiver circus
working_dir = $folder
CIRCUS
touch outage pids
python/bin/supervisord --configuration supervisor.conf > supervisor.out 2>&1 &
supervisors=$!
python/bin/circusd circus.ini > circus.out 2>&1 &
supervisors+=" $!"
node_modules/.bin/forever -c bash receiver forever > forever.out 2>&1 &
supervisors+=" $!"
node_modules/.bin/forever --minUptime 1000 --spinSleepTime 1000 -c bash receiver forever-spinSleepTime > sleeping.out 2>&1 &
supervisors+=" $!"
pm2() { node_modules/.bin/pm2 start ./receiver --silent --name "$1" --interpreter bash "${@:2}" -- "$1"; }
pm2 pm2
pm2 pm2-exp-backoff --exp-backoff-restart-delay 100
# The outage ends after both have given up.
for _ in {1..600}; do
  grep --quiet 'gave up: default' supervisor.log && [ "$(wc --lines < starts.pm2)" -ge 16 ] && break
  sleep 0.1
done
sleep 3
rm outage
for _ in {1..300}; do [ "$(cat up.* 2> /dev/null | wc --lines)" -ge 4 ] && break; sleep 0.1; done
sleep 2
seen=
for name in supervisor supervisor-startretries pm2 pm2-exp-backoff forever forever-spinSleepTime circus; do
  echo "$name: $(wc --lines < "starts.$name") starts"
  seen+="$name: $([ -e "up.$name" ] && echo up || echo down)
"
done
echo "after the outage
$seen"
[ "$seen" = 'supervisor: down
supervisor-startretries: up
pm2: down
pm2-exp-backoff: up
forever: down
forever-spinSleepTime: up
circus: up
' ]
