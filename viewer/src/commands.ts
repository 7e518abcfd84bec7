/** The commands that keys run. */
import type { Command } from "./keyboard.ts";

/** The actions of the page that keys run. */
export interface Controls {
  all(): void;
  pan(share: number): void;
  zoom(factor: number): void;
  /** Moves the cursor by a share of the view, or to the next mark in a direction. */
  moveCursor(share: number): void;
  toMark(direction: 1 | -1): void;
  measure(): void;
  release(): void;
  stepFinding(by: 1 | -1): void;
  nextOverlay(): void;
  otherAxis(): void;
  followOn(): void;
  nextTheme(): void;
  showHelp(): void;
}

export function commandsOf(controls: Controls): Command[] {
  const command = (keys: string[], shown: string, does: string, run: () => void): Command => ({ keys, shown, does, run });
  return [
    command(["0"], "0", "show the whole trace", () => controls.all()),
    command(["ArrowLeft"], "←", "pan left", () => controls.pan(-0.15)),
    command(["ArrowRight"], "→", "pan right", () => controls.pan(0.15)),
    command(["ArrowUp", "+", "="], "↑ +", "zoom in at the cursor", () => controls.zoom(1 / 1.5)),
    command(["ArrowDown", "-"], "↓ −", "zoom out", () => controls.zoom(1.5)),
    command(["Shift+ArrowLeft"], "Shift ←", "move the cursor left", () => controls.moveCursor(-0.01)),
    command(["Shift+ArrowRight"], "Shift →", "move the cursor right", () => controls.moveCursor(0.01)),
    command([","], ",", "cursor to the previous mark", () => controls.toMark(-1)),
    command(["."], ".", "cursor to the next mark (loss, PTO …)", () => controls.toMark(1)),
    command(["r"], "r", "ruler: start at the cursor, end, remove", () => controls.measure()),
    command(["n"], "n", "next finding", () => controls.stepFinding(1)),
    command(["p"], "p", "previous finding", () => controls.stepFinding(-1)),
    command(["o"], "o", "next trace as overlay", () => controls.nextOverlay()),
    command(["t"], "t", "axis: time or round trips", () => controls.otherAxis()),
    command(["f"], "f", "follow a live trace", () => controls.followOn()),
    command(["d"], "d", "theme: system, light, dark", () => controls.nextTheme()),
    command(["Escape"], "Esc", "remove ruler, cursor and selection", () => controls.release()),
    command(["?"], "?", "this help", () => controls.showHelp()),
  ];
}
