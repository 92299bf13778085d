// Frame times, so that "constant work per frame" is a number: the work of each of the last frames, and
// the time from frame to frame while they follow one another.
const KEPT = 4096;

export interface FrameTimes {
  readonly frames: number;
  readonly work_ms: { readonly median: number; readonly p99: number; readonly max: number };
  readonly interval_ms: { readonly median: number; readonly p99: number; readonly max: number };
}

export class Meter {
  private work: number[] = [];
  private intervals: number[] = [];
  private last = 0;

  frame(now_ms: number, work_ms: number): void {
    if (this.work.length >= KEPT) this.work.shift();
    this.work.push(work_ms);
    if (this.intervals.length >= KEPT) this.intervals.shift();
    // A pause is no slow frame: nothing was to be drawn.
    if (now_ms - this.last < 250) this.intervals.push(now_ms - this.last);
    this.last = now_ms;
  }

  reset(): void {
    this.work = [];
    this.intervals = [];
    this.last = 0;
  }

  read(): FrameTimes {
    return { frames: this.work.length, work_ms: quantiles(this.work), interval_ms: quantiles(this.intervals) };
  }
}

function quantiles(values: readonly number[]): { median: number; p99: number; max: number } {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (q: number): number => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0;
  return { median: at(0.5), p99: at(0.99), max: sorted[sorted.length - 1] ?? 0 };
}
