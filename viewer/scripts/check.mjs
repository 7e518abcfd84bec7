// Checks that the committed page matches its source byte by byte, loads nothing from a network, and has the placeholder for traces once.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const committed = readFileSync(join(root, "..", "crates", "cli", "page", "index.html"), "utf8");

function fail(why) {
  console.error(`crates/cli/page/index.html ${why}`);
  process.exit(1);
}

const outDir = mkdtempSync(join(tmpdir(), "clearway-viewer-"));
try {
  await build({ root, logLevel: "error", build: { outDir } });
  if (readFileSync(join(outDir, "index.html"), "utf8") !== committed) fail("does not match its source: run `npm run build` and commit it");
} finally {
  rmSync(outDir, { recursive: true });
}
if (committed.split("<!--clearway:traces-->").length !== 2) fail("has to contain the placeholder for traces exactly once");
const outside = committed.match(/(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?\/\/[^\s"')]*/);
if (outside !== null) fail(`refers to ${outside[0]}`);
console.log("crates/cli/page/index.html matches its source");
