// The console without a mouse: all functions are accessible with Tab, Enter and Space, and the focus is always visible.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Person } from "./person.mjs";
import { jobEnds, receiver, scene } from "./world.mjs";

// An upper bound for a page's tab stops.
const MOST_TABS = 60;

const here = scene({ RETRY_SCHEDULE: "" });

test("a failed delivery is found and sent again by keyboard alone", { skip: here.skip }, async (t) => {
  const hook = await receiver();
  t.after(() => hook.stop());
  const person = await Person.sitsDown(t, here);
  await person.joins("keyboard");
  await person.addsEndpoint(hook.url("/keys"));
  hook.answers(500, "out of order");
  await jobEnds(here.service, { tenant_id: await person.tenant(), job_id: "job-1" });
  await person.opens("/console/deliveries");
  await person.awaits("HTTP 500");
  hook.answers(204);
  const { keyboard } = person.page;

  await person.opens("/console");
  await keyboard.press("Tab");
  assert.equal(await person.focused(), "Skip to content");
  await keyboard.press("Enter");
  await tabsTo(person, /\/keys/);
  await keyboard.press("Enter");
  await person.sees("First permanent failure");
  // All disclosures open with the space bar.
  await tabsTo(person, /^By hour/);
  await keyboard.press("Space");
  await person.sees("Hour");
  await tabsTo(person, /^job-1$/);
  await keyboard.press("Enter");
  await person.sees("out of order");
  await tabsTo(person, /^Resend$/);
  await Promise.all([person.page.waitForEvent("load"), keyboard.press("Space")]);
  await person.awaits("manual resend");
  assert.equal(await person.standing(), "Delivered");
  assert.equal(hook.got.length, 2);
});

test("an endpoint is added by keyboard alone", { skip: here.skip }, async (t) => {
  const person = await Person.sitsDown(t, here);
  await person.joins("keyboard-adds");
  const { keyboard } = person.page;
  await person.opens("/console");
  await tabsTo(person, /^Add endpoint$/);
  await keyboard.press("Enter");
  await person.page.waitForURL("**/endpoints/new");
  await tabsTo(person, /^URL$/);
  await keyboard.type("https://example.com/hook");
  await tabsTo(person, /^job.failed$/);
  await keyboard.press("Space");
  await tabsTo(person, /^Add endpoint$/);
  await keyboard.press("Enter");
  await person.sees("Copy the signing secret now");
  await tabsTo(person, /^View endpoint$/);
  await keyboard.press("Enter");
  await person.sees("Last 24 hours");
  assert.match(await person.page.locator("dl:not(.stats)").innerText(), /Events\s+job\.completed\s/);
});

// Presses Tab until an element with this name has the focus. After each press, the focus must be visible.
async function tabsTo(person, name) {
  for (let tabs = 0; tabs < MOST_TABS; tabs += 1) {
    await person.page.keyboard.press("Tab");
    assert.ok(await person.page.evaluate(isFocusSeen), `the focus is seen on ${await person.focused()}`);
    if (name.test(await person.focused())) return;
  }
  assert.fail(`nothing that Tab reaches is called ${name}`);
}

// Runs in the page. After the last element, the focus moves to the browser's window.
function isFocusSeen() {
  const element = document.activeElement;
  if (element === document.body) return true;
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
  const { left, top, right, bottom, width, height } = element.getBoundingClientRect();
  const isInside = left < innerWidth && top < innerHeight && right > 0 && bottom > 0 && width > 0 && height > 0;
  return isInside && outlineStyle === "solid" && parseFloat(outlineWidth) >= 2 && outlineColor !== getComputedStyle(document.body).backgroundColor;
}
