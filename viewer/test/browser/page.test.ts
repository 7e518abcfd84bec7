import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { healthy, initialRtt, pinned } from "../synthetic.ts";
import { browser, file, inView, open, picture, pixels, settled, type Size } from "./support.ts";

let chrome: Browser;
let address: string;

before(async () => {
  chrome = await browser();
  address = file("two-traces", [pinned(), healthy()]);
});
after(() => chrome.close());

/** The colour of the most important curve of each plot. */
const CURVES = {
  ".plot-bytes": { light: [10, 92, 173], dark: [92, 178, 255] },
  ".plot-bytes-per-s": { light: [0, 114, 127], dark: [79, 208, 224] },
  ".plot-ms": { light: [63, 63, 176], dark: [165, 165, 255] },
} as const;

for (const size of ["wide", "narrow"] as Size[]) {
  for (const scheme of ["light", "dark"] as const) {
    test(`${size}, ${scheme}: curves, a finding, the overlay, round trips, the ruler`, async () => {
      const { page, context, errors } = await open(chrome, address, size, scheme);
      const name = `${size}-${scheme}`;
      for (const [plot, colours] of Object.entries(CURVES)) assert.ok((await pixels(page, plot, [...colours[scheme]])) > 100, `a curve in ${plot}`);
      assert.match(await inView(page), /^0\.000 s – 9\.000 s$/);
      assert.equal(await page.textContent(".notices > .ending.failed:first-child"), "closed by the client (the peer) after 9.0 s: H3_INTERNAL_ERROR (0x102)");
      assert.ok((await page.textContent(".damage"))?.includes("byte 1,838,111"));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
      await picture(page, `${name}-1-opened`, true);

      await page.click(".findings li:nth-child(3) button");
      assert.match(await inView(page), /^0\.000 s – 2\.2\d\d s$/);
      assert.ok(await page.isVisible(".findings li.selected .explanation"));
      assert.ok(await page.isVisible(".band.finding"));
      await page.click(".findings li:nth-child(1) button");
      await settled(page);
      await picture(page, `${name}-2-finding`, true);
      assert.match((await page.textContent(".row.current")) ?? "", /^20[01]\d\.\d\d ms/);
      assert.match((await page.textContent(".panel-states")) ?? "", /1,\d{3} state changes/);

      await page.selectOption("select[aria-label=Overlay]", "1");
      await page.click("text=All");
      assert.match(await inView(page), /^0\.000 s – 9\.000 s$/);
      await settled(page);
      await picture(page, `${name}-3-overlay`, true);
      await page.click("button:text-is('round trips')");
      assert.match(await inView(page), /^0 RT – 783 RT$/);
      assert.equal(await page.getAttribute("button:text-is('round trips')", "aria-pressed"), "true");
      await picture(page, `${name}-4-round-trips`, true);
      await page.selectOption("select[aria-label=Overlay]", "");
      await page.click("button:text-is('time')");
      assert.match(await inView(page), /^0\.000 s – 9\.000 s$/);

      await page.click(".findings li:nth-child(3) button");
      assert.match(await inView(page), /^0\.000 s – 2\.2\d\d s$/);
      await page.evaluate(() => scrollTo(0, 0));
      await page.locator(".plot-bytes .canvas").scrollIntoViewIfNeeded();
      const box = (await page.locator(".plot-bytes .canvas").boundingBox()) as { x: number; y: number; width: number; height: number };
      if (size === "wide") {
        await page.keyboard.down("Shift");
        await page.mouse.move(box.x + 200, box.y + 100);
        await page.mouse.down();
        await page.mouse.move(box.x + 420, box.y + 40, { steps: 4 });
        await page.mouse.up();
        await page.keyboard.up("Shift");
      } else {
        await page.touchscreen.tap(box.x + 120, box.y + 60);
        await page.click("text=Ruler");
        // The click may have scrolled the page.
        await page.locator(".plot-bytes .canvas").scrollIntoViewIfNeeded();
        const moved = (await page.locator(".plot-bytes .canvas").boundingBox()) as { x: number; y: number };
        await page.touchscreen.tap(moved.x + 220, moved.y + 60);
      }
      await settled(page);
      assert.match((await page.textContent(".ruler-box")) ?? "", /Δ [1-9][\d.]* m?s · [\d.]+ RT/);
      assert.match((await page.textContent(".ruler-box")) ?? "", /congestion window/);
      await picture(page, `${name}-5-ruler`, size === "narrow");
      assert.deepEqual(errors, []);
      await context.close();
    });
  }
}

