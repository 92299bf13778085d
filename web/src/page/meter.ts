// Frame times, so that "constant work per frame" is a number: the work of each of the last frames.
const KEPT = 4096;

export interface FrameTimes {
  readonly frames: number;
  readonly work_ms: { readonly median: number; readonly p99: number; readonly max: number };
}

export class Meter {
  private work: number[] = [];

  frame(work_ms: number): void {
    if (this.work.length >= KEPT) this.work.shift();
    this.work.push(work_ms);
  }

  reset(): void {
    this.work = [];
  }

  read(): FrameTimes {
    return { frames: this.work.length, work_ms: quantiles(this.work) };
  }
}

function quantiles(values: readonly number[]): { median: number; p99: number; max: number } {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (q: number): number => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0;
  return { median: at(0.5), p99: at(0.99), max: sorted[sorted.length - 1] ?? 0 };
}
