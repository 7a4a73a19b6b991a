"""Receivers in Python, each an application of its framework for a server: `receivers:flask_app`, and so on. The one of
aiohttp has its own server: python receivers.py."""

import os

from verify import verify

SECRET = os.environ["SECRET"]


def status(headers, body):
    return 204 if verify(SECRET, headers, body) else 401


def crash():
    raise RuntimeError("the handler failed")


def flask_app():
    import flask

    app = flask.Flask(__name__)
    app.post("/hook")(lambda: ("", status(flask.request.headers, flask.request.get_data())))
    app.post("/crash")(crash)
    return app


def fastapi_app():
    import fastapi

    app = fastapi.FastAPI()

    @app.post("/hook")
    async def hook(request: fastapi.Request):
        return fastapi.Response(status_code=status(request.headers, await request.body()))

    app.post("/crash")(crash)
    return app


def django_app():
    from django.conf import settings

    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x" * 50, MIDDLEWARE=[])
    import django
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    django.setup()
    hook = lambda request: HttpResponse(status=status(request.headers, request.body))
    globals()["urlpatterns"] = [path("hook", hook), path("crash", lambda _: crash())]
    return get_wsgi_application()


def aiohttp_app():
    from aiohttp import web

    async def hook(request):
        return web.Response(status=status(request.headers, await request.read()))

    async def fail(_):
        crash()

    app = web.Application()
    app.add_routes([web.post("/hook", hook), web.post("/crash", fail)])
    return app


if __name__ == "__main__":
    from aiohttp import web

    web.run_app(aiohttp_app(), host="127.0.0.1", port=int(os.environ["PORT"]), print=None)
