/** The theme, light or dark: that of the system, unless the reader chose one. */
import type { Theme } from "./palette.ts";

type Choice = "system" | Theme;
const CHOICES: readonly Choice[] = ["system", "light", "dark"];
const KEY = "clearway-theme";

export class Themes {
  private choice: Choice = remembered();
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");

  constructor(private readonly changed: () => void) {
    this.dark.addEventListener("change", () => this.apply());
    this.apply();
  }

  get now(): Theme {
    if (this.choice !== "system") return this.choice;
    return this.dark.matches ? "dark" : "light";
  }

  /** The label of the switch. */
  get label(): string {
    return this.choice === "system" ? "auto" : this.choice;
  }

  /** Switches from system to light to dark, and back to system. */
  next(): void {
    this.choice = CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length] as Choice;
    try {
      localStorage.setItem(KEY, this.choice);
    } catch {
      // A page that was opened from a file may have no storage; then the choice is lost with the page.
    }
    this.apply();
  }

  private apply(): void {
    document.documentElement.dataset["theme"] = this.now;
    this.changed();
  }
}

function remembered(): Choice {
  try {
    const stored = localStorage.getItem(KEY);
    return CHOICES.find((choice) => choice === stored) ?? "system";
  } catch {
    return "system";
  }
}