test("mouse: drag zooms, wheel zooms at the cursor, double click shows everything, a click pins the cursor and shows packets", async () => {
  const { page, context, errors } = await open(chrome, address, "wide", "light");
  const box = (await page.locator(".plot-bytes .canvas").boundingBox()) as { x: number; y: number; width: number; height: number };
  await page.mouse.move(box.x + 300, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + 500, box.y + 60, { steps: 5 });
  await settled(page);
  assert.ok(await page.isVisible(".band.selection"));
  await page.mouse.up();
  const dragged = await inView(page);
  assert.match(dragged, /^2\.\d+ s – 4\.\d+ s$/);
  await page.mouse.wheel(0, -400);
  assert.notEqual(await inView(page), dragged);
  await page.mouse.dblclick(box.x + 400, box.y + 60);
  assert.match(await inView(page), /^0\.000 s – 9\.000 s$/);
  await page.mouse.click(box.x + 400, box.y + 60);
  await settled(page);
  await page.mouse.move(box.x + 400, box.y + box.height + 420);
  await settled(page);
  const current = await page.textContent(".row.current");
  assert.match(current ?? "", /^3\d{3}\.\d+ ms/);
  assert.ok((await page.locator(".rows .row").count()) < 40);
  await page.click(".legend button:has-text('bytes in flight')");
  assert.equal(await page.getAttribute(".legend button:has-text('bytes in flight')", "aria-pressed"), "false");
  assert.deepEqual(errors, []);
  await context.close();
});

test("internal variables of a controller are drawn when they are selected", async () => {
  const { page, context, errors } = await open(chrome, file("details", [healthy()]), "wide", "light");
  const details = page.locator(".plot-bytes .legend .detail");
  assert.equal(await details.isVisible(), false);
  assert.equal(await page.locator(".plot-ms .legend .more").isVisible(), false);
  const pink: [number, number, number] = [176, 23, 127];
  assert.equal(await pixels(page, ".plot-bytes", pink), 0);
  await page.click(".plot-bytes .legend .more");
  await settled(page);
  await details.click();
  await settled(page);
  assert.ok((await pixels(page, ".plot-bytes", pink)) > 100);
  await page.click(".plot-bytes .legend .more");
  await settled(page);
  assert.ok(await details.isVisible(), "the button of a drawn curve stays visible");
  await picture(page, "wide-light-12-details");
  assert.deepEqual(errors, []);
  await context.close();
});

