// Calls the service with openapi-fetch and the types of openapi-typescript, which compile to nothing: the compiler checks
// the requests, and this program the responses.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths, webhooks } from "./generated/openapi-typescript";

const { SERVICE, KEY, RECEIVER } = process.env as Record<string, string>;
const api = createClient<paths>({ baseUrl: SERVICE!, headers: { "x-api-key": KEY! } });

/** The output of a call that succeeds. */
function done<Output>(answer: { data?: { json: Output }; error?: unknown }): Output {
  assert.ok(answer.data, JSON.stringify(answer.error));
  return answer.data.json;
}

async function main() {
  const created = done(await api.POST("/v1/webhooks/create", { body: { json: { url: RECEIVER!, description: "fetch" } } }));
  const id = created.webhook_endpoint_id;
  assert.match(created.signing_secret ?? "", /^whsec_/);
  done(await api.POST("/v1/webhooks/update", { body: { json: { id, description: null, events: ["job.failed"] } } }));
  const [endpoint, ...others] = done(await api.POST("/v1/webhooks/list")).webhook_endpoints;
  assert.deepEqual([endpoint?.webhook_endpoint_id, endpoint?.description, endpoint?.events], [id, undefined, ["job.failed"]]);
  assert.deepEqual(others, []);

  const { delivery_id } = done(await api.POST("/v1/webhooks/test", { body: { json: { id } } }));
  const deliveries = async () => done(await api.POST("/v1/deliveries/list", { body: { json: { webhook_endpoint_id: id } } })).deliveries;
  let listed = await deliveries();
  for (const end = Date.now() + 30_000; listed[0]?.status !== "delivered"; listed = await deliveries()) {
    assert.ok(Date.now() < end, JSON.stringify(listed));
  }
  assert.deepEqual([listed[0].delivery_id, listed[0].last_attempt?.status_code], [delivery_id, 204]);
  type Event = webhooks["webhook.test"]["post"]["requestBody"]["content"]["application/json"];
  const event = (await (await fetch(RECEIVER!)).json()) as Event;
  assert.deepEqual([event.event, event.job_id, event.result], ["webhook.test", "test", null]);

  const invalid = await api.POST("/v1/webhooks/create", { body: { json: { url: "ftp://example.com" } } });
  assert.deepEqual(invalid.error?.json.data?.issues?.map(({ path }) => path), [["url"]]);
  assert.equal(done(await api.POST("/v1/webhooks/delete", { body: { json: { id } } })).success, true);
  const deleted = await api.POST("/v1/webhooks/delete", { body: { json: { id } } });
  assert.deepEqual([deleted.response.status, deleted.error?.json.code], [404, "NOT_FOUND"]);
}

void main();
