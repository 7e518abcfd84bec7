import assert from "node:assert/strict";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import type { Rows } from "../../src/protocol.ts";
import { finding, header as headerWith, lane, marks, rows, series } from "../model_writer.ts";
import { healthy, pinned } from "../synthetic.ts";
import { browser, BUILT, open, picture, settled } from "./support.ts";

let chrome: Browser;
const servers: Server[] = [];

before(async () => {
  chrome = await browser();
});
after(async () => {
  for (const server of servers) server.closeAllConnections();
  servers.forEach((server) => server.close());
  await chrome.close();
});

/** A server that responds by path, as the program does; a function handles the response itself. */
async function serve(paths: Record<string, { type: string; body: string | Buffer; gzip?: boolean } | ((answer: ServerResponse) => void)>): Promise<string> {
  const server = createServer((request, answer) => {
    const found = paths[request.url ?? ""];
    if (found === undefined) return void answer.writeHead(404).end();
    if (typeof found === "function") return found(answer);
    const encoding = found.gzip ? { "content-encoding": "gzip" } : {};
    answer.writeHead(200, { "content-type": found.type, ...encoding }).end(found.gzip ? gzipSync(found.body) : found.body);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const html = { type: "text/html; charset=utf-8", body: BUILT };

test("served traces are loaded when they are selected", async () => {
  const traces = [pinned(), healthy()];
  const asked: string[] = [];
  const json = (value: unknown): { type: string; body: string } => ({ type: "application/json", body: JSON.stringify(value) });
  const address = await serve({
    "/": html,
    "/traces.json": json([{ name: "a.qlog" }, { name: "b.qlog" }]),
    ...Object.fromEntries(
      traces.flatMap(({ header, columns }, index) => [
        [`/${index}/header.json`, json(header)],
        [`/${index}/columns.bin`, { type: "application/octet-stream", body: columns, gzip: true }],
      ]),
    ),
  });
  const { page, context, errors } = await open(chrome, address, "wide", "light");
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  assert.match((await page.textContent(".about")) ?? "", /9\.00 s/);
  assert.deepEqual(asked, []);
  await page.keyboard.press("o");
  await page.waitForFunction(() => document.querySelectorAll(".panel-states .tag").length > 0);
  assert.deepEqual(asked, ["/1/header.json", "/1/columns.bin"]);
  await page.selectOption("select[aria-label=Trace]", "1");
  await page.waitForFunction(() => document.title.startsWith("healthy"));
  assert.deepEqual(errors, []);
  await context.close();
});

test("the view follows a live trace, stands still while the reader looks, and follows again", async () => {
  let stream: ServerResponse | null = null;
  const send = (event: string, data: unknown): void => void stream?.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const header = headerWith({
    title: "demo, live",
    vantage: "server",
    dialect: "clearway",
    series: [
      series("congestion_window", "bytes", { title: "congestion window", step: true }),
      series("pacing_rate", "bytes/s", { title: "pacing rate", step: true }),
      series("smoothed_rtt", "ms", { title: "smoothed RTT", step: true }),
    ],
    lanes: [lane("congestion_state", { title: "congestion state" })],
    marks: [marks("lost")],
  });
  const address = await serve({
    "/": html,
    "/live": (answer) => {
      stream = answer;
      answer.writeHead(200, { "content-type": "text/event-stream" });
      send("header", header);
    },
  });
  const context = await chrome.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(address);
  await page.waitForSelector(".viewer");
  const rowsFrom = (from: number): Rows => {
    const times = Array.from({ length: 50 }, (_, index) => from + index * 20);
    const pairs = (value: (time: number) => number): [number, number][] => times.map((time) => [time, value(time)]);
    return rows({
      series: { congestion_window: pairs((time) => 20_000 + (time % 3000) * 30), pacing_rate: pairs((time) => 1e6 + (time % 3000) * 500), smoothed_rtt: pairs(() => 25) },
      lanes: { congestion_state: [[from, null, (from / 1000) % 3 === 0 ? "recovery" : "congestion_avoidance"]] },
      marks: { lost: (from / 1000) % 3 === 0 ? [[from, null]] : [] },
      findings: from > 20_000 ? [finding("Q4", "Recovery entered every second", 1, 1000, from)] : [],
    });
  };
  const range = async (): Promise<string> => {
    await settled(page);
    return (await page.textContent(".readout .range")) ?? "";
  };
  for (let second = 0; second < 40; second += 1) send("rows", rowsFrom(second * 1000));
  await page.waitForFunction(() => /^9\.98 s – 39\.98 s/.test(document.querySelector(".readout .range")?.textContent ?? ""));
  assert.equal(await page.getAttribute("button:text-is('Follow')", "aria-pressed"), "true");
  assert.match((await page.textContent(".findings")) ?? "", /Recovery entered every second/);
  await settled(page);
  await picture(page, "wide-light-10-live");
  await page.keyboard.press("ArrowUp");
  const still = await range();
  for (let second = 40; second < 45; second += 1) send("rows", rowsFrom(second * 1000));
  assert.equal(await range(), still);
  await page.keyboard.press("f");
  await page.waitForFunction(() => /^14\.98 s – 44\.98 s/.test(document.querySelector(".readout .range")?.textContent ?? ""));
  // The view changes all the time while rows arrive, but the panel about the time in view is updated nevertheless.
  let next = 45;
  const sending = setInterval(() => {
    send("rows", { ...rowsFrom(next * 1000), lanes: { congestion_state: [[next * 1000, null, "slow_start"]] } });
    next += 1;
  }, 10);
  await page.waitForFunction(() => /slow start/.test(document.querySelector(".panel-states")?.textContent ?? ""), null, { timeout: 10_000 });
  clearInterval(sending);
  await context.close();
});
