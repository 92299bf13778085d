// The minimap's canvas. Drawn again only when tiles or colours changed: the view's box is an element.
import type { TileCache } from "../core/cache.ts";
import { drawMinimap } from "../core/minimap.ts";
import { greys, word, type Paints, type Theme } from "../core/palette.ts";
import type { Pixels } from "../core/raster.ts";
import type { Model } from "./model.ts";

export class MinimapView {
  stale = true;
  private image: ImageData | undefined;
  private pixels: Pixels = { data: new Uint32Array(0), width: 0, height: 0 };
  private last = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {}

  resize(width: number, height: number, ratio: number): void {
    const [w, h] = [Math.max(1, Math.floor(width * ratio)), Math.max(1, Math.floor(height * ratio))];
    if (w === this.pixels.width && h === this.pixels.height) return;
    this.canvas.width = w;
    this.canvas.height = h;
    this.image = new ImageData(w, h);
    this.pixels = { data: new Uint32Array(this.image.data.buffer), width: w, height: h };
    this.stale = true;
  }

  /** Draws if stale, at most three times a second while tiles `come` in. */
  draw(model: Model, cache: TileCache, paints: Paints, theme: Theme, come: boolean): void {
    const now = performance.now();
    if (!this.stale || !this.image || (come && now - this.last < 300)) return;
    this.last = now;
    this.stale = false;
    drawMinimap(this.pixels, cache, model.cpuTracks, model.home, paints.on(model.machineOf(model.cpuTracks[0] ?? 0)), word(greys(theme).row));
    this.canvas.getContext("2d")?.putImageData(this.image, 0, 0);
  }
}
