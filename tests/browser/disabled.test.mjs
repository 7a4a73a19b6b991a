// An endpoint whose receiver answered 410: from the link in the email until everything has been recovered.
//
// A recovery begins within seconds. If its message is lost, the service's next sweep begins it.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { DESK, PASSWORD, PHONE, Person } from "./person.mjs";
import { jobEnds, receiver, scene, until } from "./world.mjs";

// The maximum number of actions, including the sign-in, the confirmation that the receiver accepts deliveries again,
// and a look at the result.
const MOST_CLICKS = 4;
// The time for the mail of a sweep, in milliseconds.
const SWEEP = 150_000;

const here = scene({ RETRY_SCHEDULE: "" });

describe("an endpoint that was disabled", { concurrency: true, skip: here.skip }, () => {
  test(`is active again within ${MOST_CLICKS} clicks, and has what it missed`, async (t) => {
    const { person, owner, email, hook, link, other } = await begins(t, DESK);
    await recovers(person);
    await hasAll(hook);
    await hasLink(owner, email, other);
    await seesAllWell(person, owner);
    t.diagnostic(`clicks from /console/endpoints/<id> to everything recovered: ${person.clicks}, one of them to sign in`);
    assert.ok(person.clicks <= MOST_CLICKS);
    assert.equal(new URL(person.page.url()).pathname, link);
    t.diagnostic(`pages looked at: ${owner.seen + person.seen}`);
  });

  test("is made active where the console begins, on a phone", async (t) => {
    const { person } = await begins(t, PHONE);
    await person.opens("/console");
    await recovers(person);
    // The form for users who choose a different start time.
    await person.page.getByText("Recover missed deliveries", { exact: true }).click();
    await person.page.getByLabel("Deliveries", { exact: true }).selectOption("held");
    await person.presses("button", "Recover deliveries", person.page.locator("details[open]"));
    // The recovery that began before may have resent everything by now.
    await person.sees(/Nothing to resend|starts within seconds|resent/);
    await person.looks("an endpoint with two recoveries");
  });
});

// A visitor without a session opens the link to an endpoint, and signs in.
async function begins(t, device) {
  const hook = await receiver();
  t.after(() => hook.stop());
  const owner = await Person.sitsDown(t, here, device);
  const email = await owner.joins(device === DESK ? "disabled-desk" : "disabled-phone");
  const [link, other] = await isDisabled(owner, hook);
  const person = await Person.sitsDown(t, here, device);
  await signsIn(person, link, email);
  return { person, owner, email, hook, link, other };
}

// Two receivers answer 410, and another job ends in the meantime. Returns the paths of the endpoints.
async function isDisabled(owner, hook) {
  const tenant_id = await owner.tenant();
  const paths = [];
  hook.answers(410, "no more, please");
  for (const path of ["/repaired", "/forgotten"]) {
    await owner.addsEndpoint(hook.url(path));
    await owner.presses("link", "View endpoint");
    paths.push(new URL(owner.page.url()).pathname);
  }
  await jobEnds(here.service, { tenant_id, job_id: "gone" });
  for (const path of paths) {
    await owner.opens(path);
    await owner.awaits("410 Gone, which means that it wants no more");
  }
  await jobEnds(here.service, { tenant_id, job_id: "held" });
  for (const path of paths) {
    await owner.opens(path);
    await until("the event is held", async () => {
      await owner.page.reload();
      return (await owner.page.getByRole("row", { name: "held" }).getByText("Held").count()) > 0;
    });
  }
  await owner.opens("/console");
  await owner.looks("the console with two disabled endpoints");
  hook.answers(204);
  return paths;
}

async function signsIn(person, link, email) {
  await person.opens(link);
  await person.looks("the form to sign in, on the way to an endpoint");
  await person.fills("Email", email);
  await person.fills("Password", PASSWORD);
  await person.presses("button", "Sign in");
  await person.sees("410 Gone, which means that it wants no more");
  await person.looks("a disabled endpoint");
}

async function recovers(person) {
  await person.presses("button", /^Enable and resend \d+ deliveries/);
  await person.sees("The receiver answered 410 Gone");
  await person.looks("a page that confirms a recovery");
  await person.presses("button", /^Enable and resend \d+ deliveries/);
  await person.sees(/starts within seconds|resent/);
  assert.doesNotMatch(await person.standing(), /Disabled|Inactive/, "it is active");
  await person.looks("an endpoint that recovers");
}

async function hasAll(hook) {
  const jobs = () => hook.got.filter(({ answer }) => answer === 204).map(({ body }) => JSON.parse(body).job_id);
  await until("the missed events arrive", () => jobs().length === 2);
  assert.deepEqual(jobs().sort(), ["gone", "held"]);
}

// The email about the endpoint that was disabled.
async function hasLink(owner, email, path) {
  const { text } = await owner.mail(email, path.split("/").at(-1), SWEEP);
  assert.equal(/\S+\/console\/endpoints\/[^\s?]+/.exec(text)?.[0], `${here.service.api}${path}`);
}

async function seesAllWell(person, owner) {
  // The test waits in another window until the last delivery is recorded, so the click can resend it.
  await owner.opens(person.page.url());
  await until("all has been written down", async () => {
    await owner.page.reload();
    return (await owner.standing()) === "Healthy" && (await owner.page.locator(".notice.bad").count()) === 0;
  });
  await person.presses("link", "Refresh every 5 s");
  await person.sees("2 deliveries resent");
  assert.equal(await person.standing(), "Healthy");
  assert.equal(await person.page.getByRole("row").getByText("Delivered", { exact: true }).count(), 2);
  await person.looks("an endpoint that has recovered");
}
