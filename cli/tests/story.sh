# A script that uses most commands of the client. The test sets KEY, RECEIVER and QUEUE.
field() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."): value = value[int(name) if name.isdigit() else name]
print(value)' "$1"; }
# Repeats a command until its output contains a word.
until_it_says() {
  local wanted=$1; shift
  for _ in $(seq 100); do if "$@" | grep -q -- "$wanted"; then return; fi; sleep 0.1; done
  echo "in vain: $* says $wanted" >&2; "$@" >&2; exit 1
}

echo "$KEY" | fanfare login --key
fanfare whoami | grep -q "owner of"
fanfare endpoints list | grep -q "No endpoints yet"

ENDPOINT=$(fanfare --json endpoints create "$RECEIVER" --description "my hook" | field webhook_endpoint_id)
fanfare endpoints list | grep -q "^$RECEIVER  *enabled  *all  *my hook  *$ENDPOINT$"
fanfare endpoints update "$ENDPOINT" --events job.completed --description "my other hook"
fanfare endpoints list | grep -q "^$RECEIVER  *enabled  *job.completed  *my other hook  *$ENDPOINT$"
fanfare endpoints rotate "$ENDPOINT" | grep -q "whsec_"
fanfare endpoints test "$ENDPOINT" | grep -q "Test event will be sent"
until_it_says delivered fanfare deliveries list --endpoint "$ENDPOINT"

fanfare send --job job-1 --workflow invoices --result '{"answer": 42}' --queue-url "$QUEUE" | grep -q "Sent job.completed of job-1"
until_it_says job-1 fanfare deliveries list --status delivered --since 1h
DELIVERY=$(fanfare --json deliveries list --job job-1 | field deliveries.0.delivery_id)
fanfare deliveries get "$DELIVERY" | grep -q '"result":{"answer":42}'
SHORT=$(echo "${DELIVERY##*.}" | cut -c -8)
fanfare deliveries get "$SHORT" | grep -q "^Delivery: $DELIVERY$"
fanfare deliveries get "msg_${DELIVERY##*.}" | grep -q "^Endpoint: $RECEIVER ($ENDPOINT)$"
fanfare deliveries resend "$DELIVERY"
until_it_says resend fanfare deliveries get "$DELIVERY"
fanfare deliveries stats | grep -q "delivered  *1"
fanfare deliveries recover "$ENDPOINT" --since 1h --no-wait
fanfare deliveries recover --since 1h --status failed --outcome status_5xx | grep -q "Done: 0 resent"
fanfare endpoints delete "$ENDPOINT" --yes
fanfare endpoints list | grep -q "No endpoints yet"
fanfare completions bash | grep -q fanfare
fanfare logout
