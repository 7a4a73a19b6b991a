#!/bin/bash
# Debian's Alertmanager 0.25 answers 200 to an alert and takes it for resolved after `resolve_timeout`, 5 minutes by default,
# unless the client posts it again or gives it an `endsAt`. An alert that is posted once may therefore never fire: if the
# service that notifies is away for that long and a `group_interval`, together ten minutes, it gets nothing after its return; if
# the group has a later `group_interval`, the first notice of the alert says "resolved"; and a restart before the notice loses
# it, because alerts are in memory only, in spite of `--storage.path`. An `endsAt` in the future avoids the first two. The page
# about the API expects clients to repeat alerts, and does not say what happens otherwise. To be quick, the times here are
# seconds. Hurt: receivers of webhooks that turn an event such as job.failed into an alert with one POST: the engineers on call
# hear nothing of it, although each program has answered 200.
# Source: https://prometheus.io/docs/alerting/latest/clients/
# Usage: findings/alertmanager-single-posts.sh. Needs apt-get of Debian 12, root (for a mount of its own, because Debian's
# program reads its template in /usr/share), Python 3 and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${alertmanager:-} ${pager:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet prometheus-alertmanager=0.25.0-1+b4
dpkg --extract ./*.deb .
port=$((20000 + $$ % 12000))
cat > configuration.yml <<YAML
global: {resolve_timeout: 5s}
route: {receiver: pager, group_by: [group], group_wait: 1s, group_interval: 2s, repeat_interval: 1h,
  routes: [{receiver: pager, matchers: ['group = "long"'], group_wait: 1s, group_interval: 12s}]}
receivers: [{name: pager, webhook_configs: [{url: "http://127.0.0.1:$((port + 1))/"}]}]
YAML
cat > pager.py <<'PYTHON'
import http.server, json, sys


class Pager(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        notice = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("notices", "a") as file:
            for alert in notice["alerts"]:
                print(alert["labels"]["job"], alert["status"], file=file)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Pager).serve_forever()
PYTHON
start_alertmanager() {
  unshare --mount bash -c 'mount --bind usr/share /usr/share && exec "$@"' - usr/bin/prometheus-alertmanager \
    --config.file configuration.yml --storage.path data --web.listen-address 127.0.0.1:$port --cluster.listen-address= >> log 2>&1 &
  alertmanager=$!
  for _ in {1..100}; do curl --silent --fail --output ready http://127.0.0.1:$port/-/ready && break; sleep 0.1; done
}
start_pager() {
  python3 pager.py $((port + 1)) &
  pager=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$((port + 1))") 2> /dev/null && break; sleep 0.1; done
}
stop() {
  kill "$1"
  wait "$1" || true
}
post() { # the group, the job, and more members of the alert
  curl --silent --max-time 5 --output answer --write-out "$2: %{http_code}\n" --header 'content-type: application/json' \
    --data "[{\"labels\": {\"alertname\": \"JobFailed\", \"group\": \"$1\", \"job\": \"$2\"}${3:-}}]" \
    "http://127.0.0.1:$port/api/v2/alerts"
}
ends=', "endsAt": "'$(date --utc --date 'tomorrow' +%FT%TZ)'"'
notices() { grep --only-matching "^$1 .*" notices | head --lines 1 || echo "$1 none"; }
touch notices
start_alertmanager
start_pager
post short usual
# The group `long` has just sent its first notice when the next alerts arrive.
post long first
for _ in {1..100}; do grep --quiet first notices && break; sleep 0.1; done
post long second
post long second-endsAt "$ends"
sleep 14
stop $pager
post outage during
post outage-endsAt during-endsAt "$ends"
# A notice in progress is retried for ten seconds, or for `group_interval` if that is longer.
sleep 19
start_pager
sleep 8
# A restart before the notice.
post restart restarted "$ends"
stop $alertmanager
start_alertmanager
sleep 4
seen=$(for job in usual first second second-endsAt during during-endsAt restarted; do notices $job; done)
echo "$seen"
[ "$seen" = 'usual firing
first firing
second resolved
second-endsAt firing
during none
during-endsAt firing
restarted none' ]
