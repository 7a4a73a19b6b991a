#!/bin/bash
# FastAPI 0.165.0, Starlette 1.10.0 and Litestar 2.25.0 run the background tasks of a response one after the other, and
# an error of one ends them all, so the later tasks never run; the log shows the error of the first one only. With
# `run_in_task_group=True`, Litestar starts all of them and cancels the others at the first error. Quart 0.22.0, Sanic
# 25.12.1 and Falcon 4.4.0 run each task on its own. Hurt: receivers of webhooks that answer 204 and add a task for each
# piece of work: if the first one sends an email, and the mail server is away, the event is not stored either, and
# counts as delivered. Catch errors in each task, or store the event before the response.
# Source: https://www.starlette.io/background/ and https://docs.litestar.dev/latest/usage/responses.html#background-tasks
# Usage: findings/background-task-errors.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check falcon==4.4.0 fastapi==0.165.0 litestar==2.25.0 \
  quart==0.22.0 sanic==25.12.1 starlette==1.10.0 uvicorn==0.54.0
cat > receivers.py <<'PYTHON'
import asyncio, http.client, logging, sys, threading, time
import falcon.asgi, fastapi, litestar, quart, sanic, uvicorn
from litestar.background_tasks import BackgroundTask as LitestarTask, BackgroundTasks as LitestarTasks
from starlette import applications, background, responses, routing

logging.disable(logging.CRITICAL)
seen = []


async def email():
    seen.append("email begun")
    await asyncio.sleep(0.1)
    raise ConnectionError("the mail server does not answer")


async def store():
    seen.append("store begun")
    await asyncio.sleep(0.5)
    seen.append("stored")


fastapi_app, quart_app, sanic_app = fastapi.FastAPI(), quart.Quart("receiver"), sanic.Sanic("receiver")


@fastapi_app.post("/", status_code=204)
async def of_fastapi(background_tasks: fastapi.BackgroundTasks):
    background_tasks.add_task(email)
    background_tasks.add_task(store)


async def of_starlette(_request):
    tasks = background.BackgroundTasks([background.BackgroundTask(email), background.BackgroundTask(store)])
    return responses.Response(status_code=204, background=tasks)


def of_litestar(in_group):
    @litestar.post("/", status_code=204)
    async def receive() -> litestar.Response[None]:
        tasks = LitestarTasks([LitestarTask(email), LitestarTask(store)], run_in_task_group=in_group)
        return litestar.Response(None, background=tasks)

    return litestar.Litestar([receive], logging_config=None)


@quart_app.post("/")
async def of_quart():
    quart_app.add_background_task(email)
    quart_app.add_background_task(store)
    return "", 204


@sanic_app.post("/")
async def of_sanic(_request):
    sanic_app.add_task(email())
    sanic_app.add_task(store())
    return sanic.response.empty()


class OfFalcon:
    async def on_post(self, _request, response):
        response.status = 204
        response.schedule(email)
        response.schedule(store)


falcon_app = falcon.asgi.App()
falcon_app.add_route("/", OfFalcon())
starlette_app = applications.Starlette(routes=[routing.Route("/", of_starlette, methods=["POST"])])
alone = ["email begun"]
canceled = ["email begun", "store begun"]
both = ["email begun", "store begun", "stored"]
changed = False
for name, app, expected in [
    ("FastAPI", fastapi_app, alone),
    ("Starlette", starlette_app, alone),
    ("Litestar", of_litestar(False), alone),
    ("Litestar, run_in_task_group", of_litestar(True), canceled),
    ("Quart", quart_app, both),
    ("Sanic", sanic_app, both),
    ("Falcon", falcon_app, both),
]:
    seen.clear()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    connection = http.client.HTTPConnection("127.0.0.1", server.servers[0].sockets[0].getsockname()[1])
    connection.request("POST", "/", b"{}", {"content-type": "application/json"})
    response = connection.getresponse()
    response.read()
    end = time.monotonic() + (20 if expected == both else 2)
    while seen[-1:] != ["stored"] and time.monotonic() < end:
        time.sleep(0.05)
    print(f"{name}: {response.status}, {', '.join(seen)}")
    changed |= (response.status, seen) != (204, expected)
    connection.close()
    server.should_exit = True
    thread.join(10)
sys.exit(changed)
PYTHON
python/bin/python receivers.py 2> errors || { tail -5 errors; exit 1; }
