// Other people's clients, called through their own methods: oRPC's clients for the API, the libraries of Standard Webhooks
// for deliveries, and the client of the Model Context Protocol for `fanfare mcp`. These tests do not need a browser.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { ORPCError, createORPCClient, createORPCErrorFromJson } from "@orpc/client";
import { RPCLink } from "@orpc/client/fetch";
import { oc } from "@orpc/contract";
import { OpenAPILink } from "@orpc/openapi-client/fetch";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { confirm, jobEnds, linkTo, receiver, service } from "./world.mjs";

// A Python with the packages in .ci/tools.txt, as in CI.
const { PYTHON } = process.env;
const VERIFY = fileURLToPath(new URL("verify.py", import.meta.url));
// The command-line client, as `cargo test` builds it.
const TARGET = process.env.CARGO_TARGET_DIR || fileURLToPath(new URL("../../target", import.meta.url));
const FANFARE = join(TARGET, "debug", "fanfare");
const NO_ID = "00000000-0000-7000-8000-000000000000";
let world;

before(async () => {
  world = await service();
});
after(async () => {
  await world?.stop();
});

function client(headers = {}) {
  return createORPCClient(new RPCLink({ url: `${world.api}/v1`, headers }));
}

// Signs up and confirms the address. Returns a client with an API key, and the ids of the account.
async function account(slug) {
  const email = `${slug}@example.com`;
  const fields = { name: slug, email, password: "correct horse battery", organizationName: slug, organizationSlug: slug };
  const signedUp = await client().auth.signupAndCreateOrg({ ...fields, debugNotificationEmail: email });
  await confirm(world, await linkTo(world, email));
  const headers = { "content-type": "application/json", origin: world.api, cookie: signedUp.setCookie[0].split(";")[0] };
  const body = JSON.stringify({ name: "clients" });
  const created = await fetch(`${world.api}/api/auth/api-key/create`, { method: "POST", headers, body });
  const { key } = await created.json();
  return { api: client({ "x-api-key": key }), fields, key, signedUp };
}

// The error of a call that fails.
function refused(call) {
  return call.then(
    (output) => assert.fail(`it succeeds: ${JSON.stringify(output)}`),
    (error) => {
      assert.ok(error instanceof ORPCError, error);
      return error;
    },
  );
}

test("oRPC's client manages endpoints, from sign-up to a deletion", async () => {
  const { api, fields, signedUp } = await account("orpc");
  assert.deepEqual([signedUp.email, signedUp.organizationSlug, signedUp.emailVerified], ["orpc@example.com", "orpc", false]);
  // A URL object, and fields that are undefined.
  const url = new URL("https://example.com/hook");
  const created = await api.webhooks.create({ url, description: undefined, signing_secret: undefined });
  assert.ok(created.success && created.signing_secret.startsWith("whsec_"));
  const id = created.webhook_endpoint_id;
  const only = async () => {
    const { webhook_endpoints } = await api.webhooks.list();
    assert.deepEqual(webhook_endpoints.map(({ webhook_endpoint_id }) => webhook_endpoint_id), [id]);
    return webhook_endpoints[0];
  };
  await api.webhooks.update({ id, description: "invoices", active: false });
  const updated = await api.webhooks.update({ id, description: undefined, active: undefined });
  assert.equal(updated.success, true);
  const endpoint = await only();
  assert.deepEqual([endpoint.url, endpoint.description, endpoint.active], [url.href, "invoices", false]);
  const since = new Date(Date.now() - 3_600_000);
  assert.deepEqual((await api.deliveries.list({ since })).deliveries, []);

  const errors = [
    [refused(client().webhooks.list()), 401, "UNAUTHORIZED"],
    [refused(client({ "x-api-key": "ak_wrong" }).webhooks.list()), 401, "UNAUTHORIZED"],
    [refused(client().auth.signupAndCreateOrg({ ...fields, debugNotificationEmail: fields.email })), 409, "CONFLICT", "slug_taken"],
    [refused(api.webhooks.update({ id: NO_ID })), 404, "NOT_FOUND"],
    [refused(api.webhooks.delete({ id: NO_ID })), 404, "NOT_FOUND"],
    [refused(api.webhooks.create({ url: "x".repeat(70_000) })), 413, "PAYLOAD_TOO_LARGE"],
  ];
  for (const [call, status, code, reason] of errors) {
    const error = await call;
    assert.deepEqual([error.status, error.code, error.defined, error.data?.reason], [status, code, false, reason]);
  }
  const invalid = await refused(api.webhooks.create({ url: "ftp://example.com", description: "x".repeat(501) }));
  assert.deepEqual([invalid.status, invalid.code, invalid.message], [400, "BAD_REQUEST", "Input validation failed"]);
  assert.deepEqual(invalid.data.issues.map(({ path, code }) => [path, code]), [
    [["url"], "invalid_format"],
    [["description"], "too_big"],
  ]);

  assert.equal((await api.webhooks.delete({ id })).success, true);
  assert.equal((await refused(api.webhooks.delete({ id }))).code, "NOT_FOUND");
  assert.deepEqual((await api.webhooks.list()).webhook_endpoints, []);
});

