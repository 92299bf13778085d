// The tip at the pointer: one interval's name and length, or what a pixel is made of.
import { evidenceWords, flowColour, flowWords, touches, type Part } from "../core/flows.ts";
import { duration, moment, percent, thousands } from "../core/format.ts";
import type { Hit } from "../core/hit.ts";
import { becauseWords, evidenceOf, stateWords } from "../core/pathwords.ts";
import { spanOf } from "../core/view.ts";
import type { App } from "./app.ts";
import { make } from "./dom.ts";
import type { LostZone } from "./model.ts";
import { arrowChip, chip } from "./panel-facts.ts";
import type { Placed } from "./rows.ts";
import { concerns } from "./stage.ts";

/** Arrows named at most. */
const MOST_ARROWS = 5;

export class Tip {
  constructor(private readonly root: HTMLElement) {}

  hide(): void {
    this.root.hidden = true;
  }

  show(app: App, point: { x: number; y: number }, found: { hit: Hit; placed: Placed } | undefined): void {
    if (!found) {
      this.hide();
      return;
    }
    const { hit, placed } = found;
    const track = placed.row.node.track.track;
    const at = app.timeAt(point.x);
    const content = [...this.lost(app, placed, at), ...this.hit(app, track, hit), ...this.piece(app, track, at), ...this.stage(app, track, at)];
    if (content.length === 0) {
      this.hide();
      return;
    }
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

  private hit(app: App, track: number, hit: Hit): HTMLElement[] {
    if (hit.kind === "interval") return this.interval(app, track, hit);
    return hit.kind === "shares" ? this.shares(app, track, hit) : [];
  }

  /** The piece of the critical path on this row. */
  private piece(app: App, track: number, at: number): HTMLElement[] {
    const { path, places } = app.state.why ?? {};
    const found = path?.at(at);
    if (!path || !places || found === undefined || path.trackOf(found) !== track) return [];
    const piece = path.pieces[found]!;
    const because = [becauseWords(piece, places), evidenceOf(piece) && `evidence: ${evidenceOf(piece)}`].filter(Boolean).join(", ");
    const line = make("div", { class: "line about" }, make("span", {}, "critical path: ", make("b", {}, stateWords(piece))), make("b", {}, duration(piece.to - piece.from, app.model.unit)));
    return because === "" ? [line] : [line, make("div", { class: "dim" }, because)];
  }

  /** The stage of the drawn request on this row. */
  private stage(app: App, track: number, at: number): HTMLElement[] {
    const { path, places } = app.state.request ?? {};
    const found = path?.at(at);
    if (!path || !places || found === undefined || path.trackOf(found) !== track) return [];
    const piece = path.pieces[found]!;
    const length = piece.to - piece.from;
    const line = make("div", { class: "line about" }, make("span", {}, "request: ", make("b", {}, piece.stage.name)), make("b", {}, duration(length, app.model.unit)));
    return [line, make("div", { class: "dim" }, `${percent(length / spanOf(path.range))} of the request, at ${places.nameOf(piece)}`)];
  }

  /** What was lost here: how many events, and why. */
  private lost(app: App, { row }: Placed, at: number): HTMLElement[] {
    const reach = 2 * (spanOf(app.state.view) / Math.max(app.width, 1));
    const zones = app.model.lost.filter((zone) => at >= zone.from - reach && at <= zone.to + reach && concerns(zone, row.node.track));
    const lines = zones.slice(0, 4).map((zone) => make("div", { class: "line bad" }, make("b", {}, lossText(app, zone))));
    if (zones.length > 4) lines.push(make("div", { class: "dim" }, `and ${zones.length - 4} more losses here`));
    return lines;
  }

  private interval(app: App, track: number, hit: Extract<Hit, { kind: "interval" }>): HTMLElement[] {
    const { interval } = hit;
    const name = interval.value === undefined ? make("b", {}, chip(app, interval.key, track), app.model.label(interval.key)) : make("b", {}, String(Number(interval.value.toPrecision(6))));
    const line = make("div", { class: "line" }, name, make("b", {}, duration(interval.dur, app.model.unit)));
    return [line, make("div", { class: "dim" }, `from ${moment(interval.ts, app.model.unit)}`), ...this.arrows(app, { track, from: interval.ts, to: interval.ts + interval.dur })];
  }

  /** The drawn arrows that begin or end in the interval, in words. */
  private arrows(app: App, part: Part): HTMLElement[] {
    const drawn = app.overlay.arrows.map(({ flow }) => flow).filter((flow) => touches(flow, part));
    const texts = new Map(drawn.map((flow) => [[flow.to_track === part.track ? "from" : "to", flowWords(flow), evidenceWords(flow)].join(), flow]));
    const lines = [...texts.values()].slice(0, MOST_ARROWS).flatMap((flow) => {
      const [way, other] = flow.to_track === part.track ? ["from", flow.from_track] : ["to", flow.to_track];
      const how = evidenceWords(flow);
      const words = make("div", { class: "about" }, arrowChip(flowColour(flow.kind, "currentColor")), flowWords(flow));
      return [words, make("div", { class: "dim" }, `${way} ${app.model.trackName(other)}${how ? `, ${how}` : ""}`)];
    });
    const more = texts.size - MOST_ARROWS;
    return more > 0 ? [...lines, make("div", { class: "dim" }, `and ${more} more arrows here`)] : lines;
  }

  private shares(app: App, track: number, hit: Extract<Hit, { kind: "shares" }>): HTMLElement[] {
    const lines = hit.shares.slice(0, 8).map(({ key, share }) => make("div", { class: "line" }, make("span", {}, chip(app, key, track), app.model.label(key)), make("b", {}, percent(share))));
    return [make("div", { class: "dim" }, `shares of ${duration(hit.to - hit.from, app.model.unit)}:`), ...lines];
  }
}

/** `412 events lost on CPU 1 (buffer_overrun), 1.3 ms unknown`. */
function lossText(app: App, { info, from, to }: LostZone): string {
  const known = info.count !== null && Number.isFinite(Number(info.count));
  const many = known ? `${thousands(Number(info.count))} event${Number(info.count) === 1 ? "" : "s"} lost` : "events lost, count unknown";
  const cpu = info.cpu === null ? "" : ` on CPU ${info.cpu}`;
  const cause = info.cause ? ` (${info.cause.replaceAll("_", " ")})` : "";
  return `${many}${cpu}${cause}: ${duration(to - from, app.model.unit)} unknown`;
}
