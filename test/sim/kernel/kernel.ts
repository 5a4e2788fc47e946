import type { Timer } from "@svc/runtime/clock";
import { createRandom, hashText, type Random } from "./random.ts";

/** One thing that happens at a moment of the virtual time, unless it is called off. */
class Happening implements Timer {
  /** Not before this moment of the process's own monotonic clock, which stands still in a suspended machine. */
  dueMonoMs = 0;
  /** What it is a part of: once that is over nothing is done any more. */
  scope: Scope | null = null;
  atMs: number;
  readonly order: number;
  readonly tag: string;
  run: (() => void) | null;
  /** Whose it is: it waits while that process stands still, and is dropped when that process has ended. */
  readonly process: Process | null;
  readonly life: number;

  constructor(atMs: number, order: number, tag: string, run: () => void, process: Process | null) {
    this.atMs = atMs;
    this.order = order;
    this.tag = tag;
    this.run = run;
    this.process = process;
    this.life = process === null ? 0 : process.life;
  }

  unref(): this {
    return this;
  }

  [Symbol.dispose](): void {
    this.run = null;
  }
}

/** The virtual world: a clock, what is still to happen, and a hash of what has happened. */
export class Kernel {
  nowMs = 0;
  events = 0;
  /** Tells two runs apart: of the order, the moments and the kinds of all events. */
  hash = 0x811c9dc5;
  readonly random: Random;
  /** Told what is worth a line of a trace; null when nobody reads it. */
  trace: ((line: string) => void) | null = null;
  /** Called after every event. */
  afterEvent: () => void = () => {};
  /** Promises may go on because of the event under way. */
  private isStirred = false;
  private readonly heap: Happening[] = [];
  private order = 0;
  private readonly tagHashes = new Map<string, number>();

  constructor(seed: number) {
    this.random = createRandom(seed);
  }

  /** Makes `run` happen after `delayMs` of true time. */
  at(delayMs: number, tag: string, run: () => void, process: Process | null = null): Happening {
    const happening = new Happening(this.nowMs + Math.max(delayMs, 0), this.order++, tag, run, process);
    this.push(happening);
    return happening;
  }

  note(line: () => string): void {
    if (this.trace !== null) this.trace(`${(this.nowMs / 1000).toFixed(3).padStart(9)} ${line()}`);
  }

  /** Whose code went on last. */
  private stirred: Process | null = null;

  /**
   * Says that code of `process` that awaits promises may go on because of the event under way: before the next event it
   * does, as far as it gets. Every port of `ports.ts` says so by itself.
   */
  stir(process: Process): void {
    this.isStirred = true;
    this.stirred = process;
  }

  /** A promise was rejected, and nobody cared: that ends its process. */
  readonly onUnhandled = (error: unknown): void => (this.stirred?.onUncaught ?? unexpected)(error);

