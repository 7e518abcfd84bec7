/** Draws once per frame, regardless of the number of changes. */

/** The kinds of changes that parts of the page react to. */
export type Change = "data" | "view" | "cursor" | "theme";

export class Frames {
  private readonly pending = new Set<Change>();
  private readonly parts: ((changes: ReadonlySet<Change>) => void)[] = [];

  /** Calls `part` in each frame in which something changed. */
  add(part: (changes: ReadonlySet<Change>) => void): void {
    this.parts.push(part);
  }

  request(change: Change): void {
    if (this.pending.size === 0) requestAnimationFrame(() => this.draw());
    this.pending.add(change);
  }

  private draw(): void {
    const changes = new Set(this.pending);
    this.pending.clear();
    for (const part of this.parts) part(changes);
  }
}
