// The receiver as a fetch handler, for Bun, Deno and workerd.
import process from "node:process";
import { verify } from "./verify.mjs";

const { PORT, SECRET } = process.env;

export default {
  hostname: "127.0.0.1",
  port: Number(PORT),
  async fetch(request) {
    if (new URL(request.url).pathname === "/crash") throw new Error("the handler failed");
    return new Response(null, { status: verify(SECRET, request.headers, await request.arrayBuffer()) ? 204 : 401 });
  },
};
