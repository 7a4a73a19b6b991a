#!/bin/bash
# Mangum 0.22.0, on AWS Lambda with FastAPI 0.165.0, stops a task of `asyncio.create_task` when the response is ready, and goes
# on with it only during the next event of the same process, because it runs the event loop for each event alone. A background
# task of FastAPI runs before the response is returned, so it makes the receiver slow, and its error changes nothing: the
# response is a 204, although Mangum has not returned it yet. With uvicorn, both run after the response. Hurt: receivers of
# webhooks that answer 204 and process the event in a task: with few events, or when the process ends, it is lost.
# Source: `run` in `mangum/protocols/http.py`
# Usage: findings/mangum-tasks.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check fastapi==0.165.0 mangum==0.22.0
cat > receiver.py <<'PYTHON'
import asyncio, logging, sys, time
import fastapi, mangum

app = fastapi.FastAPI()
done = []
tasks = set()


async def work(name):
    await asyncio.sleep(0.5)
    done.append(name)
    if name == "fails":
        raise RuntimeError("failed")


@app.post("/task/{name}", status_code=204)
async def in_task(name: str):
    task = asyncio.create_task(work(name))
    tasks.add(task)
    task.add_done_callback(tasks.discard)


@app.post("/background/{name}", status_code=204)
async def in_background(name: str, background_tasks: fastapi.BackgroundTasks):
    background_tasks.add_task(work, name)


@app.post("/other", status_code=204)
async def other():
    await asyncio.sleep(0.1)


def post(path):
    """The status, whether it took more than the half second of the work, and the work that is done."""
    event = {
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "", "body": "{}", "isBase64Encoded": False,
        "headers": {"content-type": "application/json", "host": "example.com"},
        "requestContext": {
            "domainName": "example.com", "requestId": "request-1", "stage": "$default",
            "http": {"method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1"},
        },
    }
    start = time.monotonic()
    status = handler(event, None)["statusCode"]
    return status, "late" if time.monotonic() - start >= 0.5 else "at once", done.copy()


logging.disable()
handler = mangum.Mangum(app, lifespan="off")
found = [post("/task/first")]
time.sleep(2)
found.append((0, "two seconds later", done.copy()))
found += [post("/other"), post("/background/second"), post("/background/fails")]
for status, when, work_done in found:
    print(status or "", when, work_done)
sys.exit(found != [
    (204, "at once", []), (0, "two seconds later", []), (204, "at once", ["first"]), (204, "late", ["first", "second"]),
    (204, "late", ["first", "second", "fails"]),
])
PYTHON
python/bin/python -W ignore receiver.py
