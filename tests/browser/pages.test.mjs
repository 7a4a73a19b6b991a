// The console's pages and states that the other tests do not cover.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PASSWORD, Person } from "./person.mjs";
import { jobEnds, receiver, scene, until } from "./world.mjs";

// The wait before a second attempt, long enough for a hanging attempt to still be in progress when its page is shown.
const here = scene({ RETRY_SCHEDULE: "600", DELIVERY_TIMEOUT: "8" });
// The numbers of endpoints and deliveries, each more than one page.
const ENDPOINTS = 51;
const JOBS = 26;
const SHOWN = 20;

test("the public pages", { skip: here.skip }, async (t) => {
  const person = await Person.sitsDown(t, here);
  await person.opens("/");
  await person.looks("the root, which asks to sign in");
  await person.fills("Email", "nobody@example.com");
  await person.fills("Password", PASSWORD);
  await person.presses("button", "Sign in");
  await person.page.locator(".error").waitFor();
  await person.looks("the form to sign in, refused", 401);
  await person.presses("link", "Forgot your password?");
  await person.looks("the form for a new password");
  await person.fills("Email", "nobody@example.com");
  await person.page.getByRole("button").click();
  await person.page.waitForLoadState();
  await person.looks("a new password was asked for");
  for (const link of ["/reset-password?token=x", "/invite", "/verify-email?token=x", "/signin?cliLoginId=x"]) {
    await person.opens(link);
    await person.looks(`${link}, which does not work`, person.response.status());
    assert.ok([400, 401, 404].includes(person.response.status()), link);
  }
  t.diagnostic(`pages looked at: ${person.seen}`);
});

test("the documentation", { skip: here.skip }, async (t) => {
  const person = await Person.sitsDown(t, here);
  await person.opens("/docs");
  await person.looks("the index of the documentation");
  for (const page of ["webhooksCreate", "postApiKeyCreate", "receiving", "job-events"]) {
    await person.opens(`/docs/${page}`);
    await person.looks(`the documentation, ${page}`);
  }
  await person.opens("/docs/nope");
  await person.looks("a page that the documentation does not have", 404);
  t.diagnostic(`pages looked at: ${person.seen}`);
});

test("every link of the navigation", { skip: here.skip }, async (t) => {
  const person = await Person.sitsDown(t, here);
  await person.joins("navigation");
  await person.opens("/signin");
  await person.looks("a user is signed in");
  await person.opens("/console");
  const links = await person.page.locator("nav a").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
  assert.ok(links.length >= 2);
  for (const link of links) {
    await person.opens(link);
    await person.looks(link);
  }
  await person.opens("/console");
  await person.presses("button", "Sign out");
  await person.page.waitForURL("**/signin*");
  await person.opens("/console");
  assert.equal(new URL(person.page.url()).pathname, "/signin");
  t.diagnostic(`pages looked at: ${person.seen}`);
});

test("a form that is sent after the session has ended", { skip: here.skip }, async (t) => {
  const person = await Person.sitsDown(t, here);
  const email = await person.joins("survives");
  await person.opens("/console/endpoints/new");
  await person.fills("URL", "https://example.com/hook");
  await person.context.clearCookies();
  await person.presses("button", "Add endpoint");
  await person.sees("Nothing was saved or sent.");
  await person.looks("a session that has ended", 401);
  await person.fills("Email", email);
  await person.fills("Password", PASSWORD);
  await person.presses("button", "Sign in");
  await person.sees("Your input was kept");
  await person.looks("the input that came back");
  await person.presses("button", "Add endpoint");
  await person.sees("Copy the signing secret now");
  t.diagnostic(`pages looked at: ${person.seen}`);
});