test("everything can be done by keyboard", async () => {
  const { page, context, errors } = await open(chrome, address, "wide", "dark");
  const press = async (...keys: string[]): Promise<void> => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await press("n");
  const finding = await inView(page);
  assert.match(finding, /^0\.9\d\d s – 9\.000 s$/);
  assert.ok(await page.isVisible(".findings li:first-child.selected"));
  await press("0", "ArrowUp", "ArrowUp");
  assert.match(await inView(page), /^2\.500 s – 6\.500 s$/);
  await press("ArrowLeft");
  assert.match(await inView(page), /^1\.900 s – 5\.900 s$/);
  await press("ArrowRight", "ArrowDown");
  assert.match(await inView(page), /^1\.500 s – 7\.500 s$/);
  await press("Shift+ArrowRight", "r", ...Array<string>(20).fill("Shift+ArrowRight"));
  await settled(page);
  assert.match((await page.textContent(".ruler-box")) ?? "", /Δ 1\.20 s · 104 RT/);
  await press("r", "Shift+ArrowRight");
  await settled(page);
  assert.match((await page.textContent(".ruler-box")) ?? "", /104 RT/);
  await page.waitForFunction(() => /congestion window 2\.7 kB/.test(document.querySelector(".spoken")?.textContent ?? ""));
  await press("Escape");
  await settled(page);
  assert.equal(await page.isVisible(".ruler-box"), false);
  await press("Escape", "0", ".", ".");
  await settled(page);
  assert.match((await page.textContent(".readout .place")) ?? "", /^0\.\d+ s|^\d+ ms/);
  await press("o");
  await page.waitForFunction(() => (document.querySelector("select[aria-label=Overlay]") as HTMLSelectElement).value === "1");
  await press("t");
  await settled(page);
  assert.equal(await page.getAttribute("button:text-is('round trips')", "aria-pressed"), "true");
  await press("t", "o", "d");
  assert.equal(await page.getAttribute("html", "data-theme"), "light");
  await press("d", "?");
  assert.ok(await page.isVisible("dialog[open]"));
  await settled(page);
  await picture(page, "wide-dark-6-help");
  await press("Escape");
  assert.equal(await page.isVisible("dialog[open]"), false);

  await page.focus(".scroller");
  await press("End");
  await settled(page);
  assert.match((await page.textContent(".row.current")) ?? "", /^899\d\.\d+ ms/);
  await press("Home");
  await settled(page);
  assert.match((await page.textContent(".row.current")) ?? "", /^0\.00 ms/);

  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  const reached: string[] = [];
  for (let count = 0; count < 40; count += 1) {
    await press("Tab");
    reached.push(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""));
  }
  for (const name of ["Trace", "Overlay", "time", "round trips", "All", "Ruler", "?", "Packets"]) assert.ok(reached.includes(name), `Tab reaches ${name}`);
  for (const part of ["congestion window", "smoothed RTT", "Congestion window pinned"]) assert.ok(reached.some((text) => text.startsWith(part)), `Tab reaches ${part}`);
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement as Element).outlineStyle);
  assert.equal(outline, "solid");
  assert.deepEqual(errors, []);
  await context.close();
});

test("a page without a trace says how to load one, and a damaged one what is wrong", async () => {
  const context = await chrome.newContext({ viewport: { width: 360, height: 740 } });
  const page = await context.newPage();
  await page.goto(file("empty", []));
  await page.waitForSelector(".empty");
  assert.match((await page.textContent(".empty")) ?? "", /clearway view FILE/);
  await picture(page, "narrow-light-7-empty");
  const { header, columns } = healthy();
  await page.goto(file("damaged", [{ header, columns: columns.subarray(0, 1000) }]));
  await page.waitForSelector(".empty");
  assert.match((await page.textContent(".empty")) ?? "", /1000 bytes of/);
  await context.close();
});

/** Opens a page and records every text that is drawn on a canvas. */
async function drawnTexts(width: number): Promise<{ texts: string[]; close(): Promise<void> }> {
  const context = await chrome.newContext({ viewport: { width, height: 800 } });
  const page = await context.newPage();
  await page.addInitScript(`
    window.drawn = [];
    const fillText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { window.drawn.push(text); return fillText.call(this, text, ...rest); };
  `);
  await page.goto(address);
  await page.waitForSelector("html[data-state=drawn]");
  await settled(page);
  const texts = (await page.evaluate("window.drawn")) as string[];
  return { texts, close: () => context.close() };
}

for (const width of [420, 900, 1600]) {
  test(`${width} pixels: alternating states have a label with their names and the number of changes`, async () => {
    const { texts, close } = await drawnTexts(width);
    assert.ok(texts.some((text) => /^1,78\d changes(: (recovery ⇄ congestion avoidance|congestion avoidance ⇄ recovery))?/.test(text)), texts.filter((text) => /[a-z]{4}/.test(text)).join("; "));
    await close();
  });
}

