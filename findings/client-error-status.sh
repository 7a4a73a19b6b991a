#!/bin/bash
# Express 5.3.0, Koa 3.3.0, Fastify 5.12.8, h3 2.0.8, Elysia 1.4.30 and tinyhttp 3.0.11 answer with the status of another
# server if a handler does not catch the error of an HTTP client: axios 1.21.1, superagent 10.4.2, @octokit/request 10.0.16
# and openai 6.49.0 write that server's status into `status` of their errors, and web-push 3.6.7 into `statusCode`, where
# these frameworks look for the status of the response. Elysia and tinyhttp ignore `statusCode`. Express, Koa, Fastify and h3
# also send the headers in web-push's error. hapi 21.4.10, Hono 4.13.19 and NestJS 12.5.1 answer 500, as all of them do for
# got 14.6.6. Hurt: receivers of webhooks that call another service: if it answers 410, as push services do for a browser that
# has unsubscribed, so does the receiver, and the sender disables the endpoint.
# Usage: findings/client-error-status.sh. Needs Node.js 20, openssl, and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund express@5.3.0 koa@3.3.0 fastify@5.12.8 h3@2.0.8 elysia@1.4.30 @tinyhttp/app@3.0.11 \
  @hapi/hapi@21.4.10 hono@4.13.19 @nestjs/core@12.5.1 @nestjs/common@12.5.1 \
  @nestjs/platform-express@12.5.1 reflect-metadata@0.2.2 rxjs@7.8.2 axios@1.21.1 superagent@10.4.2 \
  @octokit/request@10.0.16 openai@6.49.0 web-push@3.6.7 got@14.6.6
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 \
  -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2> /dev/null
cat > receivers.mjs <<'NODE'
import "reflect-metadata";
import { createECDH, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { request as octokit } from "@octokit/request";
import axios from "axios";
import got from "got";
import OpenAI from "openai";
import superagent from "superagent";
import webpush from "web-push";
import Hapi from "@hapi/hapi";
import { Controller, Module, Post } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { App as Tiny } from "@tinyhttp/app";
import { Elysia } from "elysia";
import express from "express";
import Fastify from "fastify";
import { H3, toNodeHandler } from "h3";
import { Hono } from "hono";
import Koa from "koa";

console.error = () => {};
async function listen(server) {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `${server instanceof https.Server ? "https" : "http"}://127.0.0.1:${server.address().port}`;
}

/** The other service, for example an API or a push service. */
const gone = (request, response) => {
  const body = '{"message":"Gone"}';
  request.resume();
  response.writeHead(410, { "content-type": "application/json", "content-length": body.length, "x-other": "1" }).end(body);
};
const other = await listen(http.createServer(gone));
const ca = readFileSync("cert.pem");
const push = await listen(https.createServer({ key: readFileSync("key.pem"), cert: ca }, gone));
const browser = createECDH("prime256v1");
browser.generateKeys();
const keys = { p256dh: browser.getPublicKey("base64url"), auth: randomBytes(16).toString("base64url") };
const clients = {
  axios: () => axios.get(other),
  superagent: () => superagent.get(other),
  octokit: () => octokit("GET /", { baseUrl: other }),
  openai: () => new OpenAI({ apiKey: "key", baseURL: other, maxRetries: 0 }).models.list(),
  "web-push": () => webpush.sendNotification({ endpoint: push, keys }, "{}", { agent: new https.Agent({ ca }) }),
  got: () => got(other),
};

let call;
const handler = async () => void (await call());
class Hooks {
  receive() {
    return handler();
  }
}
Post("hook")(Hooks.prototype, "receive", Object.getOwnPropertyDescriptor(Hooks.prototype, "receive"));
Controller()(Hooks);
class Application {}
Module({ controllers: [Hooks] })(Application);
const nest = await NestFactory.create(Application, { logger: false });
await nest.listen(0, "127.0.0.1");
const fastify = Fastify();
fastify.post("/hook", handler);
const hapi = Hapi.server({ debug: false });
hapi.route({ method: "POST", path: "/hook", handler });
const koa = new Koa();
koa.silent = true;
koa.use(handler);
const tiny = new Tiny().post("/hook", handler);

const url = "http://localhost/hook";
const fetched = (fetch) => async () => {
  const response = await fetch(new Request(url, { method: "POST", body: "{}" }));
  return [response.status, response.headers.has("x-other")];
};
const injected = async (app) => {
  const { statusCode, headers } = await app.inject({ method: "POST", url: "/hook", payload: {} });
  return [statusCode, "x-other" in headers];
};
const served = async (base) => {
  const headers = { connection: "close", "content-type": "application/json" };
  const response = await fetch(`${base}/hook`, { method: "POST", headers, body: "{}" });
  return [response.status, response.headers.has("x-other")];
};
const overHttp = async (listener) => {
  const base = await listen(http.createServer(listener));
  return () => served(base);
};
const receivers = {
  Express: await overHttp(express().set("env", "test").post("/hook", handler)),
  Koa: await overHttp(koa.callback()),
  Fastify: () => injected(fastify),
  h3: await overHttp(toNodeHandler(new H3().post("/hook", handler))),
  Elysia: fetched((request) => new Elysia().post("/hook", handler).handle(request)),
  tinyhttp: await overHttp((request, response) => tiny.handler(request, response)),
  hapi: () => injected(hapi),
  Hono: fetched(new Hono().post("/hook", handler).fetch),
  NestJS: async () => served(await nest.getUrl()),
};

const found = {};
for (const [name, receive] of Object.entries(receivers)) {
  found[name] = [];
  for (call of Object.values(clients)) {
    const [status, copied] = await receive();
    found[name].push(`${status}${copied ? " with headers" : ""}`);
  }
}
console.log(Object.keys(clients).join(", "));
for (const [name, statuses] of Object.entries(found)) console.log(`${name}: ${statuses.join(", ")}`);
const headers = "410 with headers";
const expected = {
  Express: [410, 410, 410, 410, headers, 500],
  Koa: [410, 410, 410, 410, headers, 500],
  Fastify: [410, 410, 410, 410, headers, 500],
  h3: [410, 410, 410, headers, headers, 500],
  Elysia: [410, 410, 410, 410, 500, 500],
  tinyhttp: [410, 410, 410, 410, 500, 500],
  hapi: Array(6).fill(500),
  Hono: Array(6).fill(500),
  NestJS: Array(6).fill(500),
};
process.exit(Object.keys(expected).every((name) => `${found[name]}` === `${expected[name]}`) ? 0 : 1);
NODE
node receivers.mjs
