// Receivers in Node.js that verify wrongly, each with real libraries. A receiver answers with what its code saw.

import { createHmac, createHash } from "node:crypto";
import { serve } from "@hono/node-server";
import { bodyParser } from "@koa/bodyparser";
import { sign } from "@octokit/webhooks-methods";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";

const { SECRET, PREVIOUS_SECRET, OTHER_SECRET, TEXT_SECRET } = process.env;
const bare = SECRET.slice("whsec_".length);
const key = Buffer.from(bare, "base64");
const hmac = (key, text, encoding = "base64", algorithm = "sha256") =>
  createHmac(algorithm, key).update(text).digest(encoding);
const head = (req) => `${req.headers["webhook-id"]}.${req.headers["webhook-timestamp"]}.`;

/** Runs a library's verification, which must fail, and answers with what it got. */
function refused(verify, headers, body, more = {}) {
  try {
    verify();
    return { error: null };
  } catch (error) {
    return { error: error.message, headers, body: Buffer.from(body).toString("base64"), ...more };
  }
}

const app = express();
app.use(["/express"], express.json());
app.use(["/latin1"], express.text({ type: "*/*", defaultCharset: "latin1" }));
app.use(["/raw"], express.raw({ type: "*/*" }));

// The body is parsed by a global `express.json()`, and written again for the library.
app.post("/express/stringify", (req, res) => {
  const body = JSON.stringify(req.body);
  res.json(refused(() => new Webhook(SECRET).verify(body, req.headers), req.headers, body));
});
app.post("/express/stringify-pretty", (req, res) => {
  const body = JSON.stringify(req.body, null, 2);
  res.json(refused(() => new Svix(SECRET).verify(body, req.headers), req.headers, body));
});
app.post("/latin1/text", (req, res) => {
  res.json(refused(() => new Webhook(SECRET).verify(req.body, req.headers), req.headers, req.body));
});

/** A receiver that computes a signature from the raw body, and compares it with what it takes from the header. */
function computing(name, compute, expected = (header) => header) {
  app.post(`/raw/${name}`, async (req, res) => {
    const computed = await compute(req, req.body);
    const error = computed === expected(req.headers["webhook-signature"]) ? null : "not equal";
    res.json({ error, headers: req.headers, body: req.body.toString("base64"), computed });
  });
}
computing("object", (req, body) => `v1,${hmac(key, `${head(req)}${JSON.parse(body)}`)}`);
computing("first-entry", (req, body) => `v1,${hmac(key, head(req) + body)}`, (header) => header.split(" ")[0]);
computing("no-prefix", (req, body) => hmac(key, head(req) + body), (header) => header.split(" ")[1]);
computing("hex", (req, body) => `v1,${hmac(key, head(req) + body, "hex")}`, (header) => header.split(" ")[1]);
computing("prefix-decoded", (req, body) => `v1,${hmac(Buffer.from(SECRET, "base64"), head(req) + body)}`);
computing("key-to-string", (req, body) => `v1,${hmac(key.toString(), head(req) + body)}`);
computing("atob", (req, body) => `v1,${hmac(atob(bare), head(req) + body)}`);
computing("sliced-text", (req, body) => `v1,${hmac(bare, head(req) + body)}`);
computing("title-case", (req, body) =>
  `v1,${hmac(key, `${req.headers["Webhook-Id"]}.${req.headers["Webhook-Timestamp"]}.${body}`)}`);
computing("milliseconds", (req, body) =>
  `v1,${hmac(key, `${req.headers["webhook-id"]}.${req.headers["webhook-timestamp"] * 1000}.${body}`)}`);
