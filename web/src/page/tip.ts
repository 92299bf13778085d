// The tip at the pointer: one interval's name and length, or what a pixel is made of.
import { duration, moment, percent } from "../core/format.ts";
import type { Hit } from "../core/hit.ts";
import type { App } from "./app.ts";
import { make } from "./dom.ts";
import { chip } from "./panel-facts.ts";
import type { Placed } from "./rows.ts";

export class Tip {
  constructor(private readonly root: HTMLElement) {}

  hide(): void {
    this.root.hidden = true;
  }

  show(app: App, point: { x: number; y: number }, found: { hit: Hit; placed: Placed } | undefined): void {
    if (!found || found.hit.kind === "nothing" || found.hit.kind === "loading") {
      this.hide();
      return;
    }
    const { hit, placed } = found;
    const track = placed.row.node.track.track;
    const content = hit.kind === "interval" ? this.interval(app, track, hit) : this.shares(app, track, hit);
    const where = make("div", { class: "dim" }, app.model.trackName(track));
    this.root.replaceChildren(...content, where);
    this.root.hidden = false;
    this.place(app, point);
  }

  private place(app: App, point: { x: number; y: number }): void {
    const box = app.stage.canvas.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const x = box.left + point.x + 16 + width > window.innerWidth ? box.left + point.x - width - 12 : box.left + point.x + 16;
    const y = Math.min(box.top + point.y + 18, window.innerHeight - height - 6);
    this.root.style.transform = `translate(${Math.max(x, 4)}px, ${Math.max(y, 4)}px)`;
    this.root.style.left = this.root.style.top = "0";
  }

  private interval(app: App, track: number, hit: Extract<Hit, { kind: "interval" }>): HTMLElement[] {
    const { interval } = hit;
    const name = interval.value === undefined ? make("b", {}, chip(app, interval.key, track), app.model.label(interval.key)) : make("b", {}, String(Number(interval.value.toPrecision(6))));
    const line = make("div", { class: "line" }, name, make("b", {}, duration(interval.dur, app.model.unit)));
    return [line, make("div", { class: "dim" }, `from ${moment(interval.ts, app.model.unit)}`)];
  }

  private shares(app: App, track: number, hit: Extract<Hit, { kind: "shares" }>): HTMLElement[] {
    const lines = hit.shares.slice(0, 8).map(({ key, share }) => make("div", { class: "line" }, make("span", {}, chip(app, key, track), app.model.label(key)), make("b", {}, percent(share))));
    return [make("div", { class: "dim" }, `${duration(hit.to - hit.from, app.model.unit)} are made of`), ...lines];
  }
}
