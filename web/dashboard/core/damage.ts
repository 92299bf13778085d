// Windows of a range that are damaged in the server's history and left out of its answers.
import type { Rel } from "./lanes.ts";
import type { GoneJson } from "./wire.ts";

/** A stretch in page time. */
interface Stretch {
  readonly from: Rel;
  readonly to: Rel;
  readonly windows: number;
}

/** Stretches by the answers that they came with: fine and coarse answers may come from different files. */
export class Damage {
  private fine: Stretch[] = [];
  private coarse: Stretch[] = [];

  constructor(private readonly origin_ns: number) {}

  addFine(gone: readonly GoneJson[] | undefined): void {
    this.fine.push(...this.stretches(gone));
  }

  addCoarse(gone: readonly GoneJson[] | undefined): void {
    this.coarse.push(...this.stretches(gone));
  }

  /** Windows in `[from, to)`; those of coarse answers only where no fine ones are damaged, because they have the same time. */
  windows(from: Rel, to: Rel): number {
    const sum = (all: readonly Stretch[]): number => all.reduce((windows, one) => windows + (one.from < to && one.to > from ? one.windows : 0), 0);
    return sum(this.fine) || sum(this.coarse);
  }

  /** Drops all before a time. */
  trim(from: Rel): void {
    const isIn = (one: Stretch): boolean => one.to > from;
    this.fine = this.fine.filter(isIn);
    this.coarse = this.coarse.filter(isIn);
  }

  private stretches(gone: readonly GoneJson[] | undefined): Stretch[] {
    return (gone ?? []).map(({ from_unix_ns, until_unix_ns, windows }) => ({ from: from_unix_ns - this.origin_ns, to: until_unix_ns - this.origin_ns, windows }));
  }
}

/** `1 window`, `12 windows`. */
export function windowsText(count: number): string {
  return `${count} window${count === 1 ? "" : "s"}`;
}
