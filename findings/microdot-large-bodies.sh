#!/bin/bash
# Microdot 2.7.0 gives an empty `request.body` for a body above 16 KB, with status 200 and no error, once
# `Request.max_content_length` is raised so that it no longer answers 413: a second limit, `Request.max_body_length`, is
# also 16 KB, and larger bodies are left in `request.stream`. Hurt: receivers of signed webhooks that raise the limit
# named by the error: the signature of each larger event is wrong, as if the sender had signed something else.
# Usage: findings/microdot-large-bodies.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check microdot==2.7.0
"$folder/python/bin/python" - <<'PYTHON'
import asyncio
from microdot import Microdot, Request

SIZES = 16_384, 16_385
LIMITS = {
    "the default": ({}, [(200, 16_384), (413, None)]),
    "max_content_length raised": ({"max_content_length": 2**20}, [(200, 16_384), (200, 0)]),
    "max_body_length raised as well": ({"max_body_length": 2**20}, [(200, 16_384), (200, 16_385)]),
}


async def post(port, size):
    """The status of a request, and the number of bytes that the handler saw."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
    answer = await reader.read()
    writer.close()
    status, body = int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]
    return status, int(body) if status == 200 else None


async def main():
    app = Microdot()
    app.post("/")(lambda request: str(len(request.body)))
    server = asyncio.create_task(app.start_server(host="127.0.0.1", port=0))
    while app.server is None or not app.server.sockets:
        await asyncio.sleep(0.1)
    port = app.server.sockets[0].getsockname()[1]
    for name, (limits, expected) in LIMITS.items():
        for limit, value in limits.items():
            setattr(Request, limit, value)
        seen = [await post(port, size) for size in SIZES]
        print(f"{name}: status and bytes seen for {SIZES}: {seen}")
        assert seen == expected
    server.cancel()


asyncio.run(main())
PYTHON
