/** Tests of the page with the program: served, as one file, and live. */
import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { createWriteStream, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
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

/** Starts the program, waits for output that matches `wanted`, and returns its first group. */
function start(words: string[], wanted: RegExp): Promise<string> {
  const program = spawn(PROGRAM, words, { stdio: ["ignore", "pipe", "pipe"] });
  started.push(program);
  return new Promise((resolve, reject) => {
    let output = "";
    const read = (text: Buffer): void => {
      output += text.toString();
      const found = wanted.exec(output)?.[1];
      if (found !== undefined) resolve(found);
    };
    program.stdout?.on("data", read);
    program.stderr?.on("data", read);
    program.on("error", () => reject(new Error(`${PROGRAM} cannot be run: cargo build --release -p clearway-cli`)));
    program.on("exit", (status) => reject(new Error(`${words.join(" ")}: ended with ${status}: ${output}`)));
  });
}

/** A port that no socket is bound to. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function checkThatTheBugIsShown(page: Page): Promise<void> {
  assert.ok((await pixels(page, ".plot-bytes", BLUE)) > 100);
  assert.match((await page.textContent(".findings li:first-child")) ?? "", /floor/i);
  const whole = await inView(page);
  await page.click(".findings li:first-child button");
  await settled(page);
  assert.notEqual(await inView(page), whole);
  assert.match((await page.textContent(".findings li:first-child .explanation")) ?? "", /\(one round trip\)/);
}

test("the program serves traces: a finding, and another trace as an overlay", async () => {
  const address = await start(["view", "--no-open", SICK, HEALTHY], /the page is at (\S+)/);
  const { page, context, errors } = await open(chrome, address, "wide", "light");
  await picture(page, "program-1-opened", true);
  await checkThatTheBugIsShown(page);
  await picture(page, "program-2-finding", true);
  await page.selectOption("select[aria-label=Overlay]", "1");
  await page.click("button:text-is('All')");
  await page.waitForFunction(() => document.querySelectorAll(".panel-states .tag").length > 0);
  await settled(page);
  await picture(page, "program-3-overlay", true);
  assert.deepEqual(errors, []);
  await context.close();
});

test("the page waits for a trace that is still being read", async () => {
  const pipe = join(PICTURES, "slow.sqlog");
  rmSync(pipe, { force: true });
  assert.equal(spawnSync("mkfifo", [pipe]).status, 0);
  const trace = gunzipSync(readFileSync(HEALTHY));
  const half = trace.length >> 1;
  const writer = createWriteStream(pipe);
  writer.write(trace.subarray(0, half));
  const address = await start(["view", "--no-open", pipe], /the page is at (\S+)/);
  const page = await chrome.newPage();
  await page.goto(address);
  await page.waitForSelector("text=is being read");
  await picture(page, "program-reading", true);
  writer.end(trace.subarray(half));
  await page.waitForSelector("html[data-state=drawn]");
  assert.equal(await page.locator("text=is being read").count(), 0);
  await page.close();
  rmSync(pipe);
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

/** Interrupts a program as Ctrl-C does, and returns its further output. */
function interrupt(program: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    let output = "";
    program.stdout?.on("data", (text: Buffer) => (output += text.toString()));
    program.stderr?.on("data", (text: Buffer) => (output += text.toString()));
    program.on("close", () => resolve(output));
    program.kill("SIGINT");
  });
}

/** A download over a link that loses packets: the traces of the server and of the client, and the numbers of packets that the link lost in each direction. */
async function download(): Promise<{ traces: string[]; lost: [toClient: number, toServer: number] }> {
  const folder = join(PICTURES, "ends");
  rmSync(folder, { recursive: true, force: true });
  const [www, certificate] = [join(folder, "www"), join(folder, "certificate.pem")];
  mkdirSync(www, { recursive: true });
  writeFileSync(join(www, "file"), Buffer.alloc(2_000_000, 7));
  const traces = ["server", "client"].map((end) => join(folder, end));
  const server = `127.0.0.1:${await freePort()}`;
  await start(["serve", www, "--listen", server, "--save-cert", certificate, "--qlog", traces[0] as string], /listening on (\S+)/);
  const listen = `127.0.0.1:${await freePort()}`;
  await start(["link", "--listen", listen, "--to", server, "--delay", "10ms", "--rate", "20mbit", "--queue", "60", "--loss", "0.02"], /relaying (\S+)/);
  const [serving, linking] = started.slice(-2) as [ChildProcess, ChildProcess];
  const got = spawnSync(PROGRAM, ["get", "--ca", certificate, "--qlog", traces[1] as string, `https://${listen}/file`, "--output", join(folder, "got")], { encoding: "utf8" });
  assert.equal(got.status, 0, got.stderr);
  const output = await interrupt(linking);
  await interrupt(serving);
  const lost = (way: string): number => Number(new RegExp(`to ${way}: .* (\\d+) lost at random`).exec(output)?.[1]);
  return { traces: traces.map((end) => join(end, readdirSync(end)[0] as string)), lost: [lost("client"), lost("server")] };
}

test("the packets that never arrived according to both traces are those that the link lost", async () => {
  const { traces, lost } = await download();
  const address = await start(["view", "--no-open", ...traces], /the page is at (\S+)/);
  const { page, context, errors } = await open(chrome, address, "wide", "light");
  await page.selectOption("select[aria-label=Overlay]", "1");
  await page.waitForSelector(".panel-between:not([hidden])");
  const cells = await page.locator(".panel-between tbody tr:has-text('never arrived') td").allTextContents();
  const never = cells.map((cell) => Number(/^\d+/.exec(cell)?.[0]));
  // The last few may have been in transit when a trace ended: the client exits as soon as it has received everything.
  never.forEach((count, way) => assert.ok(count > 0 && Math.abs(count - (lost[way] as number)) <= 8, `${count} of ${lost[way]}`));
  const least = await page.locator(".panel-between tbody tr:has-text('minimum delay') td").allTextContents();
  least.forEach((delay) => assert.match(delay, /^1\d(\.\d)? ms$/));
  await settled(page);
  await picture(page, "program-7-ends", true);
  assert.deepEqual(errors, []);
  await context.close();
});

test("the program follows a demonstration while it runs", async () => {
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
  await page.waitForSelector("text=No connection yet");
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
