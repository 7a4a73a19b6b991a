#!/bin/bash
# salt-api of Salt 3008.0 answers 200 with `{"success": false}` to each webhook if the master was not running when salt-api
# started: the event is not on Salt's event bus, so no reactor runs. Hurt: operators who receive webhooks at `/hook` of
# salt-api: after a restart of the machine or of salt-api, until the master runs, events count as delivered and are lost.
# Source: https://docs.saltproject.io/en/latest/ref/netapi/all/salt.netapi.rest_cherrypy.html#hook
# Usage: findings/salt-api-webhooks.sh. Needs Python 3.11 with pip, PyPI and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
set -m # each job is a group of its own, because a master that is killed while it starts leaves processes running
trap 'kill -KILL ${api:+-$api} ${master:+-$master} 2> /dev/null || true; wait 2> /dev/null; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check salt==3008.0 cherrypy==18.10.0 croniter cryptography distro jinja2 \
  looseversion msgpack packaging psutil pycryptodomex pyyaml pyzmq requests tornado
port=$((20000 + $$ % 12000))
mkdir --parents etc sock
cat > etc/master <<YAML
root_dir: $folder
pki_dir: $folder/pki
cachedir: $folder/cache
sock_dir: $folder/sock
log_file: $folder/master.log
api_logfile: $folder/api.log
pidfile: $folder/master.pid
api_pidfile: $folder/api.pid
interface: 127.0.0.1
publish_port: $((port + 1))
ret_port: $((port + 2))
user: $(id --user --name)
rest_cherrypy: {host: 127.0.0.1, port: $port, disable_ssl: true, webhook_disable_auth: true}
YAML
post() {
  curl --silent --max-time 15 --write-out ' %{http_code}' --header 'content-type: application/json' \
    --data '{"event":"job.completed"}' "http://127.0.0.1:$port/hook/jobs"
}
python/bin/salt-api --config-dir etc > api.out 2>&1 &
api=$!
for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
before=$(post)
python/bin/salt-master --config-dir etc > master.out 2>&1 &
master=$!
for _ in {1..60}; do
  running=$(post)
  [[ "$running" == *true* ]] && break
  sleep 0.5
done
printf '%s\n' "the master is not started yet: $before" "the master is running: $running"
[ "$before" = '{"success": false} 200' ] && [ "$running" = '{"success": true} 200' ]