computing("sha1", (req, body) => `v1,${hmac(key, head(req) + body, "base64", "sha1")}`);
computing("hash", (req, body) => createHash("sha256").update(SECRET).update(body).digest("hex"));
computing("previous", (req, body) => {
  const at = new Date(req.headers["webhook-timestamp"] * 1000);
  return new Webhook(PREVIOUS_SECRET).sign(req.headers["webhook-id"], at, body.toString());
});
computing("other-endpoint", (req, body) => {
  const at = new Date(req.headers["webhook-timestamp"] * 1000);
  return new Svix(OTHER_SECRET).sign(req.headers["webhook-id"], at, body.toString());
});
computing("unset-secret", (req, body) => `v1,${hmac(`${process.env.WEBHOOK_SECRET}`, head(req) + body)}`);
computing("github", (req, body) => sign(SECRET, body.toString()));
computing("stripe", (req, body) =>
  new Stripe("sk_test_x").webhooks.generateTestHeaderString({
    payload: body.toString(), secret: SECRET, timestamp: Number(req.headers["webhook-timestamp"]),
  }));

// Verification runs later, on variables that the next request has replaced.
let latest;
app.post("/raw/shared-variable", (req, res) => {
  const body = latest?.body ?? req.body;
  latest = { headers: req.headers, body: req.body };
  res.json(refused(() => new Webhook(SECRET).verify(body, latest.headers), latest.headers, body));
});
// The first attempt's timestamp was stored with the id, and is used for the retry.
const times = new Map();
app.post("/raw/stored-timestamp", (req, res) => {
  const id = req.headers["webhook-id"];
  if (!times.has(id)) times.set(id, req.headers["webhook-timestamp"]);
  const headers = { ...req.headers, "webhook-timestamp": times.get(id) };
  res.json(refused(() => new Webhook(SECRET).verify(req.body, headers), headers, req.body));
});
// The id of the event in the receiver's database is that of an earlier event of the same job.
app.post("/raw/stored-id", (req, res) => {
  const headers = { ...req.headers, "webhook-id": process.env.OTHER_ID };
  res.json(refused(() => new Webhook(SECRET).verify(req.body, headers), headers, req.body));
});
// A cached signature of another delivery.
app.post("/raw/stored-signature", (req, res) => {
  const headers = { ...req.headers, "webhook-signature": process.env.OTHER_SIGNATURE, "x-webhook-signature": undefined };
  res.json(refused(() => new Webhook(SECRET).verify(req.body, headers), headers, req.body));
});
// `split(",")` leaves only the version, and the library finds no signature.
app.post("/raw/split-at-commas", (req, res) => {
  const headers = { ...req.headers, "webhook-signature": req.headers["webhook-signature"].split(",")[0] };
  res.json(refused(() => new Webhook(SECRET).verify(req.body, headers), headers, req.body));
});
// The signature passes through the query of an internal address without being encoded.
app.post("/raw/through-a-query", (req, res) => {
  const query = new URLSearchParams(`signature=${req.headers["webhook-signature"]}`);
  const headers = { ...req.headers, "webhook-signature": query.get("signature") };
  res.json(refused(() => new Webhook(SECRET).verify(req.body, headers), headers, req.body));
});
app.listen(Number(process.env.PORT));

const fast = fastify();
fast.post("/fastify/stringify", (req) => {
  const body = JSON.stringify(req.body);
  return refused(() => new Svix(SECRET).verify(body, req.headers), req.headers, body);
});
fast.listen({ port: Number(process.env.PORT) + 1 });

const koa = new Koa();
koa.use(bodyParser());
koa.use((ctx) => {
  const body = JSON.stringify(ctx.request.body);
  ctx.body = refused(() => new Webhook(SECRET).verify(body, ctx.headers), ctx.headers, body);
});
koa.listen(Number(process.env.PORT) + 2);

const hono = new Hono();
// The library takes a plain object, and a `Headers` object has no members of its own.
hono.post("/hono/headers", async (c) => {
  const body = await c.req.text();
  return c.json(refused(() => new Webhook(SECRET).verify(body, c.req.raw.headers), c.req.raw.headers, body));
});
serve({ fetch: hono.fetch, port: Number(process.env.PORT) + 3 });
