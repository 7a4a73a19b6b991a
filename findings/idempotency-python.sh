#!/bin/bash
# Python packages that answer a repeated request with a stored response also store refusals and failures.
# asgi-idempotency-header 0.2.0 and fastidempotent 0.1.0 store a returned 503; these two, fastapi-idempotency 0.1.1 and
# drf-idempotency 1.0.0 store a 401 and a 429 for a day (fastidempotent for an hour), and answer all retries with it. If a
# handler raises an error, asgi-idempotency-header answers 409 to each retry; after a 204, it runs the handler again.
# django-idempotency-key 1.3.0 answers 409 to a duplicate of a request that has succeeded. Hurt: receivers of webhooks that use
# `webhook-id` as the key: a 429 that asks for a retry, or a 401 before the secret was corrected, makes all retries of the
# event fail, and with django-idempotency-key a harmless duplicate looks like a failure and is sent again.
# Usage: findings/idempotency-python.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check asgi-idempotency-header==0.2.0 django-idempotency-key==1.3.0 \
  django==5.2.19 djangorestframework==3.18.3 drf-idempotency==1.0.0 fastapi==0.165.0 fastapi-idempotency==0.1.1 \
  fastidempotent==0.1.0 httpx==0.28.1
cat > with_fastapi.py <<'PYTHON'
import asyncio, sys
import fastapi, fastapi_idempotency, fastidempotent, httpx, idempotency_header_middleware
from idempotency_header_middleware.backends import MemoryBackend
from shared import CASES, first_status, show

PACKAGES = {
    "asgi-idempotency-header": (
        idempotency_header_middleware.IdempotencyHeaderMiddleware,
        {"backend": MemoryBackend(), "idempotency_header_key": "webhook-id"},
    ),
    "fastapi-idempotency": (fastapi_idempotency.IdempotencyMiddleware, {"header_name": "webhook-id"}),
    "fastidempotent": (
        fastidempotent.IdempotencyMiddleware, {"backend": fastidempotent.MemoryBackend(), "header": "webhook-id"}
    ),
}


async def seen(middleware, options):
    runs, app = dict.fromkeys(CASES, 0), fastapi.FastAPI()
    app.add_middleware(middleware, **options)

    @app.post("/hook")
    async def hook(request: fastapi.Request):
        status = first_status(runs, request.headers["webhook-id"])
        return fastapi.Response(status_code=204) if status == 204 else fastapi.responses.JSONResponse({}, status)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        post = lambda case: client.post("/hook", json={}, headers={"webhook-id": case})
        return {case: ([(await post(case)).status_code for _ in range(3)], runs[case]) for case in CASES}


found = {name: asyncio.run(seen(*package)) for name, package in PACKAGES.items()}
show(found)
stored = {case: ([int(case)] * 3, 1) for case in ("401", "429", "503", "204")}
again = ([500, 200, 200], 2)
sys.exit(found != {
    "asgi-idempotency-header": stored | {"error": ([500, 409, 409], 1), "204": ([204, 204, 204], 3)},
    "fastapi-idempotency": stored | {"error": again, "503": ([503, 200, 200], 2)},
    "fastidempotent": stored | {"error": again},
})
PYTHON
cat > with_django.py <<'PYTHON'
import sys
import django
from django.conf import settings
from shared import CASES, first_status, show

name = sys.argv[1]
database = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "events"}}
common = {"ROOT_URLCONF": __name__, "SECRET_KEY": "key", "DATABASES": database}
settings.configure(**common, **{
    "django-idempotency-key": {
        "MIDDLEWARE": ["idempotency_key.middleware.IdempotencyKeyMiddleware"],
        "IDEMPOTENCY_KEY": {"HEADER": "HTTP_WEBHOOK_ID"},
    },
    "drf-idempotency": {
        "INSTALLED_APPS": ["drf_idempotency"],
        "MIDDLEWARE": ["drf_idempotency.middleware.IdempotencyMiddleware"],
        "IDEMPOTENCY": {"HEADER_NAME": "webhook-id"},
    },
}[name])
django.setup()
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client
from django.urls import path

runs = dict.fromkeys(CASES, 0)
urlpatterns = [path("hook", lambda request: HttpResponse(status=first_status(runs, request.headers["webhook-id"])))]
if name == "drf-idempotency":
    call_command("migrate", verbosity=0)
client = Client(raise_request_exception=False)
post = lambda case: client.post("/hook", b"{}", "application/json", headers={"webhook-id": case})
found = {case: ([post(case).status_code for _ in range(3)], runs[case]) for case in CASES}
show({name: found})
again = lambda first, last: ([first, 200, last], 2)
sys.exit(found != {
    "django-idempotency-key": {
        "error": again(500, 409), "503": again(503, 409), "401": again(401, 409), "429": again(429, 409),
        "204": ([204, 409, 409], 1),
    },
    "drf-idempotency": {
        "error": again(500, 200), "503": again(503, 200), "401": ([401] * 3, 1), "429": ([429] * 3, 1),
        "204": ([204] * 3, 1),
    },
}[name])
PYTHON
cat > shared.py <<'PYTHON'
import logging

logging.disable()
CASES = "error", "503", "401", "429", "204"


def first_status(runs, case):
    """The status of a receiver that fails in the first run only."""
    runs[case] += 1
    if runs[case] > 1 and case != "204":
        return 200
    if case == "error":
        raise ValueError("The database is away")
    return int(case)


def show(found):
    for name, cases in found.items():
        print(f"{name}: " + "; ".join(f"{case}: {statuses}, runs: {runs}" for case, (statuses, runs) in cases.items()))
PYTHON
for program in with_fastapi.py "with_django.py django-idempotency-key" "with_django.py drf-idempotency"; do
  python/bin/python $program 2> log || { cat log; exit 1; }
done
