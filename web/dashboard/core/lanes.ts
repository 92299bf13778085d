// Windows of a range as columns of numbers: bins of time, and for each of who is shown (a lane) some sums per bin.
//
// A bin is one window of the server or several; its sums are theirs. Bins lie where their time lies: between two
// there may be none (missed windows, a server that did not run), and nothing is put there.

/** Time in the page: ns since `Lanes` origin. As doubles unix ns are right to 256 ns, far below a pixel. */
export type Rel = number;

/** One span of time with what is known of it. */
export interface Span {
  readonly from: Rel;
  readonly to: Rel;
  /** Trace time of its begin and how much of it was measured. */
  readonly ts: number;
  readonly dur: number;
  readonly missed: number;
}

export interface LaneSums {
  /** Adds to field `field` of lane `lane` in the bin under way. */
  add(lane: string, field: number, value: number): void;
}

/** Gaps between windows that are shorter than this share of the one before are the clocks' doing, not gaps. */
const JITTER = 0.2;
const FIRST_ROOM = 256;

export class Lanes implements LaneSums {
  /** Of each bin: begin, end, time measured, windows missed before it, trace time. */
  private from = new Float64Array(FIRST_ROOM);
  private to = new Float64Array(FIRST_ROOM);
  private dur = new Float64Array(FIRST_ROOM);
  private missed = new Float64Array(FIRST_ROOM);
  private ts = new Float64Array(FIRST_ROOM);
  private readonly lanes = new Map<string, Float64Array>();
  private room = FIRST_ROOM;
  private count = 0;
  /** Bins that were dropped at the left so far: a bin's number stays its own. */
  dropped = 0;

  constructor(
    /** Numbers per lane and bin. */
    readonly fields: number,
    /** How long a bin may become. */
    readonly step_ns: number,
  ) {}

  get length(): number {
    return this.count;
  }

  get names(): IterableIterator<string> {
    return this.lanes.keys();
  }

  get newest(): Rel | undefined {
    return this.count > 0 ? this.to[this.count - 1]! : undefined;
  }

  get oldest(): Rel | undefined {
    return this.count > 0 ? this.from[0]! : undefined;
  }

  bin(at: number): Span {
    return { from: this.from[at]!, to: this.to[at]!, ts: this.ts[at]!, dur: this.dur[at]!, missed: this.missed[at]! };
  }

  /** The arrays themselves, for loops over all bins. */
  get edges(): { readonly from: Float64Array; readonly to: Float64Array; readonly dur: Float64Array } {
    return { from: this.from, to: this.to, dur: this.dur };
  }

  /** A lane's numbers: bin × `fields`. Undefined if it never had any. */
  lane(name: string): Float64Array | undefined {
    return this.lanes.get(name);
  }

  /** Begins a bin, or goes on with the last one if it has room for this span and nothing lies between. False: it is older than what is there. */
  begin(span: Span): boolean {
    const last = this.count - 1;
    const gap = last >= 0 ? span.from - this.to[last]! : Infinity;
    const slack = JITTER * Math.min(span.dur, last >= 0 ? this.dur[last]! : span.dur);
    if (last >= 0 && gap < -slack) return false;
    const isNext = last >= 0 && gap <= slack && span.missed === 0;
    if (isNext && span.to - this.from[last]! <= this.step_ns * (1 + 1e-6) + slack) {
      this.to[last] = span.to;
      this.dur[last]! += span.dur;
      return true;
    }
    this.makeRoom();
    const at = this.count++;
    this.from[at] = isNext ? this.to[last]! : span.from;
    this.to[at] = span.to;
    this.dur[at] = span.dur;
    this.missed[at] = span.missed;
    this.ts[at] = span.ts;
    return true;
  }

  add(name: string, field: number, value: number): void {
    if (!(value > 0)) return;
    let lane = this.lanes.get(name);
    if (!lane) this.lanes.set(name, (lane = new Float64Array(this.room * this.fields)));
    lane[(this.count - 1) * this.fields + field]! += value;
  }

  /** Lets go of bins that ended before `from`, not often: it moves all the others. */
  trim(from: Rel): void {
    let many = 0;
    while (many < this.count && this.to[many]! <= from) many++;
    if (many < 64 && many < this.count) return;
    for (const array of [this.from, this.to, this.dur, this.missed, this.ts]) array.copyWithin(0, many, this.count);
    const left = this.count - many;
    for (const [name, lane] of this.lanes) {
      lane.copyWithin(0, many * this.fields, this.count * this.fields);
      lane.fill(0, left * this.fields);
      // Who is not in any bin any more has no lane: a page on a wall outlives many containers.
      if (!lane.subarray(0, left * this.fields).some((value) => value !== 0)) this.lanes.delete(name);
    }
    this.count = left;
    this.dropped += many;
  }

  /** Sums of a lane's field over bins that lie in `[from, to)` with their middle. */
  sum(name: string, field: number, from: Rel, to: Rel): number {
    const lane = this.lanes.get(name);
    if (!lane) return 0;
    const [first, end] = this.between(from, to);
    let sum = 0;
    for (let at = first; at < end; at++) sum += lane[at * this.fields + field]!;
    return sum;
  }

  /** Time measured in `[from, to)`. */
  measured(from: Rel, to: Rel): number {
    const [first, end] = this.between(from, to);
    let sum = 0;
    for (let at = first; at < end; at++) sum += this.dur[at]!;
    return sum;
  }

  /** Numbers of the bins whose middle is in `[from, to)`: first and one behind the last. */
  between(from: Rel, to: Rel): [number, number] {
    const lower = (edge: Rel): number => {
      let [low, high] = [0, this.count];
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((this.from[middle]! + this.to[middle]!) / 2 < edge) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    return [lower(from), lower(to)];
  }

  /** The bin that a moment lies in, or that ends last before it. */
  at(moment: Rel): number | undefined {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.from[middle]! <= moment) low = middle + 1;
      else high = middle;
    }
    return low > 0 ? low - 1 : undefined;
  }

  /** Is this moment inside a bin, not in a gap? */
  covers(moment: Rel): boolean {
    const at = this.at(moment);
    return at !== undefined && moment < this.to[at]!;
  }

  private makeRoom(): void {
    if (this.count < this.room) return;
    const room = this.room * 2;
    const grown = (array: Float64Array, length: number): Float64Array<ArrayBuffer> => {
      const larger = new Float64Array(length);
      larger.set(array);
      return larger;
    };
    this.from = grown(this.from, room);
    this.to = grown(this.to, room);
    this.dur = grown(this.dur, room);
    this.missed = grown(this.missed, room);
    this.ts = grown(this.ts, room);
    for (const [name, lane] of this.lanes) this.lanes.set(name, grown(lane, room * this.fields));
    this.room = room;
  }
}
