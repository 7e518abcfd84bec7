/** A page with 200 sub-resources and a file of 20 MB, loaded by a browser from `clearway serve`, over HTTP/3 only. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium, type Page } from "playwright-core";
import { picture, PICTURES } from "./support.ts";

const PROGRAM = process.env["CLEARWAY"] ?? join(process.cwd(), "..", "target", "release", "clearway");
const MEGABYTE = 1_000_000;
const LARGE = 20 * MEGABYTE;
/** The sub-resources of the page, by kind: 200 of them. */
const COUNTS = { css: 10, js: 40, svg: 100, json: 50 } as const;
/** The lengths of uploads that the server answers without reading them. */
const UPLOADS = [1, 100_000, 1_000_000, 3_000_000, 7_000_000];
const NUMBER = Object.values(COUNTS).reduce((sum, count) => sum + count, 0);

/** What the page has found out about itself. */
interface Outcome {
  navigation: string;
  /** The number of resources by protocol. */
  protocols: Record<string, number>;
  failed: string[];
  styles: number;
  scripts: number;
  images: number;
  items: number;
  large: { length: number; digest: string; type: string };
  /** The status and the length of a part of the large file. */
  part: { status: number; range: string; bytes: number[] };
  /** The statuses of uploads that are answered before they are read. */
  uploads: number[];
  milliseconds: number;
}

const folder = mkdtempSync(join(tmpdir(), "clearway-browser-"));
const large = Buffer.alloc(LARGE);
let server: ChildProcess;
let log = "";