  /** Lets everything happen up to `untilMs`. */
  run(untilMs: number): Promise<void> {
    // From the event loop, and not from a promise: while one goes on no other does.
    return new Promise((resolve, reject) => {
      setImmediate(() => {
        try {
          resolve(this.happen(untilMs));
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  private happen(untilMs: number): void {
    for (;;) {
      const next = this.heap[0];
      if (next === undefined || next.atMs > untilMs) break;
      this.pop();
      const { process, run } = next;
      if (run === null) continue;
      if (process !== null) {
        if (!process.alive || process.life !== next.life) continue;
        if (process.frozenUntilMs > next.atMs) {
          next.atMs = process.frozenUntilMs;
          this.push(next);
          continue;
        }
        this.nowMs = next.atMs;
        const leftMs = next.dueMonoMs === 0 ? 0 : next.dueMonoMs - process.monoMs();
        if (leftMs > 0.001) {
          next.atMs += leftMs / process.rate;
          this.push(next);
          continue;
        }
      }
      this.nowMs = next.atMs;
      this.events += 1;
      this.mix(next.tag);
      if (!next.scope?.isOver) run();
      if (this.isStirred) allPromises();
      this.isStirred = false;
      this.afterEvent();
    }
    this.nowMs = untilMs;
  }

  private mix(tag: string): void {
    let tagHash = this.tagHashes.get(tag);
    if (tagHash === undefined) {
      tagHash = hashText(tag);
      this.tagHashes.set(tag, tagHash);
    }
    this.hash = Math.imul(this.hash ^ tagHash, 0x01000193);
    this.hash = Math.imul(this.hash ^ Math.floor(this.nowMs * 64), 0x01000193) >>> 0;
  }

  private push(happening: Happening): void {
    const { heap } = this;
    let at = heap.length;
    heap.push(happening);
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parent = heap[up];
      if (parent === undefined || !isBefore(happening, parent)) break;
      heap[at] = parent;
      at = up;
    }
    heap[at] = happening;
  }

  private pop(): void {
    const { heap } = this;
    const last = heap.pop();
    const size = heap.length;
    if (last === undefined || size === 0) return;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      let child = heap[down];
      if (child === undefined) break;
      const right = heap[down + 1];
      if (right !== undefined && isBefore(right, child)) {
        down += 1;
        child = right;
      }
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = down;
    }
    heap[at] = last;
  }
}

/**
 * Lets every promise that can go on go on, however many wait for one another, and tells of those that nobody caught: what
 * Node itself does between two callbacks. A turn of the event loop does the same, and asks the system each time.
 */
const allPromises = (process as unknown as { _tickCallback(): void })._tickCallback;

const isBefore = (a: Happening, b: Happening): boolean => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

/** What a coroutine waits for: calls one of the two, once, now or later. */
export type Wait<T> = (done: (value: T) => void, fail: (error: unknown) => void, scope: Scope) => void;
/** A piece of work with waits in it. It goes on only while its scope does. */
export type Work<T = void> = Generator<Wait<unknown>, T, unknown>;

/** Waits inside a piece of work. */
export function* wait<T>(what: Wait<T>): Work<T> {
  return (yield what as Wait<unknown>) as T;
}

/** A process with clocks of its own. All it knows is gone when it is killed; what it wrote to a disk is elsewhere. */
export class Process {
  alive = true;
  /** Rises with every start. */
  life = 0;
  frozenUntilMs = 0;
  /** How long the machine has been suspended since it was made. */
  private suspendedMs = 0;
  wallOffsetMs: number;
  readonly rate: number;
  readonly random: Random;
  scope: Scope;
  /** What nobody caught ends a process: whoever starts it again says so here. */
  onUncaught: (error: unknown) => void = unexpected;

  readonly kernel: Kernel;
  readonly id: string;

  constructor(
    kernel: Kernel,
    id: string /** By how much its clocks are fast, and its wall clock ahead. */,
    clock: { drift: number; wallOffsetMs: number },
  ) {
    this.kernel = kernel;
    this.id = id;
    this.rate = 1 + clock.drift;
    this.wallOffsetMs = clock.wallOffsetMs;
    this.random = kernel.random.fork(id);
    this.scope = new Scope(this);
  }

  /** CLOCK_MONOTONIC: stands still while the machine is suspended. */
  monoMs = (): number => this.kernel.nowMs * this.rate - this.suspendedMs;
  /** CLOCK_BOOTTIME. */
  bootMs = (): number => this.kernel.nowMs * this.rate;
  wallMs = (): number => startOfTimeMs + this.kernel.nowMs * this.rate + this.wallOffsetMs;
  now = (): Date => new Date(Math.floor(this.wallMs()));

  kill(): void {
    this.alive = false;
    this.scope.drop();
  }

  start(): void {
    this.alive = true;
    this.life += 1;
    this.frozenUntilMs = 0;
    this.scope = new Scope(this);
  }

  /** Nothing of it happens for a while. A suspended machine does not count that time on its monotonic clock. */
  freeze(forMs: number, isSuspended: boolean): void {
    this.frozenUntilMs = Math.max(this.frozenUntilMs, this.kernel.nowMs + forMs);
    if (isSuspended) this.suspendedMs += forMs * this.rate;
  }
}

const startOfTimeMs = Date.UTC(2026, 0, 1);

/** A part of a process's life, like a signal that aborts: what runs in it is dropped when it ends. */
export class Scope {
  isOver = false;
  private children: Scope[] = [];
  private endings: (() => void)[] = [];
  readonly process: Process;

  constructor(process: Process) {
    this.process = process;
  }

  child(): Scope {
    const child = new Scope(this.process);
    if (this.isOver) child.isOver = true;
    else {
      if (this.children.length > 32) this.children = this.children.filter(({ isOver }) => !isOver);
      this.children.push(child);
    }
    return child;
  }

  /** Called when the scope ends in an orderly way; not when its process is killed. */
  onEnd(ending: () => void): void {
    if (this.isOver) ending();
    else this.endings.push(ending);
  }

  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const child of this.children) child.end();
    for (const ending of this.endings) ending();
    this.endings = [];
  }

  /** Ends without a word. */
  drop(): void {
    this.isOver = true;
    for (const child of this.children) child.drop();
    this.endings = [];
  }

  /** After so many milliseconds of the process's own clock. */
  after(ms: number, tag: string, run: () => void): Timer {
    const { process } = this;
    const timer = process.kernel.at(ms / process.rate, tag, run, process);
    timer.dueMonoMs = process.monoMs() + ms;
    timer.scope = this;
    return timer;
  }

  spawn<T>(work: Work<T>, onError: (error: unknown) => void = unexpected, onDone: (value: T) => void = () => {}): void {
    const step = (mode: "next" | "throw", given: unknown): void => {
      let how = mode;
      let value = given;
      for (;;) {
        if (this.isOver) return;
        let result: IteratorResult<Wait<unknown>, T>;
        try {
          result = how === "throw" ? work.throw(value) : work.next(value);
        } catch (error) {
          if (!this.isOver) onError(error);
          return;
        }
        if (result.done) {
          onDone(result.value);
          return;
        }
        let isSettled = false;
        let isInside = true;
        let answered = false;
        const settle = (next: "next" | "throw") => (answer: unknown) => {
          if (isSettled) return;
          isSettled = true;
          if (isInside) {
            answered = true;
            how = next;
            value = answer;
          } else step(next, answer);
        };
        result.value(settle("next"), settle("throw"), this);
        isInside = false;
        if (!answered) return;
      }
    };
    step("next", undefined);
  }
}

function unexpected(error: unknown): void {
  throw error;
}

/** Waits for some time of the process's own clock. */
export const pause =
  (ms: number): Wait<void> =>
  (done, _fail, scope) =>
    void scope.after(ms, "pause", () => done(undefined));

/** Waits for a promise of the product's code. */
export const waitFor =
  <T>(begin: () => Promise<T>): Wait<T> =>
  (done, fail, { process }) => {
    process.kernel.stir(process);
    begin().then(done, fail);
  };
