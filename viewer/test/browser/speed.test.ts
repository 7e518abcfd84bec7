import assert from "node:assert/strict";
import { cpus, loadavg } from "node:os";
import { after, before, test } from "node:test";
import type { Browser, CDPSession, Page } from "playwright-core";
import { million, SPIKE } from "../synthetic.ts";
import { browser, file, inView, open, picture, pixels, settled } from "./support.ts";

/** What is asked for, in ms. */
const DRAWN = 3000;
/**
 * Thirty frames a second, in ms. Frames come with the refreshes of the display, every 16.67 ms, so one that misses a refresh takes 33.33; the
 * browser rounds their times to 0.1 ms (docs/decisions/0028-thirty-frames-a-second.md).
 */
const FRAME = 33.45;
/** What counts is what the page can do: a machine that does other things meanwhile gets another try. */
const TRIES = 3;

let chrome: Browser;
let address: string;

before(async () => {
  chrome = await browser();
  address = file("million", [million()]);
});
after(() => chrome.close());

async function drawnAfter(page: Page): Promise<number> {
  return page.evaluate(() => performance.getEntriesByName("clearway:drawn")[0]?.startTime ?? NaN);
}

/** The times between frames, and the work in each, while the wheel zooms in and out and keys move the view; ascending. */
async function frames(page: Page): Promise<{ between: number[]; work: number[] }> {
  return page.evaluate(async () => {
    const stack = document.querySelector(".stack") as HTMLElement;
    const { left, top } = stack.getBoundingClientRect();
    const between: number[] = [];
    const work: number[] = [];
    let before = 0;
    await new Promise<void>((resolve) => {
      let count = 0;
      const step = (now: number): void => {
        if (before > 0) between.push(now - before);
        before = now;
        const begin = performance.now();
        // Our callback is asked for before the page's in the same frame; a message comes after both.
        const channel = new MessageChannel();
        channel.port1.onmessage = () => work.push(performance.now() - begin);
        const deltaY = count < 60 ? -60 : 60;
        if (count < 120) stack.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: left + 500, clientY: top + 100, bubbles: true, cancelable: true }));
        else document.body.dispatchEvent(new KeyboardEvent("keydown", { key: count % 2 ? "ArrowLeft" : "ArrowUp", bubbles: true }));
        channel.port2.postMessage(null);
        count += 1;
        if (count < 140) requestAnimationFrame(step);
        else setTimeout(resolve, 100);
      };
      requestAnimationFrame(step);
    });
    const ascending = (one: number, other: number): number => one - other;
    return { between: between.sort(ascending), work: work.sort(ascending) };
  });
}

/** Whether the machine had time for us: where more wants to run than there are processors, the time between frames says nothing of the page. */
function idle(): boolean {
  return (loadavg()[0] as number) <= cpus().length;
}

const percentile = (sorted: number[], share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] as number;

/** The processor time of the page's thread so far, in ms. Other programs do not change it. */
async function processorTime(session: CDPSession): Promise<number> {
  const { metrics } = await session.send("Performance.getMetrics");
  return (metrics.find(({ name }) => name === "ThreadTime")?.value ?? NaN) * 1000;
}

test("a million events are drawn in under three seconds and zoom smoothly", async (test) => {
  let [drawn, frame, cost, worked] = [Infinity, Infinity, Infinity, Infinity];
  for (let attempt = 0; attempt < TRIES && (drawn >= DRAWN || frame >= FRAME || worked >= FRAME); attempt += 1) {
    const { page, context, errors } = await open(chrome, address, "wide", "light");
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const opened = await drawnAfter(page);
    await settled(page);
    const before = await processorTime(session);
    const { between, work } = await frames(page);
    const each = ((await processorTime(session)) - before) / (between.length + 1);
    const told = [0.5, 0.95, 1].map((share) => `${percentile(between, share).toFixed(1)} (${percentile(work, share).toFixed(1)})`);
    console.log(`drawn after ${opened.toFixed(0)} ms; frames every (work) median ${told[0]}, p95 ${told[1]}, longest ${told[2]} ms; ${each.toFixed(1)} ms of processor time each; load ${loadavg()[0]?.toFixed(1)}`);
    drawn = Math.min(drawn, opened);
    frame = Math.min(frame, percentile(between, 0.95));
    cost = Math.min(cost, each);
    worked = Math.min(worked, percentile(work, 0.95));
    assert.deepEqual(errors, []);
    await context.close();
  }
  assert.ok(cost < FRAME, `a frame takes ${cost} ms of processor time`);
  if (!idle()) return test.diagnostic("the machine has other things to do: times on the clock are not judged");
  assert.ok(drawn < DRAWN, `drawn after ${drawn} ms`);
  assert.ok(worked < FRAME, `the work of 95 % of the frames is done within ${worked} ms`);
  assert.ok(frame < FRAME, `95 % of the frames within ${frame} ms`);
});

test("the spike is on the screen at every zoom", async () => {
  const { page, context } = await open(chrome, address, "wide", "light");
  await picture(page, "wide-light-8-million");
  assert.ok((await spikeHeight(page)) > 0.85, "the spike reaches to the top of the plot");
  await page.click(".findings button");
  assert.match(await inView(page), /^33\.\d+ s – 33\.\d+ s$/);
  await page.keyboard.press("ArrowDown");
  await settled(page);
  assert.ok((await spikeHeight(page)) > 0.85);
  await picture(page, "wide-light-9-spike");
  assert.ok((await pixels(page, ".plot-bytes", [10, 92, 173])) > 100);
  await context.close();
});

/** How high the highest pixel of bytes in flight lies near the spike, as a share of the plot. */
async function spikeHeight(page: Page): Promise<number> {
  const range = (await inView(page)).split(" – ").map((end) => parseFloat(end) * (end.endsWith(" s") ? 1000 : 1));
  const [from, to] = range as [number, number];
  const place = (SPIKE.time - from) / (to - from);
  return page.evaluate((share) => {
    const canvas = document.querySelector(".plot-bytes canvas") as HTMLCanvasElement;
    const over = document.querySelector(".plot-bytes .u-over") as HTMLElement;
    const ratio = devicePixelRatio;
    const left = (over.offsetLeft + share * over.clientWidth - 4) * ratio;
    const { data, width, height } = (canvas.getContext("2d") as CanvasRenderingContext2D).getImageData(left, over.offsetTop * ratio, 8 * ratio, over.clientHeight * ratio);
    for (let row = 0; row < height; row += 1) {
      for (let column = 0; column < width; column += 1) {
        const at = (row * width + column) * 4;
        const green = (data[at + 1] as number) - (data[at] as number) > 60;
        if (green) return 1 - row / height;
      }
    }
    return 0;
  }, place);
}