test("the states of an endpoint", { skip: here.skip }, async (t) => {
  const hook = await receiver();
  t.after(() => hook.stop());
  const person = await Person.sitsDown(t, here);
  await person.joins("becomes");
  const tenant_id = await person.tenant();
  await person.addsEndpoint(hook.url("/hook"), "Orders");
  await person.presses("link", "View endpoint");
  await person.sees("No recent jobs");
  await person.looks("an endpoint without deliveries");
  const path = new URL(person.page.url()).pathname;

  await opensForm(person, "Edit URL, description, events, workflows, payload and headers");
  await person.fills("URL", "ftp://example.com");
  await person.presses("button", "Save changes");
  await person.page.locator("[aria-invalid]").waitFor();
  await person.looks("a change, refused", 400);
  await person.fills("URL", hook.url("/hook"));
  await person.fills("Headers (optional)", "authorization: Bearer secret-token");
  await person.presses("button", "Save changes");
  await person.sees("Changes saved");
  await person.looks("a changed endpoint");
  assert.ok(!(await person.response.text()).includes("secret-token"), "the values of headers are not shown");

  await opensForm(person, "Rotate secret");
  await person.fills("Your own secret (optional)", "whsec_");
  await person.presses("button", "Rotate secret");
  await person.page.locator("[aria-invalid]").waitFor();
  await person.looks("a new secret, refused", 400);
  await person.fills("Your own secret (optional)", "");
  await person.presses("button", "Rotate secret");
  await person.sees("Copy the signing secret now");
  await person.looks("a new secret");
  await person.presses("link", "Back to endpoint");
  await person.sees("The old secret also signs deliveries");
  await person.looks("an endpoint with two secrets");

  hook.answers("hang");
  await person.presses("button", "Send test event");
  await person.sees("An attempt is in progress");
  await person.looks("a delivery in progress");
  hook.answers(500, "{\"error\": \"full\"}");
  await jobEnds(here.service, { tenant_id, job_id: "job-1" });
  await person.opens(path);
  await person.awaits("Some attempts failed and will be retried");
  await person.looks("an endpoint whose deliveries are tried again");
  await person.presses("link", "job-1");
  await person.sees("Next attempt in");
  await person.looks("a delivery that is tried again");
  await person.opens("/console");
  await person.looks("the console with an endpoint whose deliveries are tried again");

  await person.presses("link", "Refresh every 5 s");
  await person.sees("Refreshing every 5 s");
  await person.looks("the console that refreshes itself");
  await Promise.all([person.page.waitForEvent("load"), person.sees("Refreshing every 5 s")]);
  await person.presses("link", "Stop refreshing");

  await person.opens(path);
  await person.presses("link", "Disable endpoint …");
  await person.looks("the confirmation before an endpoint is disabled");
  await person.presses("button", "Disable endpoint");
  await person.sees("New events are held");
  await person.looks("an inactive endpoint");
  await person.opens("/console");
  await person.looks("the console with an inactive endpoint");
  await person.opens(path);
  await person.presses("button", "Enable endpoint");
  await person.sees("It gets new events");
  await person.looks("an endpoint that is active again");

  await opensForm(person, "Delete endpoint");
  await person.page.getByLabel("Yes, delete this endpoint").check();
  await person.presses("button", "Delete endpoint");
  await person.sees("Endpoint deleted");
  await person.looks("the console after the last endpoint was deleted");
  await person.opens("/console/deliveries");
  await person.looks("deliveries to an endpoint that was deleted");
  for (const gone of [path, "/console/endpoints/x", "/console/deliveries/x", "/console/endpoint", "/sigin"]) {
    await person.opens(gone);
    await person.looks(`${gone}, which is not there`, 404);
  }
  t.diagnostic(`pages looked at: ${person.seen}`);
});

