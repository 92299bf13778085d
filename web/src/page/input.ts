// Wheel, pinch, drag and keys → commands. Nothing here knows how anything is drawn.
import { commandOf } from "../core/keymap.ts";
import { pan, spanOf, zoomAt } from "../core/view.ts";
import type { App } from "./app.ts";
import { need } from "./dom.ts";

/** A press that moves less than this many pixels is a click. */
const CLICK_PX = 4;

export class Input {
  private readonly stage = need("#stage");
  private readonly touches = new Map<number, { x: number; y: number }>();
  private pinch = 0;
  private drag: { x: number; y: number; from: number; top: number; panning: boolean; moved: boolean; view: { from: number; to: number } } | undefined;

  constructor(private readonly app: App) {
    const stage = this.stage;
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.move(event));
    stage.addEventListener("pointerup", (event) => this.up(event));
    stage.addEventListener("pointercancel", (event) => this.cancel(event));
    stage.addEventListener("pointerleave", () => app.pointAt(undefined));
    stage.addEventListener("dblclick", (event) => this.double(event));
    need("#ruler").addEventListener("pointerdown", (event) => this.rulerDrag(event as PointerEvent));
    need("#minimap").addEventListener("pointerdown", (event) => this.minimapDrag(event as PointerEvent));
    need("#divider").addEventListener("pointerdown", (event) => this.dividerDrag(event as PointerEvent));
    need("#time").addEventListener("wheel", (event) => this.wheel(event as WheelEvent), { passive: false });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  private at(event: { clientX: number; clientY: number }): { x: number; y: number } {
    const box = this.stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private wheel(event: WheelEvent): void {
    if (event.altKey) return;
    event.preventDefault();
    const { app } = this;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 24 : event.deltaMode === WheelEvent.DOM_DELTA_PAGE ? 400 : 1;
    const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      app.setView(pan(app.state.view, (sideways * unit) / app.width, app.model.whole));
      return;
    }
    // A pinch arrives as ctrl + wheel with small steps.
    const step = event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0022);
    app.setView(zoomAt(app.state.view, app.timeAt(this.at(event).x), Math.exp(Math.max(-1, Math.min(1, step))), app.model.whole));
  }

  private down(event: PointerEvent): void {
    if (event.button > 1) return;
    need("#scroll").focus({ preventScroll: true });
    this.stage.setPointerCapture(event.pointerId);
    const { x, y } = this.at(event);
    if (event.pointerType === "touch") this.touches.set(event.pointerId, { x, y });
    if (this.touches.size === 2) {
      this.pinch = this.spread();
      this.drag = undefined;
      return;
    }
    const panning = event.button === 1 || event.shiftKey || event.pointerType === "touch";
    if (event.button === 1) event.preventDefault();
    const { view } = this.app.state;
    this.drag = { x, y, from: this.app.timeAt(x), top: this.app.scrollTop, panning, moved: false, view };
  }

  private move(event: PointerEvent): void {
    const { app } = this;
    const { x, y } = this.at(event);
    if (this.touches.has(event.pointerId)) this.touches.set(event.pointerId, { x, y });
    if (this.touches.size === 2) {
      const now = this.spread();
      const middle = [...this.touches.values()].reduce((sum, touch) => sum + touch.x / 2, 0);
      if (now > 10 && this.pinch > 10) app.setView(zoomAt(app.state.view, app.timeAt(middle), this.pinch / now, app.model.whole));
      this.pinch = now;
      return;
    }
    app.pointAt({ x, y });
    const drag = this.drag;
    if (!drag) return;
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK_PX) return;
    drag.moved = true;
    if (drag.panning) {
      this.stage.classList.add("panning");
      // Whole pixels, so that patterns and columns stay as they are while moving.
      const by = (Math.round(drag.x - x) / app.width) * spanOf(drag.view);
      app.setView({ from: drag.view.from + by, to: drag.view.to + by });
      app.scrollTo(drag.top + drag.y - y);
    } else app.select(drag.from, app.timeAt(x), app.tracksBetween(drag.y, y));
  }

  private up(event: PointerEvent): void {
    const drag = this.drag;
    this.cancel(event);
    if (!drag) return;
    const { x, y } = this.at(event);
    if (!drag.moved) this.app.click(x, y);
    else if (!drag.panning) this.app.selected();
  }

  private cancel(event: PointerEvent): void {
    this.touches.delete(event.pointerId);
    this.stage.classList.remove("panning");
    this.drag = undefined;
  }

  private spread(): number {
    const [a, b] = [...this.touches.values()];
    return a && b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }

  private double(event: MouseEvent): void {
    const { x, y } = this.at(event);
    this.app.zoomToInterval(x, y);
  }

  private rulerDrag(down: PointerEvent): void {
    const target = down.currentTarget as HTMLElement;
    target.setPointerCapture(down.pointerId);
    const from = this.app.timeAt(this.at(down).x);
    target.onpointermove = (move) => this.app.select(from, this.app.timeAt(this.at(move).x), undefined);
    target.onpointerup = (up) => {
      target.onpointermove = target.onpointerup = null;
      const to = this.app.timeAt(this.at(up).x);
      const wide = Math.abs(this.at(up).x - this.at(down).x) >= CLICK_PX;
      this.app.clearSelection();
      if (wide) this.app.glideTo({ from: Math.min(from, to), to: Math.max(from, to) });
    };
  }

  private minimapDrag(down: PointerEvent): void {
    const target = down.currentTarget as HTMLElement;
    target.setPointerCapture(down.pointerId);
    const go = (event: PointerEvent): void => {
      const { home } = this.app.model;
      const middle = home.from + (this.at(event).x / this.app.width) * spanOf(home);
      const half = spanOf(this.app.state.view) / 2;
      this.app.setView({ from: middle - half, to: middle + half });
    };
    target.onpointermove = go;
    target.onpointerup = () => (target.onpointermove = target.onpointerup = null);
    go(down);
  }

  private dividerDrag(down: PointerEvent): void {
    const target = down.currentTarget as HTMLElement;
    target.setPointerCapture(down.pointerId);
    target.onpointermove = (move) => this.app.setNamesWidth(move.clientX);
    target.onpointerup = () => (target.onpointermove = target.onpointerup = null);
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const writing = target.matches("input, textarea, select");
    if (document.querySelector("dialog[open]")) return;
    if (writing) {
      if (event.key === "Escape") target.blur();
      return;
    }
    // Buttons and links keep their own Enter and Space.
    if (target.matches("button, a") && (event.key === "Enter" || event.key === " ")) return;
    const command = commandOf(event);
    if (!command) return;
    event.preventDefault();
    this.app.run(command);
  }
}
