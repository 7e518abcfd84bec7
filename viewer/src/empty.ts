/** What the page shows without a trace, or if its trace cannot be read. */
import { element } from "./dom.ts";

export function empty(): HTMLElement {
  return element(
    "main",
    { class: "empty" },
    element("h1", {}, "Clearway"),
    element("p", {}, "This page shows what a QUIC sender did, and why. No trace is loaded. To load one:"),
    element("pre", {}, "clearway view FILE…\nclearway view FILE… --html OUT.html\nclearway view --live ADDR"),
    element("p", {}, "FILE is any qlog file (.qlog, .sqlog, .gz, .zst)."),
  );
}

export function waiting(): HTMLElement {
  return element(
    "main",
    { class: "empty", role: "status" },
    element("h1", {}, "Clearway"),
    element("p", {}, "No connection yet. The next one will be shown live."),
  );
}

export function reading(): HTMLElement {
  return element(
    "main",
    { class: "empty", role: "status" },
    element("h1", {}, "Clearway"),
    element("p", {}, "The trace is being read. The terminal shows the progress."),
  );
}

export function failed(error: unknown): HTMLElement {
  return element(
    "main",
    { class: "empty", role: "alert" },
    element("h1", {}, "Clearway"),
    element("p", {}, `The trace cannot be shown: ${error instanceof Error ? error.message : String(error)}.`),
    element("p", {}, "Create the page again with the current version of clearway."),
  );
}
