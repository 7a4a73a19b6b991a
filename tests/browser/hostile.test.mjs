// Untrusted text: all text from tenants, jobs and receivers is shown as text, and does not break the layout.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Person } from "./person.mjs";
import { jobEnds, receiver, scene, until } from "./world.mjs";

const here = scene({ RETRY_SCHEDULE: "", DELIVERY_TIMEOUT: "2" });

const MARKUP = `"'><script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)></textarea></pre><style>*{display:none}</style>`;
// Characters that change the direction of text, and invisible ones.
const HIDDEN = "\u202e\u202d\u2066\u2067\u2069\u200b\u200e\u200f\u2060\ufeff\u061c";
const IS_HIDDEN = /[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u2060\ufeff\u061c]/;
const URL_OF_SCRIPT = "javascript:alert(document.domain)";
const WORD = "W".repeat(4000);

test("hostile words are inert, and the pages keep their form", { skip: here.skip }, async (t) => {
  const hook = await receiver();
  t.after(() => hook.stop());
  const person = await Person.sitsDown(t, here);
  const name = `<b onclick=alert(1)>Bold</b> ${"W".repeat(60)}`;
  await person.joins("hostile", name, `<i>${"N".repeat(90)}</i>`);
  const tenant_id = await person.tenant();

  await person.opens("/console/endpoints/new");
  await person.fills("URL", URL_OF_SCRIPT);
  await person.fills("Description (optional)", MARKUP + HIDDEN + WORD);
  await person.page.locator("summary", { hasText: "Workflows, payload and headers" }).click();
  await person.fills("Headers (optional)", MARKUP + WORD);
  await person.presses("button", "Add endpoint");
  await person.page.locator("[aria-invalid]").first().waitFor();
  await person.looks("a hostile form, refused", 400);

  // The longest accepted values.
  const path = `/${encodeURI(MARKUP).slice(0, 200)}?${"W".repeat(1700)}`;
  await accepts(person, hook.url(path), [MARKUP + "W".repeat(500 - MARKUP.length), "W".repeat(255), `${MARKUP} ${URL_OF_SCRIPT}`]);
  await accepts(person, hook.url("/hidden"), [`note ${HIDDEN} ${URL_OF_SCRIPT}`, `note ${URL_OF_SCRIPT}`]);

  hook.answers(500, MARKUP + HIDDEN + WORD);
  const jobs = { markup: MARKUP + URL_OF_SCRIPT, hidden: `job ${HIDDEN} end`, word: WORD };
  for (const [kind, job_id] of Object.entries(jobs)) {
    await jobEnds(here.service, { tenant_id, job_id, workflow: MARKUP, result: { [MARKUP]: kind, [HIDDEN]: URL_OF_SCRIPT, list: [WORD, MARKUP] } });
  }
  await jobEnds(here.service, { tenant_id, job_id: "large", result: `${MARKUP}${"<b>\\\"W ".repeat(25_000)}` });
  const all = 2 * 4;
  await person.opens("/console/deliveries");
  await until("all have failed", async () => {
    await person.page.reload();
    return (await person.page.locator("td .state.bad").count()) === all;
  });
  await looks(person, "hostile deliveries");
  const links = await person.page.locator("td:first-child a").evaluateAll((links) => links.map((link) => link.href));
  for (const link of links) {
    await person.opens(link);
    await looks(person, "a hostile delivery");
  }
  await person.opens("/console");
  await looks(person, "hostile endpoints");
  for (const link of await person.page.locator("td:first-child a").evaluateAll((links) => links.map((link) => link.href))) {
    await person.opens(link);
    await looks(person, "a hostile endpoint");
  }
  const query = new URLSearchParams({ job_id: MARKUP + HIDDEN + WORD, endpoint: MARKUP, status: URL_OF_SCRIPT, since: MARKUP, cursor: WORD });
  await person.opens(`/console/deliveries?${query}`);
  await looks(person, "hostile filters", 400);
  await person.opens(`/console?did=${encodeURIComponent(MARKUP)}&page=${WORD}`);
  await looks(person, "a hostile query");
  t.diagnostic(`pages looked at: ${person.seen}`);
});

// Adds an endpoint with the first accepted description.
async function accepts(person, url, descriptions) {
  for (const description of descriptions) {
    await person.opens("/console/endpoints/new");
    await person.fills("URL", url);
    await person.fills("Description (optional)", description);
    await person.presses("button", "Add endpoint");
    await person.page.waitForLoadState();
    if (person.response.status() === 200) return person.looks("a hostile endpoint, added");
  }
  assert.fail("no description was taken");
}

async function looks(person, state, status = 200) {
  await person.looks(state, status);
  const text = await person.page.locator("body").innerText();
  assert.doesNotMatch(text, IS_HIDDEN, `${state}: what is hidden is said`);
}
