// A user with a browser, and the rules for every page that the user sees.

import assert from "node:assert/strict";
import axe from "axe-core";
import { until } from "./world.mjs";

export const DESK = { viewport: { width: 1280, height: 800 } };
// Phones and desktops show the same pages, so the costly checks run only on the desktop.
export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
export const PASSWORD = "a long password";

// Desktops, tablets, a desktop at 200% zoom, a phone, and the narrowest width that WCAG requires (a desktop at
// 400%). Tables become cards at 960.
const WIDTHS = [1600, 1280, 1160, 1024, 961, 960, 820, 768, 705, 640, 390, 320];
// Only the colors depend on the scheme and only the layout of tables on the width, so each is tested once.
const LOOKS = [
  ["light", 1280],
  ["dark", 390],
];
const POLICY = ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"];

export class Person {
  clicks = 0;
  seen = 0;
  #wrong = [];
  #refusals = [];

  // A fault of any visited page fails the test `t` at its end.
  static async sitsDown(t, { browser, service }, options = DESK) {
    const person = new Person();
    person.service = service;
    person.context = await browser.newContext(options);
    // The pages' policy blocks every script, including axe, so pages are checked in a second context that allows axe.
    const inspection = await browser.newContext({ bypassCSP: true });
    person.inspected = await inspection.newPage();
    person.isThorough = options === DESK;
    person.page = await person.context.newPage();
    person.page.setDefaultTimeout(15_000);
    person.#watch();
    t.after(async () => {
      await inspection.close();
      await person.context.close();
      assert.deepEqual(person.#wrong, [], "the faults of the pages");
    });
    return person;
  }

  #watch() {
    const { page, context, service } = this;
    context.on("request", (request) => {
      if (new URL(request.url()).origin !== service.api) this.#wrong.push(`a request to ${request.url()}`);
    });
    page.on("response", (response) => {
      const request = response.request();
      const isRedirect = response.status() >= 300 && response.status() < 400;
      if (request.isNavigationRequest() && !isRedirect) this.response = response;
    });
    page.on("console", (message) => {
      if (message.type() !== "error") return;
      // Chromium logs this for every page with a status of 4xx.
      const isRefusal = message.text().includes("responded with a status of 4");
      const told = `${message.text()} (${message.location().url})`;
      (isRefusal ? this.#refusals : this.#wrong).push(told);
    });
    page.on("pageerror", (error) => this.#wrong.push(`a script failed: ${error}`));
    page.on("dialog", (dialog) => {
      this.#wrong.push(`a dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
  }

  opens(path) {
    return this.page.goto(new URL(path, this.service.api).href);
  }

  // Clicks or taps, counts the action, and waits for the page that a link or a button opens, because a reload during a
  // navigation fails.
  async presses(role, name, within = this.page) {
    this.clicks += 1;
    const target = within.getByRole(role, { name, exact: typeof name === "string" }).first();
    await Promise.all([this.page.waitForEvent("load"), target.click()]);
  }

  async fills(label, text) {
    await this.page.getByLabel(label, { exact: true }).fill(text);
  }

  async sees(text) {
    await this.page.getByText(text).first().waitFor();
  }

  // The state of the endpoint or the delivery on the page.
  async standing() {
    return (await this.page.locator("main .state").first().innerText()).replace(/^\W+/, "");
  }

  // The accessible name of the focused element.
  focused() {
    return this.page.evaluate(() => (document.activeElement.labels?.[0] ?? document.activeElement).innerText.trim());
  }

  // The user's newest email that contains this text.
  mail(to, words, patience) {
    const find = async () => {
      const mails = await (await fetch(`${this.service.mail}/messages`)).json();
      return mails.find((mail) => mail.to.includes(to) && `${mail.subject}\n${mail.text}`.includes(words));
    };
    return until(`a mail to ${to} with ${words}`, find, patience);
  }

  // Calls the API with the browser's session.
  async calls(route, fields = {}) {
    const headers = { origin: this.service.api };
    const answer = await this.context.request.post(`${this.service.api}/v1/${route}`, { headers, data: { json: fields } });
    if (!answer.ok()) throw new Error(`${route}: ${await answer.text()}`);
    return (await answer.json()).json;
  }

  async tenant() {
    return (await this.calls("auth/status")).tenantId;
  }

  // Reloads until the page shows this text, because background work takes a moment.
  awaits(text) {
    return until(`${this.page.url()} says ${text}`, async () => {
      await this.page.reload();
      return (await this.page.getByText(text).count()) > 0;
    });
  }

  async signsUp(email, organization, slug, name = "Ada Lovelace") {
    await this.fills("Your name", name);
    await this.fills("Email", email);
    await this.fills("Password", PASSWORD);
    await this.fills("Organization name", organization);
    await this.fills("Organization slug (optional)", slug);
    await this.presses("button", "Sign up");
  }

  async confirms(email) {
    const { text } = await this.mail(email, "/verify-email?token=");
    await this.opens(/\S*\/verify-email\?token=\S+/.exec(text)[0]);
  }

  // An account with a confirmed address, created through the pages.
  async joins(slug, organization = "Analytical Engines", name = undefined) {
    const email = `${slug}@example.com`;
    await this.opens("/signin?mode=signup");
    await this.signsUp(email, organization, slug, name);
    await this.sees("We sent a link to");
    await this.confirms(email);
    await this.presses("button", "Confirm email address");
    await this.sees("Your email address is confirmed");
    this.#refusals = [];
    return email;
  }

  // Adds an endpoint. Returns its secret, which is shown only once.
  async addsEndpoint(url, description = "") {
    await this.opens("/console/endpoints/new");
    await this.fills("URL", url);
    await this.fills("Description (optional)", description);
    await this.presses("button", "Add endpoint");
    await this.sees("Copy the signing secret now");
    return this.page.locator("#secret").innerText();
  }

  // Checks the current page against the rules for all pages. `status` is the expected status.
  async looks(state, status = 200) {
    const { page, response } = this;
    const html = await response.text();
    assert.equal(response.status(), status, state);
    const rules = response.headers()["content-security-policy"].split("; ");
    const rest = rules.filter((rule) => !rule.startsWith("style-src 'sha256-"));
    assert.deepEqual([rest, rules.length], [POLICY, POLICY.length + 1], state);
    assert.doesNotMatch(html, /<script/i, state);
    const wrong = [...(await page.evaluate(active)), ...(await page.evaluate(sideways))];
    if (this.isThorough) wrong.push(...(await this.#inspect(page.url(), html)));
    const refusals = this.#refusals.splice(0);
    if (status < 400) wrong.push(...refusals);
    this.#wrong.push(...wrong.map((what) => `${state}: ${what}`));
    this.seen += 1;
  }

  // Checks the HTML part of an email against the rules for pages.
  async reads({ subject, html }) {
    // An email does not need a heading, because email programs show the subject.
    const wrong = await this.#inspect(this.service.api, html, ["page-has-heading-one"]);
    this.#wrong.push(...wrong.map((what) => `the email "${subject}": ${what}`));
    this.seen += 1;
  }

  // The faults of the same page at every width and in both schemes, with all disclosures open.
  async #inspect(url, html, ignored = []) {
    const { inspected } = this;
    const wrong = [];
    await inspected.unrouteAll();
    await inspected.route("**/*", (route) => {
      const isPage = route.request().isNavigationRequest();
      return isPage ? route.fulfill({ contentType: "text/html; charset=utf-8", body: html }) : route.abort();
    });
    await inspected.goto(url);
    await inspected.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    for (const width of WIDTHS) {
      await inspected.setViewportSize({ width, height: 800 });
      wrong.push(...(await inspected.evaluate(sideways)).map((what) => `at ${width} px, ${what}`));
    }
    await inspected.addScriptTag({ content: axe.source });
    for (const [colorScheme, width] of LOOKS) {
      await inspected.setViewportSize({ width, height: 800 });
      await inspected.emulateMedia({ colorScheme });
      wrong.push(...(await inspected.evaluate(violated, ignored)).map((what) => `${colorScheme}, ${width} px: ${what}`));
    }
    return wrong;
  }
}

// The following functions run in the page.

function active() {
  const elements = [...document.querySelectorAll("*")].filter((element) => {
    const isLoaded = element.matches("script, iframe, object, embed, img, link, base");
    const isRun = ({ name, value }) => name.startsWith("on") || (/^(href|action|formaction|src)$/.test(name) && /^\s*javascript:/i.test(value));
    return isLoaded || [...element.attributes].some(isRun);
  });
  return elements.map((element) => `active: ${element.outerHTML.slice(0, 200)}`);
}

function sideways() {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const isWide = (element) => element.getBoundingClientRect().right > clientWidth + 1;
  const [wide] = [...document.body.querySelectorAll("*")].filter(isWide);
  return [`it scrolls sideways, ${scrollWidth} px: ${wide?.outerHTML.slice(0, 200)}`];
}

async function violated(ignored) {
  const rules = Object.fromEntries(ignored.map((rule) => [rule, { enabled: false }]));
  const { violations } = await window.axe.run(document, { resultTypes: ["violations"], rules });
  return violations.map(({ id, nodes: [{ html, failureSummary }] }) => `${id}: ${html.slice(0, 300)} ${failureSummary}`);
}