test("oRPC's OpenAPI client works with the envelope in its contract", async () => {
  const { key } = await account("openapi");
  const route = (path) => oc.route({ method: "POST", path });
  const contract = { webhooks: { create: route("/webhooks/create"), list: route("/webhooks/list") } };
  const options = { url: `${world.api}/v1`, headers: { "x-api-key": key } };
  const customErrorResponseBodyDecoder = ({ json }) => createORPCErrorFromJson(json);
  const api = createORPCClient(new OpenAPILink(contract, { ...options, customErrorResponseBodyDecoder }));
  const url = "https://example.com/hook";
  const { json } = await api.webhooks.create({ json: { url } });
  const listed = await api.webhooks.list({ json: {} });
  assert.equal(listed.json.webhook_endpoints[0].webhook_endpoint_id, json.webhook_endpoint_id);
  assert.equal((await refused(api.webhooks.create({ json: {} }))).data.issues[0].path[0], "url");
  // Without the envelope, nothing is created.
  assert.equal((await refused(api.webhooks.create({ url }))).status, 400);
  assert.equal((await api.webhooks.list({ json: {} })).json.webhook_endpoints.length, 1);
});

test("the libraries of Standard Webhooks verify full and thin events", async (t) => {
  const { api, signedUp } = await account("standard");
  const hook = await receiver();
  t.after(() => hook.stop());
  const secrets = {};
  for (const payload of ["full", "thin"]) {
    secrets[payload] = (await api.webhooks.create({ url: hook.url(`/${payload}`), payload })).signing_secret;
  }
  const result = { answer: 42, name: "Zoë" };
  await jobEnds(world, { tenant_id: signedUp.organizationId, job_id: "job-1", result });
  const requests = [];
  for (const [payload, secret] of Object.entries(secrets)) {
    const { headers, body } = await hook.next(payload, ({ path }) => path === `/${payload}`);
    assert.equal(headers["x-event-payload"], payload === "thin" ? "thin" : undefined);
    assert.deepEqual(JSON.parse(body).result, payload === "thin" ? null : result);
    const changed = body.replace("job-1", "job-2");
    assert.notEqual(changed, body);
    requests.push({ secret, headers, body, isValid: true }, { secret, headers, body: changed, isValid: false });
  }
  const javascript = requests.map(({ secret, headers, body }) => {
    try {
      return new Webhook(secret).verify(body, headers).job_id === "job-1";
    } catch (error) {
      if (!(error instanceof WebhookVerificationError)) throw error;
      return false;
    }
  });
  const expected = requests.map(({ isValid }) => isValid);
  assert.deepEqual(javascript, expected, "in JavaScript");
  if (!PYTHON) {
    assert.notEqual(process.env.BROWSER_TESTS, "required", "PYTHON is not set");
    return t.diagnostic("PYTHON is not set, so its library was not tested");
  }
  const python = spawnSync(PYTHON, [VERIFY], { input: JSON.stringify(requests), encoding: "utf8" });
  assert.equal(python.status, 0, python.stderr);
  assert.deepEqual(JSON.parse(python.stdout), expected, "in Python");
});

test("the client of the Model Context Protocol uses the tools of the command line", async (t) => {
  if (!existsSync(FANFARE) && process.env.BROWSER_TESTS !== "required") return t.skip("run `cargo test --package cli` first");
  const { api, key, signedUp } = await account("mcp");
  const { webhook_endpoint_id } = await api.webhooks.create({ url: "https://example.com/hook" });
  const model = new Client({ name: "test", version: "1" });
  t.after(() => model.close());
  const env = { ...process.env, FANFARE_API: world.api, FANFARE_API_KEY: key };
  await model.connect(new StdioClientTransport({ command: FANFARE, args: ["mcp"], env }));
  const { tools } = await model.listTools();
  assert.ok(tools.every(({ annotations }) => annotations.readOnlyHint));
  const used = async (name, input) => {
    const { content, isError } = await model.callTool({ name, arguments: input });
    return isError ? content[0].text : JSON.parse(content[0].text);
  };
  assert.equal((await used("whoami", {})).organization.id, signedUp.organizationId);
  assert.equal((await used("list_endpoints", {})).endpoints[0].webhook_endpoint_id, webhook_endpoint_id);
  assert.match(await used("list_deliveries", { since: "yesterday" }), /must be an age such as 90s/);
});
