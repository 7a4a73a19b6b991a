// Calls the service with the client of @hey-api/openapi-ts. Its schemas for Zod validate each request and response.

import assert from "node:assert/strict";
import { client } from "./generated/hey-api/client.gen";
import * as api from "./generated/hey-api";
import { zWebhookTestWebhookRequest } from "./generated/hey-api/zod.gen";

const { SERVICE, KEY, RECEIVER } = process.env as Record<string, string>;
// As a text, `auth` would also be sent as the session cookie.
client.setConfig({ baseUrl: SERVICE!, auth: ({ in: place }) => (place === "cookie" ? undefined : KEY) });

/** The output of a call that succeeds. */
function done<Output>(answer: { data?: { json: Output } | undefined; error?: unknown }): Output {
  assert.ok(answer.data, JSON.stringify(answer.error));
  return answer.data.json;
}

async function main() {
  const created = done(await api.webhooksCreate({ body: { json: { url: RECEIVER!, description: "hey" } } }));
  const id = created.webhook_endpoint_id;
  assert.match(created.signing_secret ?? "", /^whsec_/);
  done(await api.webhooksUpdate({ body: { json: { id, description: null, events: ["job.failed"] } } }));
  const [endpoint, ...others] = done(await api.webhooksList()).webhook_endpoints;
  assert.deepEqual([endpoint?.webhook_endpoint_id, endpoint?.description, endpoint?.events], [id, undefined, ["job.failed"]]);
  assert.deepEqual(others, []);

  const { delivery_id } = done(await api.webhooksTest({ body: { json: { id } } }));
  const deliveries = async () => done(await api.deliveriesList({ body: { json: { webhook_endpoint_id: id } } })).deliveries;
  let listed = await deliveries();
  for (const end = Date.now() + 30_000; listed[0]?.status !== "delivered"; listed = await deliveries()) {
    assert.ok(Date.now() < end, JSON.stringify(listed));
  }
  assert.deepEqual([listed[0].delivery_id, listed[0].last_attempt?.status_code], [delivery_id, 204]);
  const { delivery } = done(await api.deliveriesGet({ body: { json: { delivery_id } } }));
  assert.equal(delivery.attempts, 1);
  assert.equal(done(await api.deliveriesStats({ body: { json: { webhook_endpoint_id: id } } })).open.pending.count, 0);
  assert.deepEqual(done(await api.auditList({ body: { json: { limit: 1 } } })).entries.map(({ action }) => action), ["webhook.tested"]);
  assert.equal(done(await api.tenantSettings()).require_two_factor, false);
  const event = zWebhookTestWebhookRequest.shape.body.parse(await (await fetch(RECEIVER!)).json());
  assert.deepEqual([event.event, event.job_id, event.result], ["webhook.test", "test", null]);

  const deleted = done(await api.webhooksDelete({ body: { json: { id } } }));
  assert.equal(deleted.success, true);
  const again = await api.webhooksDelete({ body: { json: { id } } });
  assert.deepEqual([again.response?.status, again.error?.json.code], [404, "NOT_FOUND"]);
}

void main();
