/** Tests of two traces of one connection, on one clock. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { ends, healthy } from "../synthetic.ts";
import { browser, file, inView, open, picture, pixels, settled, type Size } from "./support.ts";

let chrome: Browser;
let address: string;

before(async () => {
  chrome = await browser();
  address = file("ends", [...ends(), healthy()]);
});
after(() => chrome.close());

const ONE_WAY_DELAY: [number, number, number] = [91, 107, 0];

for (const size of ["wide", "narrow"] as Size[]) {
  test(`${size}: both endpoints are put on one clock, and the fate of every packet is shown`, async () => {
    const { page, context, errors } = await open(chrome, address, size, "light");
    assert.match(await inView(page), /^0 ms – 2055 ms$|^0\.000 s – 2\.055 s$/);
    assert.equal(await page.isVisible(".panel-between"), false);
    await page.selectOption("select[aria-label=Overlay]", "1");
    await settled(page);
    const panel = (await page.textContent(".panel-between")) ?? "";
    assert.match(panel, /A \(server\) and B \(client\) are the two endpoints of one connection\. Clocks aligned by assuming equal minimum delays in both directions; B begins 5 ms before A\./);
    const cells = await page.locator(".panel-between tbody tr").allTextContents();
    assert.deepEqual(cells, ["packets sent400391", "never arrived10 (2.5 %)4 (1.0 %)", "declared lost, but arrived10", "minimum delay10 ms10 ms", "median delay10 ms10 ms"]);
    assert.match(await inView(page), /– 2\.060 s$|– 2060 ms$/);
    const rows = await page.locator(".lane-names span").evaluateAll((names) => names.map((name) => [name.textContent, name.getAttribute("title")]));
    assert.deepEqual(rows.slice(1), [["missing A", "never arrived: 10 (A)"], ["missing B", "never arrived: 4 (B)"], ["not lost A", "declared lost, but arrived: 1 (A)"]]);
    assert.ok((await pixels(page, ".plot-ms", ONE_WAY_DELAY)) > 100, "the one-way delay is drawn");

    // The server sends packet 39 at 206 ms of the client's clock.
    await page.click(".legend button:has-text('smoothed RTT')");
    await page.focus(".scroller");
    for (const key of ["Home", ...Array<string>(75).fill("ArrowDown")]) await page.keyboard.press(key);
    await settled(page);
    assert.match((await page.textContent(".row.current")) ?? "", /^206\.00 mssent1RTT391350never arrivedSTREAM/);
    assert.ok((await page.locator(".rows .row:has-text('arrived +10.00 ms')").count()) > 0);
    await picture(page, `${size}-light-ends`, true);

    await page.selectOption("select[aria-label=Overlay]", "2");
    await settled(page);
    assert.equal(await page.isVisible(".panel-between"), false);
    assert.equal(await page.locator(".rows .arrived:visible").count(), 0);
    await page.selectOption("select[aria-label=Overlay]", "");
    assert.match(await inView(page), /– 2\.055 s$|– 2055 ms$/);
    assert.deepEqual(errors, []);
    await context.close();
  });
}

test("the same part of the main trace stays in view when an overlay moves it", async () => {
  const { page, context, errors } = await open(chrome, address, "wide", "light");
  await page.focus(".scroller");
  for (const key of ["Home", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
  for (let count = 0; count < 8; count += 1) await page.keyboard.press("+");
  const alone = (await inView(page)).match(/[\d.]+/g)?.map(Number) as [number, number];
  const place = parseFloat((await page.textContent(".readout .place")) ?? "");
  await page.selectOption("select[aria-label=Overlay]", "1");
  const moved = (await inView(page)).match(/[\d.]+/g)?.map(Number) as [number, number];
  alone.forEach((end, index) => assert.ok(Math.abs((moved[index] as number) - end - 5) < 0.2, `${alone.join()} became ${moved.join()}`));
  assert.ok(Math.abs(parseFloat((await page.textContent(".readout .place")) ?? "") - place - 5) < 0.2);
  assert.match((await page.textContent(".row.current")) ?? "", /^16\.00 ms/);
  assert.deepEqual(errors, []);
  await context.close();
});
