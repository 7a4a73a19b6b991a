// The console's main story, on a desktop and on a phone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DESK, PHONE, Person } from "./person.mjs";
import { isSigned, jobEnds, receiver, scene, until } from "./world.mjs";

// The maximum number of actions from the first page to the arrival of a failed delivery.
const MOST_CLICKS = 3;

// A delivery fails permanently after its second attempt.
const here = scene({ RETRY_SCHEDULE: "1" });

for (const [name, device] of Object.entries({ desk: DESK, phone: PHONE })) {
  test(`from signing up to a failed delivery that is sent again, at a ${name}`, { skip: here.skip }, async (t) => {
    const hook = await receiver();
    t.after(() => hook.stop());
    const person = await Person.sitsDown(t, here, device);
    await signsUp(person, `story-${name}`);
    const secret = await addsEndpoint(person, hook);
    await seesTest(person, hook, secret);
    await breaks(person, hook);
    await repairs(person, hook, secret);
    t.diagnostic(`clicks from /console to a failed delivery that was sent again: ${person.clicks}`);
    t.diagnostic(`pages looked at: ${person.seen}`);
  });
}

async function signsUp(person, slug) {
  const email = `${slug}@example.com`;
  await person.opens("/signin?mode=signup");
  await person.looks("the form to sign up");
  await person.signsUp(email, "Analytical Engines", "Not A Slug");
  await person.looks("the form to sign up, refused", 400);
  await person.signsUp(email, "Analytical Engines", slug);
  await person.sees(`We sent a link to ${email}.`);
  await person.looks("the welcome, before the address is confirmed");
  await person.presses("button", "Resend confirmation email");
  await person.sees("Email sent.");
  await person.opens("/console/deliveries");
  await person.sees("Confirm your email address");
  await person.confirms(email);
  await person.looks("the page to confirm the address");
  await person.presses("button", "Confirm email address");
  await person.sees("Your email address is confirmed");
  await person.looks("the confirmed address");
}

async function addsEndpoint(person, hook) {
  await person.opens("/console");
  await person.sees("No endpoints yet");
  await person.looks("the console without an endpoint");
  await person.opens("/console/deliveries");
  await person.looks("no deliveries");
  await person.opens("/console");
  await person.presses("link", "Add endpoint");
  await person.looks("the form for an endpoint");
  await person.fills("URL", "ftp://example.com/");
  await person.presses("button", "Add endpoint");
  await person.page.locator("[aria-invalid]").waitFor();
  await person.looks("the form for an endpoint, refused", 400);
  await person.fills("URL", hook.url("/hook"));
  await person.fills("Description (optional)", "Orders");
  await person.presses("button", "Add endpoint");
  await person.sees("Copy the signing secret now");
  await person.looks("the new endpoint with its secret");
  return person.page.locator("#secret").innerText();
}

async function seesTest(person, hook, secret) {
  await person.presses("button", "Send test event");
  await person.page.waitForURL("**/console/deliveries/*");
  await person.awaits("ms, test event");
  const arrived = await hook.next("the test", ({ headers }) => headers["x-event-type"] === "webhook.test");
  assert.ok(isSigned(arrived, secret), "the test is signed with the secret that was shown");
  assert.equal(await person.standing(), "Delivered");
  await person.looks("a delivered test");
  await person.presses("link", hook.url("/hook"));
  await person.sees("Last 24 hours");
  await person.looks("an endpoint that is well");
  assert.ok(!(await person.response.text()).includes(secret), "the secret is not shown again");
}

async function breaks(person, hook) {
  hook.answers(500, "the cellar is flooded");
  await jobEnds(here.service, { tenant_id: await person.tenant(), job_id: "job-1", result: { answer: 42 } });
  await person.opens("/console/deliveries");
  await until("the delivery has failed", async () => {
    await person.page.reload();
    return (await person.page.getByRole("row", { name: "job-1" }).getByText("Failed").count()) > 0;
  });
  await person.looks("deliveries, one of which has failed");
}

// The first page shows which endpoint is failing, since when, and why.
async function repairs(person, hook, secret) {
  hook.answers(204);
  await person.opens("/console");
  person.clicks = 0;
  const [told] = await person.page.locator(".notice.bad").allInnerTexts();
  assert.match(told, /Failing\s+127[\d.:]+\/hook Orders\s+All attempts have failed for [^(]+ \(since [\d -]+[\d:]+ UTC\)\. 1 failed delivery, created (?:just now|\d+ s ago) \([\d -]+[\d:]+ UTC\)\. Last error: HTTP 500\. The receiver reported/);
  await person.looks("the console with an endpoint that fails");
  await person.presses("link", /^View endpoint /);
  await person.sees("First permanent failure");
  await person.looks("an endpoint that fails");
  await person.presses("link", "job-1");
  await person.sees("the cellar is flooded");
  await person.sees("HTTP 500");
  assert.equal(await person.standing(), "Failed");
  await person.looks("a failed delivery");
  const first = hook.got.find(({ body }) => body.includes('"job-1"'));
  const before = hook.got.length;
  await person.presses("button", "Resend");
  await person.awaits("manual resend");
  assert.equal(await person.standing(), "Delivered");
  const again = hook.got[before];
  assert.ok(isSigned(again, secret), "what is sent again is signed");
  assert.equal(again.headers["webhook-id"], first.headers["webhook-id"]);
  assert.equal(again.body, first.body);
  await person.looks("a delivery that arrived when it was sent again");
  assert.ok(person.clicks <= MOST_CLICKS, `${person.clicks} clicks`);
}
