// The tip at the pointer.
import { make, need } from "../../src/page/dom.ts";
import type { Hit } from "./plot.ts";

export class Tip {
  private readonly root = need("#tip");

  hide(): void {
    this.root.hidden = true;
  }

  show(hit: Hit | undefined, x: number, y: number): void {
    if (!hit || (hit.title === "" && hit.lines.length === 0)) return this.hide();
    const lines = hit.lines.map((line) => (typeof line === "string" ? make("div", { class: "dim" }, line) : make("div", { class: "line" }, make("span", {}, line[0]), make("b", {}, line[1]))));
    this.root.replaceChildren(make("b", {}, hit.title), ...lines);
    this.root.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const left = x + 16 + width > window.innerWidth ? x - width - 12 : x + 16;
    const top = Math.min(y + 18, window.innerHeight - height - 6);
    this.root.style.transform = `translate(${Math.max(left, 4)}px, ${Math.max(top, 4)}px)`;
  }
}
