#!/bin/bash
# Fastify 5.12.8 changes null in a body before the handler sees it, if the schema of a member is a TypeBox union such
# as `Type.Union([Type.String(), Type.Null()])` (@sinclair/typebox 0.34.52): null becomes "", 0 or false, and in a
# union with strings, a number becomes a string. Ajv, as Fastify sets it, converts values to the first type of an
# `anyOf`. With `{ type: ["string", "null"] }`, or with null as the first type, null stays null, and Elysia 1.4.30
# changes nothing. Hurt: receivers of webhooks whose members may be null: `error: null` of a success becomes "", so
# `error !== null` takes each success for a failure, and a result of 5 is stored as "5". `ajv: { customOptions: {
# coerceTypes: false } }` helps.
# Source: https://fastify.dev/docs/latest/Reference/Validation-and-Serialization/#validator-compiler
# Usage: findings/fastify-coerced-nulls.sh. Needs Node.js 20, and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts elysia@1.4.30 fastify@5.12.8 @sinclair/typebox@0.34.52
cat > receivers.mjs <<'NODE'
import { Type } from "@sinclair/typebox";
import { Elysia, t } from "elysia";
import Fastify from "fastify";

const body = { error: null, nonce: null, retried: null, result: 5 };
const unions = Type.Object({
  error: Type.Union([Type.String(), Type.Null()]),
  nonce: Type.Union([Type.Number(), Type.Null()]),
  retried: Type.Union([Type.Boolean(), Type.Null()]),
  result: Type.Union([Type.String(), Type.Number()]),
});
const nullFirst = Type.Object({ error: Type.Union([Type.Null(), Type.String()]) });
const lists = {
  type: "object",
  properties: {
    error: { type: ["string", "null"] },
    nonce: { type: ["number", "null"] },
    retried: { type: ["boolean", "null"] },
    result: { type: ["string", "number"] },
  },
};

async function receive(name, schema, options = {}) {
  const app = Fastify(options);
  app.post("/hook", { schema: { body: schema } }, async (request) => request.body);
  const response = await app.inject({ method: "POST", url: "/hook", payload: body });
  console.log(`${name}: ${response.body}`);
}

await receive("Fastify, unions", unions);
await receive("Fastify, unions with null first", nullFirst);
await receive("Fastify, lists of types", lists);
await receive("Fastify, unions, no coercion", unions, { ajv: { customOptions: { coerceTypes: false } } });
const schema = t.Object({
  error: t.Union([t.String(), t.Null()]),
  nonce: t.Union([t.Number(), t.Null()]),
  retried: t.Union([t.Boolean(), t.Null()]),
  result: t.Union([t.String(), t.Number()]),
});
const elysia = new Elysia().post("/hook", ({ body }) => body, { body: schema });
const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
const response = await elysia.handle(new Request("http://receiver/hook", request));
console.log(`Elysia, unions: ${await response.text()}`);
NODE
node receivers.mjs 2> warnings | tee seen
same='{"error":null,"nonce":null,"retried":null,"result":5}'
expect() { grep --quiet --line-regexp --fixed-strings "$1: $2" seen; }
expect "Fastify, unions" '{"error":"","nonce":0,"retried":false,"result":"5"}'
expect "Fastify, unions with null first" "$same"
expect "Fastify, lists of types" "$same"
expect "Fastify, unions, no coercion" "$same"
expect "Elysia, unions" "$same"