test("an endpoint that gets all events, at a long URL", { skip: here.skip }, async (t) => {
  const hook = await receiver();
  t.after(() => hook.stop());
  const person = await Person.sitsDown(t, here);
  await person.joins("wide");
  const tenant_id = await person.tenant();
  await person.opens("/console/endpoints/new");
  await person.fills("URL", hook.url(`/${"long/".repeat(40)}?key=${"k".repeat(300)}`));
  await person.fills("Description (optional)", "A description that goes on ".repeat(6));
  for (const name of ["endpoint.failing", "endpoint.disabled", "endpoint.recovered"]) await person.page.getByLabel(name).check();
  await person.presses("button", "Add endpoint");
  await person.addsEndpoint(hook.url("/0f0c5ac9-0e5d-7a52-8d0e-6bb1ad6b4a59/of/another"));
  hook.answers(500, "{}");
  await jobEnds(here.service, { tenant_id, job_id: "0f0c5ac9-0e5d-7a52-8d0e-6bb1ad6b4a59" });
  await until("both arrive", () => hook.got.length === 2);
  await person.opens("/console");
  await person.awaits("5 events");
  await person.awaits("Retrying");
  await person.looks("the console with all events");
  await person.opens("/console/deliveries");
  await person.looks("deliveries to long URLs");
  t.diagnostic(`pages looked at: ${person.seen}`);
});

test("more endpoints and deliveries than fit on a page", { skip: here.skip }, async (t) => {
  const hook = await receiver();
  t.after(() => hook.stop());
  const person = await Person.sitsDown(t, here);
  await person.joins("many");
  const tenant_id = await person.tenant();
  await person.addsEndpoint(hook.url("/0"));
  for (let job = 0; job < JOBS; job += 1) await jobEnds(here.service, { tenant_id, job_id: `job-${job}` });
  await until("all arrive", () => hook.got.length === JOBS);
  for (let number = 1; number < ENDPOINTS; number += 1) await person.calls("webhooks/create", { url: hook.url(`/${number}`) });
  await person.opens("/console");
  await person.sees("Page 1 of 2");
  await person.looks("the first page of endpoints");
  await person.presses("link", "Next");
  await person.sees("Page 2 of 2");
  await person.looks("the last page of endpoints");
  await person.fills("URL, description or ID", "/49");
  await person.presses("button", "Search");
  await person.sees("Clear search");
  assert.equal(await person.page.locator("tbody tr").count(), 1);
  await person.looks("the endpoint that was searched for");
  await person.presses("link", /^Retrying/);
  await person.sees("No retrying endpoint matches “/49”.");
  await person.looks("a search without a result");
  await person.presses("link", "Show all endpoints");
  await person.sees("Page 1 of 2");

  await person.opens("/console/deliveries");
  await person.looks("the newest deliveries");
  await person.fills("Endpoint: URL, description or ID", "/4");
  await person.presses("button", "Search");
  await person.sees("11 endpoints match “/4”");
  await person.looks("the endpoints that match a filter");
  await person.presses("link", /\/49$/);
  await person.sees("No deliveries match these filters");
  await person.looks("deliveries of a chosen endpoint");
  await person.presses("link", "Clear filters");
  const rows = person.page.locator("tbody tr");
  assert.equal(await rows.count(), SHOWN);
  await person.presses("link", "Older deliveries");
  await person.sees("Newest deliveries");
  assert.equal(await rows.count(), JOBS - SHOWN);
  await person.looks("the oldest deliveries");
  await person.presses("link", "Newer");
  assert.equal(await rows.count(), SHOWN);
  await person.fills("Exact job, delivery or message ID", "job-7");
  await person.presses("button", "Search");
  await person.sees("Clear filters");
  assert.deepEqual(await rows.locator("td:first-child").allInnerTexts(), ["job-7"]);
  await person.looks("filtered deliveries");
  await person.presses("link", /^Failed/);
  await person.sees("No deliveries match these filters");
  await person.looks("deliveries, none of which passes the filter");
  t.diagnostic(`pages looked at: ${person.seen}`);
});

async function opensForm(person, summary) {
  await person.page.locator("summary", { hasText: summary }).click();
}