before(() => {
  mkdirSync(PICTURES, { recursive: true });
  for (let at = 0, state = 1; at < LARGE; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    large.writeUInt32LE(state, at);
  }
  write();
});
after(() => {
  server?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** Writes the page, and everything that it consists of. */
function write(): void {
  const site = join(folder, "site");
  mkdirSync(site);
  const put = (name: string, content: string | Buffer): void => writeFileSync(join(site, name), content);
  const each = (kind: keyof typeof COUNTS): number[] => Array.from({ length: COUNTS[kind] }, (_, number) => number);
  for (const number of each("css")) put(`style-${number}.css`, `:root { --style-${number}: ${number}; }\n/* ${"x".repeat(3000)} */\n`);
  for (const number of each("js")) put(`script-${number}.js`, `globalThis.scripts = (globalThis.scripts ?? 0) + 1;\n// ${"x".repeat(10_000)}\n`);
  for (const number of each("svg")) {
    const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><rect width="40" height="40" fill="hsl(${number * 3.6} 70% 55%)"/><text x="20" y="25" font-size="14" text-anchor="middle" fill="#fff">${number}</text></svg>`;
    put(`image-${number}.svg`, drawing);
  }
  for (const number of each("json")) put(`item-${number}.json`, JSON.stringify({ number, text: "x".repeat(2000) }));
  put("large.bin", large);
  put("page.js", `(${inPage.toString()})(${JSON.stringify({ items: COUNTS.json, styles: COUNTS.css, megabyte: MEGABYTE, uploads: UPLOADS })});\n`);
  put(
    "index.html",
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>loading</title><link rel="icon" href="data:,">
${each("css").map((number) => `<link rel="stylesheet" href="style-${number}.css">`).join("\n")}
<style>body { font: 16px sans-serif; margin: 16px } #images { display: grid; grid-template-columns: repeat(20, 40px); gap: 4px } #images img { width: 40px; height: 40px } pre { font-size: 14px }</style>
</head><body><h1>Loaded from clearway serve</h1><div id="images">
${each("svg").map((number) => `<img src="image-${number}.svg" alt="">`).join("\n")}
</div><pre id="outcome">loading</pre>
${each("js").map((number) => `<script src="script-${number}.js" defer></script>`).join("\n")}
<script src="page.js" defer></script></body></html>\n`,
  );
}

/** Runs in the page, which has no other code than this function. */
async function inPage(counts: { items: number; styles: number; megabyte: number; uploads: number[] }): Promise<void> {
  performance.setResourceTimingBufferSize(1000);
  const began = performance.now();
  const failed: string[] = [];
  const hex = (bytes: ArrayBuffer): string => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const loaded = new Promise((resolve) => (document.readyState === "complete" ? resolve(null) : addEventListener("load", resolve)));
  const numbers = Array.from({ length: counts.items }, (_, number) => number);
  const item = async (number: number): Promise<number> => {
    const response = await fetch(`item-${number}.json`);
    const value = (await response.json()) as { number: number; text: string };
    return Number(value.number === number && value.text.length === 2000 && response.headers.get("content-type") === "application/json");
  };
  const whole = async (): Promise<Outcome["large"]> => {
    const response = await fetch("large.bin");
    const content = await response.arrayBuffer();
    return { length: content.byteLength, digest: hex(await crypto.subtle.digest("SHA-256", content)), type: response.headers.get("content-type") ?? "" };
  };
  const [large, items] = await Promise.all([whole(), Promise.all(numbers.map(item)), loaded]);
  const response = await fetch("large.bin", { headers: { range: `bytes=${counts.megabyte}-${counts.megabyte + 3}` }, cache: "no-store" });
  const part = { status: response.status, range: response.headers.get("content-range") ?? "", bytes: Array.from(new Uint8Array(await response.arrayBuffer())) };
  // Chromium never resolves these if it gets STOP_SENDING while it sends.
  const uploads: number[] = [];
  for (const length of counts.uploads) {
    const response = await fetch("item-0.json", { method: "POST", body: new Uint8Array(length) });
    await response.text();
    uploads.push(response.status);
  }
  const protocols: Record<string, number> = {};
  const resources = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
  for (const resource of resources.filter((resource) => !resource.name.startsWith("data:"))) {
    protocols[resource.nextHopProtocol] = (protocols[resource.nextHopProtocol] ?? 0) + 1;
    if (resource.decodedBodySize === 0 || ![200, 206, 405].includes(resource.responseStatus)) failed.push(resource.name);
  }
  const style = getComputedStyle(document.documentElement);
  const navigation = performance.getEntriesByType("navigation")[0] as PerformanceNavigationTiming;
  const outcome: Outcome = {
    navigation: navigation.nextHopProtocol,
    protocols,
    failed,
    styles: Array.from({ length: counts.styles }, (_, number) => Number(style.getPropertyValue(`--style-${number}`).trim() === String(number))).reduce((sum, one) => sum + one, 0),
    scripts: (globalThis as unknown as { scripts: number }).scripts,
    images: Array.from(document.images).filter((image) => image.complete && image.naturalWidth > 0).length,
    items: items.reduce((sum, one) => sum + one, 0),
    large,
    part,
    uploads,
    milliseconds: Math.round(performance.now() - began),
  };
  (document.querySelector("#outcome") as HTMLElement).textContent = JSON.stringify(outcome, null, 1);
  document.title = "loaded";
}

/** Starts the server, and returns its port. */
function serve(): Promise<string> {
  const words = ["serve", join(folder, "site"), "--listen", "127.0.0.1:0", "--save-cert", join(folder, "cert.pem")];
  server = spawn(PROGRAM, words, { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve, reject) => {
    server.stdout?.on("data", (text: Buffer) => {
      log += text.toString();
      const found = /listening on https:\/\/127\.0\.0\.1:(\d+)/.exec(log)?.[1];
      if (found !== undefined) resolve(found);
    });
    server.on("error", () => reject(new Error(`${PROGRAM} cannot be run: cargo build --release -p clearway-cli`)));
    server.on("exit", (status) => reject(new Error(`the server ended with ${status}: ${log}`)));
  });
}

/** The hash of the server's public key, as the browser's option takes it. It does not accept a certificate over QUIC otherwise. */
function publicKeyHash(): string {
  const { publicKey } = new X509Certificate(readFileSync(join(folder, "cert.pem")));
  return createHash("sha256").update(publicKey.export({ type: "spki", format: "der" })).digest("base64");
}

async function load(page: Page, port: string): Promise<Outcome> {
  page.setDefaultTimeout(300_000);
  await page.goto(`https://localhost:${port}/`);
  await page.waitForFunction(() => document.title === "loaded");
  return JSON.parse((await page.textContent("#outcome")) ?? "") as Outcome;
}

test("a browser loads a page with 200 resources and a file of 20 MB over HTTP/3", async () => {
  const port = await serve();
  const args = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    `--origin-to-force-quic-on=localhost:${port}`,
    "--host-resolver-rules=MAP localhost 127.0.0.1,MAP * ~NOTFOUND",
    `--ignore-certificate-errors-spki-list=${publicKeyHash()}`,
  ];
  const context = await chromium.launchPersistentContext(join(folder, "profile"), { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args, viewport: { width: 1000, height: 800 } });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("requestfailed", (request) => errors.push(`${request.url()}: ${request.failure()?.errorText}`));
  const outcome = await load(page, port);
  await picture(page, "http3-page", true);
  console.log(`loaded in ${outcome.milliseconds} ms: ${JSON.stringify(outcome.protocols)}`);

  assert.equal(outcome.navigation, "h3");
  // Besides the 200: the page's own script, the large file, a part of it, and the uploads.
  assert.deepEqual(outcome.protocols, { h3: NUMBER + 3 + UPLOADS.length });
  assert.deepEqual(outcome.uploads, UPLOADS.map(() => 405));
  assert.deepEqual({ ...COUNTS }, { css: outcome.styles, js: outcome.scripts, svg: outcome.images, json: outcome.items });
  assert.deepEqual(outcome.large, { length: LARGE, digest: createHash("sha256").update(large).digest("hex"), type: "application/octet-stream" });
  assert.deepEqual(outcome.part, { status: 206, range: `bytes ${MEGABYTE}-${MEGABYTE + 3}/${LARGE}`, bytes: Array.from(large.subarray(MEGABYTE, MEGABYTE + 4)) });
  assert.deepEqual(outcome.failed, []);
  assert.deepEqual(errors, []);
  await context.close();

  // The log has a line for each request: all of them came over QUIC, and none was cut off.
  server.removeAllListeners("exit");
  const ended = new Promise<number | null>((resolve) => server.on("exit", resolve));
  server.kill("SIGTERM");
  assert.equal(await ended, 0);
  const lines = log.split("\n").filter((line) => / GET "/.test(line));
  assert.equal(lines.length, NUMBER + 4, log);
  assert.ok(lines.every((line) => /" 20[06] [^c]/.test(line)), log);
});
