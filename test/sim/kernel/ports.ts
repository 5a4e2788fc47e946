import type { Clock, Timer } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Process, Scope, Wait } from "./kernel.ts";

// What the product's own code is handed in the virtual world. Each port belongs to one life of a process: once that is
// over it never settles or calls anything again, so no code of that life goes on.

/** The clocks of a process, until this life of it ends. */
export function virtualClock(process: Process): Clock {
  const { scope } = process;
  const after = (ms: number, run: () => void): Timer => scope.after(ms, "timer", () => enter(process, run));
  return {
    now: process.now,
    steadyMs: process.monoMs,
    bootMs: process.bootMs,
    after,
    soon: (run) => void after(0, run),
    abortAfter(ms) {
      const controller = new AbortController();
      after(ms, () => controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")));
      return controller.signal;
    },
  };
}

/** The chance of a process: the same for the same seed. */
export function virtualRandom({ random }: Process): Random {
  const digits = (count: number): string =>
    Array.from({ length: count }, () => Math.floor(random.next() * 16).toString(16)).join("");
  return {
    next: random.next,
    uuid: () => `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-${digits(12)}`,
  };
}

/** Runs code of the product because of an event. What it throws and nobody catches ends its process, as in the real world. */
export function enter(process: Process, run: () => void): void {
  process.kernel.stir(process);
  try {
    run();
  } catch (error) {
    process.onUncaught(error);
  }
}

/** How something outside of a process answers it. Only the first answer counts, and none that comes to another life. */
export interface Answer<T> {
  readonly promise: Promise<T>;
  /** After so much true time; at the earliest when the process goes on, if it stands still. */
  resolve(value: T, afterMs: number, tag: string): void;
  reject(error: unknown, afterMs: number, tag: string): void;
}

export function createAnswer<T>(scope: Scope): Answer<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const { process } = scope;
  const settle = (afterMs: number, tag: string, act: () => void): void => {
    // To whoever is dead nothing is sent: it would be taken for a message to the life that follows.
    if (scope.isOver) return;
    process.kernel.at(afterMs, tag, () => void (!scope.isOver && enter(process, act)), process);
  };
  return {
    promise,
    resolve: (value, afterMs, tag) => settle(afterMs, tag, () => resolve(value)),
    reject: (error, afterMs, tag) => settle(afterMs, tag, () => reject(error)),
  };
}

/** What a shell waits for, for code that awaits promises; it never settles once `scope` is over. */
export function promiseOf<T>(scope: Scope, what: Wait<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const settle = (act: () => void): void => void (!scope.isOver && enter(scope.process, act));
  what(
    (value) => settle(() => resolve(value)),
    (error) => settle(() => reject(error)),
    scope,
  );
  return promise;
}
