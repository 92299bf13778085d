// Small helpers for the DOM. Text only ever goes in as text nodes: names in a recording are anybody's.

/** An element of the page that must be there; the page and its HTML are built together. */
export function need<T extends Element = HTMLElement>(selector: string): T {
  const found = document.querySelector<T>(selector);
  if (!found) throw new Error(`element ${selector} is missing from the page`);
  return found;
}

type Child = Node | string | undefined | false;

/** Makes an element: `make("td", { class: "n" }, "12")`. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Readonly<Record<string, string>> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  for (const child of children) if (child !== undefined && child !== false) element.append(child);
  return element;
}

/** Writes an element's text if it is another one: what is left alone keeps a selection, and tells nobody of a change. */
export function write(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Saves bytes under a name, as if from a link. */
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = make("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Calls `act` once things have been quiet for `ms`. */
export function debounced(ms: number, act: () => void): () => void {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(act, ms);
  };
}

/** Calls `act` at most every `ms`, the last time after the last call. */
export function throttled(ms: number, act: () => void): () => void {
  let timer = 0;
  return () => {
    timer ||= window.setTimeout(() => {
      timer = 0;
      act();
    }, ms);
  };
}

/** localStorage that may be forbidden or full. */
export const memory = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(`transect.${name}`);
    } catch {
      return null;
    }
  },
  set(name: string, value: string): void {
    try {
      localStorage.setItem(`transect.${name}`, value);
    } catch {
      // Private windows forbid it: then it lasts as long as the page.
    }
  },
};
