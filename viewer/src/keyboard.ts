/** Keyboard input. The help shows the same table of commands. */

export interface Command {
  readonly keys: readonly string[];
  /** The keys as shown in the help. */
  readonly shown: string;
  readonly does: string;
  readonly run: () => void;
}

/** The name of a key press: "Shift+ArrowLeft", "r", "?" (for characters, Shift is part of the character). */
function nameOf(event: KeyboardEvent): string {
  return event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
}

/** Runs commands on key presses, except where the focused element handles the key itself. */
export function listen(commands: readonly Command[]): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as Element;
    const name = nameOf(event);
    if (target.closest("select, input, textarea") || (target.closest("dialog") && name !== "?")) return;
    if (target.closest("[data-scrolls]") && /^(Shift\+)?(Arrow|Page|Home|End)/.test(name)) return;
    if (target.closest("button, a, summary") && name === "Enter") return;
    const command = commands.find(({ keys }) => keys.includes(name));
    if (command === undefined) return;
    event.preventDefault();
    command.run();
  });
}
