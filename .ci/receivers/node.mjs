// Receivers on Node.js: node node.mjs NAME. Each answers 204 to a valid delivery at /hook and 401 to another one, and its
// handler at /crash throws an error. Everything that the documentation does not ask for is left at its default.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { verify } from "./verify.mjs";

const require = createRequire(import.meta.url);
const { PORT, SECRET } = process.env;
const [port, hostname] = [Number(PORT), "127.0.0.1"];
const status = (headers, body) => (verify(SECRET, headers, body) ? 204 : 401);
const crash = () => {
  throw new Error("the handler failed");
};

async function nest(adapter) {
  require("reflect-metadata");
  const { Controller, Module, Post, Req, Res } = require("@nestjs/common");
  const { NestFactory } = require("@nestjs/core");
  class Hook {
    hook(request, response) {
      response.status(status(request.headers, request.rawBody)).send();
    }
    crash() {
      crash();
    }
  }
  for (const name of ["hook", "crash"]) {
    Post(name)(Hook.prototype, name, Object.getOwnPropertyDescriptor(Hook.prototype, name));
  }
  Req()(Hook.prototype, "hook", 0);
  Res()(Hook.prototype, "hook", 1);
  Controller()(Hook);
  class Root {}
  Module({ controllers: [Hook] })(Root);
  const app = await NestFactory.create(Root, ...adapter, { rawBody: true, logger: false });
  await app.listen(port, hostname);
}

const RECEIVERS = {
  async express() {
    const { default: express } = await import("express");
    const app = express();
    app.use(express.raw({ type: "application/json" }));
    app.post("/hook", (request, response) => response.status(status(request.headers, request.body)).end());
    app.post("/crash", crash);
    app.listen(port, hostname);
  },
  async fastify() {
    const { default: fastify } = await import("fastify");
    const app = fastify();
    app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_, body, done) => done(null, body));
    app.post("/hook", (request, reply) => reply.code(status(request.headers, request.body)).send());
    app.post("/crash", crash);
    await app.listen({ port, host: hostname });
  },
  async hapi() {
    const { default: Hapi } = await import("@hapi/hapi");
    const server = Hapi.server({ port, host: hostname });
    const options = { payload: { parse: false } };
    const hook = (request, h) => h.response().code(status(request.headers, request.payload));
    server.route({ method: "POST", path: "/hook", options, handler: hook });
    server.route({ method: "POST", path: "/crash", options, handler: crash });
    await server.start();
  },
  async koa() {
    const { default: Koa } = await import("koa");
    const { bodyParser } = await import("@koa/bodyparser");
    const app = new Koa();
    app.use(bodyParser());
    app.use((ctx) => {
      if (ctx.path === "/crash") crash();
      ctx.status = status(ctx.headers, ctx.request.rawBody);
    });
    app.listen(port, hostname);
  },
  async hono() {
    const { Hono } = await import("hono");
    const { serve } = await import("@hono/node-server");
    const app = new Hono();
    app.post("/hook", async (c) => c.body(null, status(c.req.raw.headers, await c.req.arrayBuffer())));
    app.post("/crash", crash);
    serve({ fetch: app.fetch, port, hostname });
  },
  async h3() {
    const { H3, serve } = await import("h3");
    const app = new H3();
    app.post("/hook", async ({ req }) => new Response(null, { status: status(req.headers, await req.arrayBuffer()) }));
    app.post("/crash", crash);
    serve(app, { port, hostname, silent: true });
  },
  async elysia() {
    const { Elysia } = await import("elysia");
    const { node } = await import("@elysiajs/node");
    const hook = async ({ request }) => new Response(null, { status: status(request.headers, await request.arrayBuffer()) });
    const app = new Elysia({ adapter: node() }).post("/hook", hook, { parse: "none" }).post("/crash", crash);
    app.listen({ port, hostname });
  },
  "nest-express": () => nest([]),
  async "nest-fastify"() {
    const { FastifyAdapter } = require("@nestjs/platform-fastify");
    await nest([new FastifyAdapter()]);
  },
  // Behind the proxies.
  node() {
    const server = createServer(async (request, response) => {
      if (request.url === "/crash") return request.socket.destroy();
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      response.writeHead(status(request.headers, Buffer.concat(chunks))).end();
    });
    server.listen(port, hostname);
  },
};

await RECEIVERS[process.argv[2]]();
