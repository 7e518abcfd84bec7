import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

/** Puts the script, the styles, and the licence of the bundled library into the page, so that it is one file. */
function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["index.html"];
      if (page?.type !== "asset") throw new Error("the build has no index.html");
      let html = String(page.source);
      for (const [name, part] of Object.entries(bundle)) {
        if (part === page) continue;
        const script = part.type === "chunk";
        const text = script ? part.code.replaceAll("</script", "<\\/script") : String(part.source);
        const reference = new RegExp(script ? `<script[^>]*${name}"[^>]*></script>` : `<link[^>]*${name}"[^>]*>`);
        if (!reference.test(html)) throw new Error(`the page does not refer to ${name}`);
        html = html.replace(reference, () => (script ? "" : `<style>${text}</style>`));
        if (script) html = html.replace("</body>", () => `  <script type="module">${text}</script>\n  </body>`);
        delete bundle[name];
      }
      const licence = readFileSync(new URL("node_modules/uplot/LICENSE", import.meta.url), "utf8");
      page.source = html.replace("<head>", () => `<head>\n    <!-- Contains uPlot:\n${licence}-->`);
    },
  };
}

export default defineConfig({
  plugins: [oneFile()],
  build: { outDir: "../crates/cli/page", emptyOutDir: true, target: "es2022", modulePreload: false, cssCodeSplit: false, assetsInlineLimit: 1 << 30, reportCompressedSize: false },
});
