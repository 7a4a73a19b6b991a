#!/bin/bash
# granian 2.8.9 answers a request in progress at a SIGTERM, however long that takes, but ends at once while a background task
# of FastAPI 0.165.0 runs, such as `background_tasks.add_task(...)` with an `async` function, without an error in its log.
# gunicorn 27.0.1 (`-k asgi`) ends such a task 3 seconds after the client has closed the connection, also without a SIGTERM,
# and hypercorn 0.18.0 ends tasks and requests after 3 seconds, its `graceful_timeout`. Sanic 25.12.1 ends a task of
# `app.add_task` at once, and Quart 0.22.0 one of `app.add_background_task` after 5 seconds, also with uvicorn 0.54.0. uvicorn
# waits for FastAPI's tasks, and granian and gunicorn do for a task that is not `async`. Hurt: receivers of webhooks that answer
# 204 and process the event in such a task: at each deployment, events that count as delivered are lost.
# Source: https://fastapi.tiangolo.com/tutorial/background-tasks/
# Usage: findings/background-tasks-shutdown.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check fastapi==0.165.0 granian==2.8.9 gunicorn==27.0.1 hypercorn==0.18.0 \
  quart==0.22.0 sanic==25.12.1 starlette==1.10.0 uvicorn==0.54.0
cat > receivers.py <<'PYTHON'
import asyncio, os, pathlib, sys, time
import fastapi, quart, sanic

fastapi_app, quart_app, sanic_app = fastapi.FastAPI(), quart.Quart("receiver"), sanic.Sanic("receiver")
DONE = pathlib.Path(os.environ["DONE"])


async def work(seconds):
    DONE.with_suffix(".begun").touch()
    await asyncio.sleep(seconds)
    DONE.touch()


def work_in_thread(seconds):
    DONE.with_suffix(".begun").touch()
    time.sleep(seconds)
    DONE.touch()


@fastapi_app.post("/request/{seconds}", status_code=204)
async def request(seconds: int):
    await work(seconds)


@fastapi_app.post("/async/{seconds}", status_code=204)
async def in_task(seconds: int, background_tasks: fastapi.BackgroundTasks):
    background_tasks.add_task(work, seconds)


@fastapi_app.post("/thread/{seconds}", status_code=204)
async def in_thread(seconds: int, background_tasks: fastapi.BackgroundTasks):
    background_tasks.add_task(work_in_thread, seconds)


@quart_app.post("/async/<int:seconds>")
async def of_quart(seconds):
    quart_app.add_background_task(work, seconds)
    return "", 204


@sanic_app.post("/async/<seconds:int>")
async def of_sanic(request, seconds):
    request.app.add_task(work(seconds))
    return sanic.response.empty()


if __name__ == "__main__":
    sanic_app.run(host="127.0.0.1", port=int(sys.argv[1]), single_process=True, motd=False)
PYTHON
cat > check.py <<'PYTHON'
import concurrent.futures, contextlib, http.client, os, pathlib, socket, subprocess, sys, time

SERVERS = {
    "uvicorn": "uvicorn --port PORT receivers:fastapi_app",
    "gunicorn": "gunicorn -k asgi --no-control-socket --bind 127.0.0.1:PORT receivers:fastapi_app",
    "granian": "granian --interface asgi --port PORT receivers:fastapi_app",
    "hypercorn": "hypercorn --bind 127.0.0.1:PORT receivers:fastapi_app",
    "Quart, uvicorn": "uvicorn --port PORT receivers:quart_app",
    "Sanic": "python receivers.py PORT",
}
EXPECTED = {
    "uvicorn": {"/request/6": (204, "done"), "/async/6": (204, "done"), "/thread/6": (204, "done")},
    "gunicorn": {"/request/6": (204, "done"), "/async/6": (204, "lost"), "/thread/6": (204, "done")},
    "granian": {"/request/6": (204, "done"), "/async/6": (204, "lost"), "/thread/6": (204, "done")},
    "hypercorn": {"/request/1": (204, "done"), "/request/6": (500, "lost"), "/async/6": (204, "lost")},
    "Quart, uvicorn": {"/async/2": (204, "done"), "/async/8": (204, "lost")},
    "Sanic": {"/async/2": (204, "lost")},
}


def post(port, path):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("POST", path, b"{}", {"content-type": "application/json"})
        return connection.getresponse().status


def seen(server, path):
    """The status, and whether the work is done, if the server gets a SIGTERM during the work."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    name = "".join(filter(str.isalnum, server + path))
    done = pathlib.Path(f"{name}.done").absolute()
    program, *arguments = SERVERS[server].replace("PORT", str(port)).split()
    with open(f"{name}.log", "w") as log:
        process = subprocess.Popen(
            ["python/bin/" + program, *arguments], stdout=log, stderr=log, env={**os.environ, "DONE": str(done)}
        )
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            response = threads.submit(post, port, path)
            while not done.with_suffix(".begun").exists():
                time.sleep(0.1)
            time.sleep(0.3)
            process.terminate()
            process.wait(timeout=30)
            return response.result(), "done" if done.exists() else "lost"
    finally:
        process.kill()
        process.wait()


cases = [(server, path) for server, paths in EXPECTED.items() for path in paths]
with concurrent.futures.ThreadPoolExecutor(max_workers=3) as threads:
    found = {case: result for case, result in zip(cases, threads.map(lambda case: seen(*case), cases))}
for (server, path), (status, work) in found.items():
    print(f"{server}, {path}: {status}, {work}")
sys.exit(found != {(server, path): EXPECTED[server][path] for server, path in cases})
PYTHON
python/bin/python check.py || { tail -n 5 ./*.log; exit 1; }
