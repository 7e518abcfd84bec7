/** The help dialog: keys, mouse and touch. */
import { element } from "./dom.ts";
import type { Command } from "./keyboard.ts";

const MOUSE: readonly [string, string][] = [
  ["drag", "zoom to the selected range"],
  ["wheel", "zoom at the cursor; with Shift, or sideways: pan"],
  ["double-click", "show the whole trace"],
  ["click", "pin the cursor; click again or press Esc to release it"],
  ["Shift + drag", "ruler"],
  ["touch", "one finger pans, two zoom, a tap pins the cursor"],
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
      element("h2", {}, "Keyboard"),
      element("table", {}, ...rows(commands.map(({ shown, does }) => [shown, does] as const))),
      element("h2", {}, "Mouse and touch"),
      element("table", {}, ...rows(MOUSE)),
      element("p", {}, close),
    );
  }

  toggle(): void {
    if (this.host.open) this.host.close();
    else this.host.showModal();
  }
}
