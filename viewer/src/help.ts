/** The help: every key, and what the mouse does. */
import { element } from "./dom.ts";
import type { Command } from "./keyboard.ts";

const MOUSE: readonly [string, string][] = [
  ["drag", "zoom to a stretch"],
  ["wheel", "zoom at the cursor; with Shift, or sideways: move"],
  ["double click", "everything"],
  ["click", "keep the cursor there; again, or Esc: let go"],
  ["Shift + drag", "the ruler"],
  ["finger", "one moves, two zoom, a tap keeps the cursor"],
];

export class Help {
  readonly host: HTMLDialogElement;

  constructor(commands: readonly Command[]) {
    const rows = (pairs: readonly (readonly [string, string])[]): HTMLElement[] =>
      pairs.map(([key, does]) => element("tr", {}, element("th", { scope: "row" }, element("kbd", {}, key)), element("td", {}, does)));
    const close = element("button", { type: "button", autofocus: true, onclick: () => this.host.close() }, "Close");
    this.host = element(
      "dialog",
      { "aria-label": "Help" },
      element("h2", {}, "Keys"),
      element("table", {}, ...rows(commands.map(({ shown, does }) => [shown, does] as const))),
      element("h2", {}, "Mouse and fingers"),
      element("table", {}, ...rows(MOUSE)),
      element("p", {}, close),
    );
  }

  toggle(): void {
    if (this.host.open) this.host.close();
    else this.host.showModal();
  }
}
