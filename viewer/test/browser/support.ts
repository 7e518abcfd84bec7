/** A browser, pages with models, and the folder for screenshots. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { pageWith, type Model } from "../model_writer.ts";

/** The folder of the viewer: npm runs scripts in the folder of package.json. */
const VIEWER = process.cwd();
export const PICTURES = join(VIEWER, "..", "target", "viewer");
export const BUILT = readFileSync(join(VIEWER, "..", "crates", "cli", "page", "index.html"), "utf8");

export const SIZES = { wide: { width: 1280, height: 800 }, narrow: { width: 360, height: 740 } } as const;
export type Size = keyof typeof SIZES;

export async function browser(): Promise<Browser> {
  mkdirSync(PICTURES, { recursive: true });
  return chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu-watchdog"] });
}

/** Writes a page with traces, and returns its address. */
export function file(name: string, models: Model[]): string {
  mkdirSync(PICTURES, { recursive: true });
  const path = join(PICTURES, `${name}.html`);
  writeFileSync(path, pageWith(BUILT, models));
  return pathToFileURL(path).href;
}

/** Opens a page, and records errors and requests to a network, which the test asserts not to occur. */
export async function open(browser: Browser, address: string, size: Size, scheme: "light" | "dark"): Promise<{ page: Page; context: BrowserContext; errors: string[] }> {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: scheme, hasTouch: size === "narrow", reducedMotion: "reduce" });
  const page = await context.newPage();
  // Long, because test machines may be busy; separate tests measure speed.
  page.setDefaultTimeout(300_000);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url()) && !request.url().startsWith(new URL(address).origin)) errors.push(`a request to ${request.url()}`);
  });
  await page.goto(address);
  await page.waitForSelector(".empty, html[data-state=drawn]");
  if (await page.isVisible(".empty")) throw new Error((await page.textContent(".empty")) ?? "");
  return { page, context, errors };
}

export async function picture(page: Page, name: string, whole = false): Promise<void> {
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: whole });
}

/** The range in view, as the page shows it: "1.00 s – 2.00 s". */
export async function inView(page: Page): Promise<string> {
  await settled(page);
  return ((await page.textContent(".readout .range")) ?? "").replace(" in view", "");
}

/** Waits until all changes are drawn, and the panels that wait for the view to stop changing are updated. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(resolve), 200))));
}

/** The number of device pixels of a plot that have about this colour. */
export async function pixels(page: Page, plot: string, colour: [number, number, number]): Promise<number> {
  return page.evaluate(
    ([selector, [red, green, blue]]) => {
      const canvas = document.querySelector(`${selector} canvas`) as HTMLCanvasElement;
      const { data } = (canvas.getContext("2d") as CanvasRenderingContext2D).getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) {
        const near = Math.abs((data[at] as number) - red) + Math.abs((data[at + 1] as number) - green) + Math.abs((data[at + 2] as number) - blue) < 40;
        if (near && (data[at + 3] as number) > 200) count += 1;
      }
      return count;
    },
    [plot, colour] as const,
  );
}
