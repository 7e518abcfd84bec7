/** The page as the program gives it: served, as one file, and live. */
import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { browser, inView, open, picture, PICTURES, pixels, settled } from "./support.ts";

const ROOT = join(process.cwd(), "..");
const PROGRAM = process.env["CLEARWAY"] ?? join(ROOT, "target", "release", "clearway");
const FIXTURES = join(ROOT, "crates", "qlog", "tests", "fixtures");
const SICK = join(FIXTURES, "gallery-001.sqlog.gz");
const HEALTHY = join(FIXTURES, "quiche-0.30-healthy.sqlog.gz");
const BLUE: [number, number, number] = [10, 92, 173];

let chrome: Browser;
const started: ChildProcess[] = [];

before(async () => {
  chrome = await browser();
});
after(async () => {
  for (const program of started) program.kill();
  await chrome.close();
});

/** Starts the program, and waits for what it says that matches. */
function start(words: string[], wanted: RegExp): Promise<string> {
  const program = spawn(PROGRAM, words, { stdio: ["ignore", "pipe", "pipe"] });
  started.push(program);
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (text: Buffer): void => {
      said += text.toString();
      const found = wanted.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    };
    program.stdout?.on("data", hear);
    program.stderr?.on("data", hear);
    program.on("error", () => reject(new Error(`${PROGRAM} cannot be run: cargo build --release -p clearway-cli`)));
    program.on("exit", (status) => reject(new Error(`${words.join(" ")}: ended with ${status}: ${said}`)));
  });
}

/** A port that nobody listens at. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function looksAtTheBug(page: Page): Promise<void> {
  assert.ok((await pixels(page, ".plot-bytes", BLUE)) > 100);
  assert.match((await page.textContent(".findings li:first-child")) ?? "", /floor/i);
  const whole = await inView(page);
  await page.click(".findings li:first-child button");
  await settled(page);
  assert.notEqual(await inView(page), whole);
  assert.match((await page.textContent(".findings li:first-child .explanation")) ?? "", /which is the round trip/);
}

test("the program serves traces: a finding, and another trace laid over", async () => {
  const address = await start(["view", "--no-open", SICK, HEALTHY], /the page is at (\S+)/);
  const { page, context, errors } = await open(chrome, address, "wide", "light");
  await picture(page, "program-1-opened", true);
  await looksAtTheBug(page);
  await picture(page, "program-2-finding", true);
  await page.selectOption("select[aria-label=Overlay]", "1");
  await page.click("button:text-is('All')");
  await page.waitForFunction(() => document.querySelectorAll(".panel-states .tag").length > 0);
  await settled(page);
  await picture(page, "program-3-overlay", true);
  assert.deepEqual(errors, []);
  await context.close();
});

test("the program writes one file that needs no network", async () => {
  const out = join(PICTURES, "program.html");
  rmSync(out, { force: true });
  const written = spawnSync(PROGRAM, ["view", "--html", out, SICK, HEALTHY], { encoding: "utf8" });
  assert.equal(written.status, 0, written.stderr);
  const { page, context, errors } = await open(chrome, pathToFileURL(out).href, "narrow", "dark");
  await page.click(".findings li:first-child button");
  await settled(page);
  await picture(page, "program-4-one-file", true);
  assert.deepEqual(errors, []);
  await context.close();
});

test("the program follows a demonstration as it goes", async () => {
  const qlog = join(PICTURES, "live-qlog");
  mkdirSync(qlog, { recursive: true });
  const origin = `127.0.0.1:${await freePort()}`;
  const address = await start(["view", "--no-open", "--live", origin], /the page is at (\S+)/);
  const context = await chrome.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(address);
  await page.waitForSelector("text=There is no connection yet");
  await picture(page, "program-5-waiting");
  const words = ["demo", "--controller", "cubic", "--runs", "3", "--limit", "60s", "--live", origin, "--qlog", qlog];
  await start(words, /view --live (\S+)/);
  await page.waitForFunction(() => document.title.startsWith("demo, cubic"));
  const end = (): Promise<number> => page.evaluate(() => Number(/– ([\d.]+) s/.exec(document.querySelector(".readout .range")?.textContent ?? "")?.[1] ?? 0));
  await page.waitForFunction(() => Number(/– ([\d.]+) s/.exec(document.querySelector(".readout .range")?.textContent ?? "")?.[1] ?? 0) > 1);
  const first = await end();
  await page.waitForFunction((before) => Number(/– ([\d.]+) s/.exec(document.querySelector(".readout .range")?.textContent ?? "")?.[1] ?? 0) > before + 0.3, first);
  await settled(page);
  assert.ok((await pixels(page, ".plot-bytes", BLUE)) > 50);
  assert.match((await page.textContent(".readout .range")) ?? "", /in view/);
  await picture(page, "program-6-live");
  // Each run is followed by the next one.
  await page.waitForFunction(() => document.title.startsWith("demo, cubic 3"));
  assert.deepEqual(errors, []);
  await context.close();
});
