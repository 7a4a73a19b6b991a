// The environment of the browser tests: the whole service in memory, a receiver, and a browser. A test stops each part
// that it starts, by the returned handle.

import { spawn } from "node:child_process";
import { createHmac, timingSafeEqual } from "node:crypto";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { after, before } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CHROMIUM = process.env.CHROMIUM || "/usr/bin/chromium";
// The browser's background requests must not reach the network or be mistaken for a page's requests.
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
// The time limit for starting, which may include a build.
const START = 300_000;
const PATIENCE = 30_000;

// Why the tests cannot run here, or `false`. If they are required, as in CI, a missing browser is a failure.
function skip() {
  if (existsSync(CHROMIUM) || process.env.BROWSER_TESTS === "required") return false;
  return `there is no chromium at ${CHROMIUM}: install Debian's package chromium, or set CHROMIUM`;
}

export function launch() {
  return chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
}

// A browser and a service for all tests in a file. `skip` is why they cannot run.
export function scene(env = {}) {
  const scene = { skip: skip() };
  before(async () => {
    if (scene.skip) return;
    scene.browser = await launch();
    scene.service = await service({ env });
  });
  after(async () => {
    await scene.browser?.close();
    await scene.service?.stop();
  });
  return scene;
}

// Retries until there is a response.
export async function until(what, ask, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await sleep(100);
  }
}

// `cargo local`, after a build of changed code. The Cargo process's id is also the service's id, because Cargo replaces
// itself with the service.
export async function service({ env = {}, flags = [] } = {}) {
  const ports = ["--api", "0", "--mail", "0", "--sqs", "0", "--dynamodb", "0", "--inbox", "0"];
  const child = spawn("cargo", ["local", "--memory", ...ports, "--json", ...flags], {
    cwd: ROOT,
    env: { ...process.env, RUST_LOG: "error", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const stop = ends(child);
  const lines = createInterface({ input: child.stdout });
  const line = new Promise((resolve, reject) => {
    lines.once("line", resolve);
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`cargo local ended with ${code}, see above`)));
  });
  try {
    const addresses = JSON.parse(await inTime(line, START, "cargo local did not start"));
    return { ...addresses, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

// The link in the newest email to an address.
export async function linkTo({ mail }, address) {
  const messages = await (await fetch(`${mail}/messages`)).json();
  return messages.find(({ to }) => to.includes(address)).text.match(/http\S+token=\S+/)[0];
}

// Opens a link from an email, and presses the button on its page.
export async function confirm({ api }, link) {
  const url = new URL(link);
  const body = new URLSearchParams(url.search);
  const headers = { origin: api };
  const response = await fetch(url.origin + url.pathname, { method: "POST", headers, body, redirect: "manual" });
  if (response.status >= 400) throw new Error(`${response.status} at ${link}`);
}

async function inTime(promise, time, what) {
  const late = new AbortController();
  const timer = sleep(time, undefined, { signal: late.signal }).then(
    () => Promise.reject(new Error(what)),
    () => {},
  );
  try {
    return await Promise.race([promise, timer]);
  } finally {
    late.abort();
  }
}

// Ends a process, at the latest when this process ends.
function ends(child) {
  const ended = new Promise((resolve) => child.once("close", resolve));
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  return async () => {
    child.kill("SIGTERM");
    const timer = setTimeout(kill, 10_000);
    await ended;
    clearTimeout(timer);
    process.removeListener("exit", kill);
  };
}

// A receiver on loopback. `answer` returns a status, or "hang".
export async function receiver() {
  const got = [];
  const hanging = new Set();
  const state = { answer: 204, body: "" };
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const { answer } = state;
    got.push({ path: request.url, headers: request.headers, body: Buffer.concat(parts).toString(), answer });
    if (answer === "hang") return hanging.add(response);
    response.writeHead(answer);
    response.end(answer === 204 ? undefined : state.body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  return {
    got,
    url: (path) => `http://127.0.0.1:${port}${path}`,
    answers(answer, body = "") {
      Object.assign(state, { answer, body });
      for (const response of hanging) response.destroy();
      hanging.clear();
    },
    next: (what, is) => until(what, () => got.find(is)),
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

// Whether a request carries the signature described in docs/receiving.md.
export function isSigned({ headers, body }, secret) {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = Buffer.from(`v1,${createHmac("sha256", key).update(signed).digest("base64")}`);
  return headers["webhook-signature"].split(" ").some((signature) => {
    const given = Buffer.from(signature);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

// Sends the event of a finished job, like a producer.
export async function jobEnds({ sqs, queues }, event) {
  const message = {
    QueueUrl: queues["job-events"],
    MessageBody: JSON.stringify({ event: "job.completed", workflow: "invoices", status: "completed", ...event }),
  };
  const answer = await fetch(sqs, {
    method: "POST",
    headers: { "content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.SendMessage" },
    body: JSON.stringify(message),
  });
  if (!answer.ok) throw new Error(`the queue answered ${answer.status}: ${await answer.text()}`);
}
