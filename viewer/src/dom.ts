/** Creates and updates elements. */

type Attributes = Record<string, string | boolean | ((event: Event) => void)>;

/** An element with attributes (`onclick` and the like are listeners; `true` is an empty attribute, `false` none) and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** An element of the page itself. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element #${id}`);
  return found;
}

/** Writes a text only if it differs, because browsers lay out the page again after every write. */
export function write(into: HTMLElement, text: string): void {
  if (into.textContent !== text) into.textContent = text;
}
