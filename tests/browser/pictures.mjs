// Creates the pictures for the docs from the demo data of `cargo local`.

import { mkdir, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { launch, service } from "./world.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
const DESK = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };
// The size limit for each picture: every clone of the repository contains them all.
const MOST_BYTES = 170 * 1024;

const local = await service({ flags: ["--demo-data"] });
const browser = await launch();
try {
  await take();
} finally {
  await browser.close();
  await local.stop();
}

async function take() {
  if (!local.demo) throw new Error("this `cargo local` has no demo data: its line of JSON has no `demo`");
  const page = await browser.newPage({ viewport: DESK, colorScheme: "light" });
  page.setDefaultTimeout(15_000);
  await page.goto(local.demo);
  await page.waitForURL("**/console");
  await page.getByRole("heading", { name: "Endpoints" }).waitFor();
  await shot(page, "console");
  await page.setViewportSize(PHONE);
  await shot(page, "console-phone");
  await page.setViewportSize(DESK);

  // Endpoints with problems are listed first, so the first endpoint shows the most.
  await page.locator("tbody td:first-child a").first().click();
  await page.getByRole("heading", { name: "Last 24 hours" }).waitFor();
  await shot(page, "endpoint");
  await page.goto(new URL("/console/deliveries?status=failed", local.api).href);
  await page.locator("tbody td:first-child a").first().click();
  await page.getByRole("heading", { name: "Attempts" }).waitFor();
  await shot(page, "delivery");
}

async function shot(page, name) {
  await mkdir(FOLDER, { recursive: true });
  const path = `${FOLDER}${name}.png`;
  await page.screenshot({ path });
  const { size } = await stat(path);
  if (size > MOST_BYTES) throw new Error(`${path} has ${size} bytes, more than ${MOST_BYTES}`);
  console.log(`${path}: ${size} bytes`);
}