test("420 pixels: the findings come first, the packets last", async () => {
  const context = await chrome.newContext({ viewport: { width: 420, height: 900 } });
  const page = await context.newPage();
  await page.goto(address);
  await page.waitForSelector("html[data-state=drawn]");
  const tops = await Promise.all([".panel-findings", ".stack", ".panel-states", ".panel-packets"].map(async (part) => (await page.locator(part).boundingBox())?.y ?? -1));
  assert.deepEqual(tops, [...tops].sort((one, other) => one - other), tops.join(" "));
  assert.ok((tops[0] as number) < 300, "without scrolling");
  await context.close();
});

test("a finding shows its grade more prominently than a notice, its metrics as a list, its meaning and its causes", async () => {
  const model = pinned();
  const [worst] = model.header.findings;
  if (worst === undefined) throw new Error("no findings");
  Object.assign(worst, { metrics: [["congestion window", "2,700 bytes"], ["round trips", "607"]], meaning: "A transfer that crawls.", causes: "A recovery without an end." });
  const { page, context, errors } = await open(chrome, file("metrics", [model]), "wide", "light");
  assert.deepEqual(await page.locator(".grade").allTextContents(), ["severe · 6.98 s", "severe · 6.90 s", "moderate · 400 ms"]);
  const ground = (selector: string): Promise<string> => page.evaluate((one) => getComputedStyle(document.querySelector(one) as Element).backgroundColor, selector);
  assert.equal(await ground(".severe .grade"), "rgb(179, 38, 30)");
  assert.equal(await ground(".notice.damage"), "rgba(0, 0, 0, 0)");
  await page.click(".findings li:first-child button");
  const rows = page.locator(".selected .metrics > div");
  assert.deepEqual(await rows.allTextContents(), ["congestion window2,700 bytes", "round trips607"]);
  const explanation = (await page.textContent(".selected .explanation")) ?? "";
  assert.ok(explanation.includes("A transfer that crawls.") && explanation.includes("Usual causes: A recovery without an end."), explanation);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a trace is not offered as an overlay of itself", async () => {
  const { page, context } = await open(chrome, address, "wide", "light");
  const offered = (): Promise<string[]> => page.locator("select[aria-label=Overlay] option").evaluateAll((options) => options.map((option) => (option as HTMLOptionElement).value));
  assert.deepEqual(await offered(), ["", "1"]);
  await page.selectOption("select[aria-label=Trace]", "1");
  await settled(page);
  assert.deepEqual(await offered(), ["", "0"]);
  await context.close();
});

test("an initial RTT does not affect the scale, and the legend says that it is initial", async () => {
  const { page, context } = await open(chrome, file("initial", [initialRtt()]), "wide", "light");
  assert.match((await page.textContent(".plot-ms .legend .initial")) ?? "", /^333 ms is the initial RTT/);
  assert.equal(await page.isVisible(".plot-bytes .legend .initial"), false);
  // At 15 of at most 20 ms the curve lies in the upper half; at 15 of 333 ms it lies at the bottom.
  const height = await page.evaluate(() => {
    const canvas = document.querySelector(".plot-ms canvas") as HTMLCanvasElement;
    const { data } = (canvas.getContext("2d") as CanvasRenderingContext2D).getImageData(Math.floor(canvas.width / 2), 0, 1, canvas.height);
    const at = [...Array(canvas.height).keys()].find((y) => Math.abs((data[y * 4] as number) - 63) + Math.abs((data[y * 4 + 1] as number) - 63) + Math.abs((data[y * 4 + 2] as number) - 176) < 60);
    return at === undefined ? 1 : at / canvas.height;
  });
  assert.ok(height < 0.5, `the curve lies at ${height} of the height`);
  const box = (await page.locator(".plot-ms .canvas").boundingBox()) as { x: number; y: number; width: number; height: number };
  await page.mouse.move(box.x + 90, box.y + 40);
  await settled(page);
  assert.match((await page.textContent(".plot-ms .legend")) ?? "", /smoothed RTT333 ms \(initial, no sample yet\)/);
  await picture(page, "wide-light-13-initial");
  await context.close();
});
