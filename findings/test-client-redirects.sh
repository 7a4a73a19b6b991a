#!/bin/bash
# The test clients of Starlette 1.10.0, FastAPI 0.165.0, Litestar 2.25.0, aiohttp 3.14.5 and Sanic 25.12.1 (sanic-testing 24.6.0)
# follow redirects by default, with the body, so a test of a receiver passes although every webhook to it fails: senders of
# webhooks do not follow redirects. FastAPI and Starlette answer 307 to `/hook` if the route is `/hook/`, aiohttp 308 with its
# middleware for slashes, and HTTPSRedirectMiddleware 307 behind a proxy that speaks HTTP to it. The clients of Flask 3.1.3,
# Quart 0.22.0, Django 5.2.19 and Falcon 4.4.0 show the redirect. Hurt: developers of receivers: the
# test of the endpoint's path is green, and each delivery fails with a 3xx.
# Source: https://www.starlette.io/testclient/
# Usage: findings/test-client-redirects.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check aiohttp==3.14.5 django==5.2.19 falcon==4.4.0 fastapi==0.165.0 flask==3.1.3 \
  httpx==0.28.1 litestar==2.25.0 quart==0.22.0 sanic==25.12.1 sanic-testing==24.6.0 starlette==1.10.0
# The status that a test sees if the receiver answers with a redirect.
cat > clients.py <<'PYTHON'
import asyncio, sys, warnings
import aiohttp.test_utils, aiohttp.web, django, django.conf, django.http, django.test, django.urls, falcon, falcon.testing, fastapi
import fastapi.testclient, flask, litestar, litestar.response, litestar.testing, quart, sanic, starlette.applications
import starlette.middleware.httpsredirect, starlette.responses, starlette.routing, starlette.testclient

warnings.simplefilter("ignore")
BODY = b'{"event":"job.completed"}'
found = {}

received = []
app = fastapi.FastAPI()


@app.post("/hook/", status_code=204)
async def in_fastapi(request: fastapi.Request):
    received.append(await request.body())


found["FastAPI"] = fastapi.testclient.TestClient(app).post("/hook", content=BODY).status_code
found["FastAPI, follow_redirects=False"] = (
    fastapi.testclient.TestClient(app, follow_redirects=False).post("/hook", content=BODY).status_code
)
assert received == [BODY]
app = fastapi.FastAPI()
app.add_middleware(starlette.middleware.httpsredirect.HTTPSRedirectMiddleware)
app.post("/hook/", status_code=204)(in_fastapi)
found["FastAPI, HTTPSRedirectMiddleware"] = fastapi.testclient.TestClient(app).post("/hook/", content=BODY).status_code


async def in_starlette(_):
    return starlette.responses.Response(status_code=204)


route = starlette.routing.Route("/hook/", in_starlette, methods=["POST"])
app = starlette.applications.Starlette(routes=[route])
found["Starlette"] = starlette.testclient.TestClient(app).post("/hook", content=BODY).status_code


@litestar.post("/hook", status_code=204)
async def in_litestar() -> None:
    pass


@litestar.post("/old", status_code=307)
async def redirect_in_litestar() -> litestar.response.Redirect:
    return litestar.response.Redirect("/hook", status_code=307)


with litestar.testing.TestClient(litestar.Litestar([in_litestar, redirect_in_litestar])) as client:
    found["Litestar"] = client.post("/old", content=BODY).status_code


async def with_aiohttp():
    async def handler(request):
        received.append(await request.read())
        return aiohttp.web.Response(status=204)

    app = aiohttp.web.Application(middlewares=[aiohttp.web.normalize_path_middleware(append_slash=True)])
    app.router.add_post("/hook/", handler)
    async with aiohttp.test_utils.TestClient(aiohttp.test_utils.TestServer(app)) as client:
        found["aiohttp"] = (await client.post("/hook", data=BODY)).status
    assert received.pop() == BODY


asyncio.run(with_aiohttp())
app = sanic.Sanic("receiver")
app.add_route(lambda _: sanic.response.empty(), "/hook", methods=["POST"], name="hook")
app.add_route(lambda _: sanic.response.redirect("/hook", status=307), "/old", methods=["POST"], name="old")
found["Sanic"] = app.test_client.post("/old", content=BODY)[1].status

for name, framework in ("Flask", flask.Flask), ("Quart", quart.Quart):
    app = framework(name)
    app.post("/hook/")(lambda: ("", 204))
    response = app.test_client().post("/hook", data=BODY)
    found[name] = (asyncio.run(response) if name == "Quart" else response).status_code

urlpatterns = [django.urls.path("hook/", lambda _: django.http.HttpResponse(status=204))]
django.conf.settings.configure(ROOT_URLCONF=__name__, MIDDLEWARE=["django.middleware.common.CommonMiddleware"], ALLOWED_HOSTS=["*"])
django.setup()
found["Django"] = django.test.Client().post("/hook", BODY, content_type="application/json").status_code


class Redirect:
    def on_post(self, *_):
        raise falcon.HTTPTemporaryRedirect("/hook")


app = falcon.App()
app.add_route("/old", Redirect())
found["Falcon"] = falcon.testing.TestClient(app).simulate_post("/old", body=BODY).status_code

for name, status in found.items():
    print(f"{name}: {status}")
expected = [204, 307, 204, 204, 204, 204, 204, 308, 308, 301, 307]
sys.exit(list(found.values()) != expected)
PYTHON
python/bin/python clients.py 2> log | grep ": [0-9]*$" || { cat log; exit 1; }
