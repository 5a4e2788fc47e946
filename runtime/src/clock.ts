/**
 * Time, as a program sees it. Whatever waits, times out or stamps is handed one: programs get the system's
 * (`system.ts`), the simulator and tests of loops have clocks of their own.
 */
export interface Clock {
  /** The system's time. Somebody may set it, so it stamps and dates; how long things last is told by the others. */
  now(): Date;
  /** Milliseconds that only grow. They stand still while the machine is suspended. */
  steadyMs(): number;
  /**
   * Milliseconds since the machine booted, suspension included: for leases and for deadlines that must not be slept
   * through. When in doubt it runs ahead, which ends a lease early and never late.
   */
  bootMs(): number;
  /** Calls `run` once after `ms`, unless called off. */
  after(ms: number, run: () => void): Timer;
  /** Calls `run` when what is under way in this turn of the event loop is done. */
  soon(run: () => void): void;
  /** Aborts after `ms` with a `TimeoutError`. Keeps no process alive. */
  abortAfter(ms: number): AbortSignal;
}

/** What was put off. Disposing it calls it off. */
export interface Timer extends Disposable {
  /** A process may end before it is due. */
  unref(): Timer;
}

/** Calls `run` every `ms`, the first time after `ms`, until it is called off. Keeps no process alive. */
export function every(clock: Clock, ms: number, run: () => void): Disposable {
  let timer: Timer;
  const next = (): void => {
    timer = clock.after(ms, again).unref();
  };
  const again = (): void => {
    next();
    run();
  };
  next();
  return { [Symbol.dispose]: () => timer[Symbol.dispose]() };
}

/**
 * Dates for what lasts: they begin as the system's time and go on with `bootMs`, so that setting the system's clock
 * makes nothing older or younger. Dates of one such clock are compared with one another only.
 */
export function steadyDates(clock: Clock): () => Date {
  const offsetMs = clock.now().getTime() - clock.bootMs();
  return () => new Date(offsetMs + clock.bootMs());
}
