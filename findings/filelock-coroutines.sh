#!/bin/bash
# An AsyncFileLock of filelock 4.3.1 that is made once, or with `is_singleton=True`, does not exclude the tasks of one event
# loop: it counts an `async with` of another task as a nested one of its own, and lets it in at once. So of twenty events that
# each read a file, await and write it anew under the lock, only the change of one remains. An AsyncFileLock made for each
# event, an asyncio.Lock, and a FileLock that is shared by threads let them in one after another. Hurt: receivers of webhooks
# under an ASGI server that change a file, or check whether an event is known, under such a lock: events that arrive at once
# overwrite each other or are processed twice, while tests with one event at a time, or with several processes, pass.
# Source: https://py-filelock.readthedocs.io/en/latest/
# Usage: findings/filelock-coroutines.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check filelock==4.3.1
cat > count.py <<'PYTHON'
import asyncio, pathlib, threading, time
from filelock import AsyncFileLock, FileLock

FILE = pathlib.Path("events")
EVENTS = 20


async def process(lock):
    async with lock:
        known = int(FILE.read_text())
        await asyncio.sleep(0.02)
        FILE.write_text(str(known + 1))


def process_in_thread(lock):
    with lock:
        known = int(FILE.read_text())
        time.sleep(0.02)
        FILE.write_text(str(known + 1))


async def in_tasks(make):
    await asyncio.gather(*(process(make()) for _ in range(EVENTS)))


def show(name, run):
    FILE.write_text("0")
    run()
    print(f"{name}: {FILE.read_text()} of {EVENTS} events")


def with_shared_lock():
    lock = AsyncFileLock("shared")
    asyncio.run(in_tasks(lambda: lock))


def with_asyncio_lock():
    lock = asyncio.Lock()
    asyncio.run(in_tasks(lambda: lock))


def in_threads():
    lock = FileLock("threads")
    threads = [threading.Thread(target=process_in_thread, args=[lock]) for _ in range(EVENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


show("AsyncFileLock, made once", with_shared_lock)
show("AsyncFileLock, is_singleton", lambda: asyncio.run(in_tasks(lambda: AsyncFileLock("singleton", is_singleton=True))))
show("AsyncFileLock, made for each event", lambda: asyncio.run(in_tasks(lambda: AsyncFileLock("each"))))
show("asyncio.Lock", with_asyncio_lock)
show("FileLock, in threads", in_threads)
PYTHON
seen=$(python/bin/python count.py)
echo "$seen"
[ "$seen" = "AsyncFileLock, made once: 1 of 20 events
AsyncFileLock, is_singleton: 1 of 20 events
AsyncFileLock, made for each event: 20 of 20 events
asyncio.Lock: 20 of 20 events
FileLock, in threads: 20 of 20 events" ]
