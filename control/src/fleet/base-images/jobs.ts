import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";

/** Work that several ask for, and none waits for as long as it takes. */
export interface Jobs<T> extends AsyncDisposable {
  /** The next who asks begins anew. */
  forget(key: string): void;
  /**
   * The outcome of `work` under a key: of what is under way, of what ended lately, or begun now. Null when there is none
   * yet after `patienceMs`, and then one is to ask again. Work that nobody asks for any more is aborted.
   */
  ask(key: string, work: (signal: AbortSignal) => Promise<T>): Promise<T | null>;
}

export interface JobOptions {
  clock: Clock;
  /** How long one question takes. */
  patienceMs: number;
  /** After so long without a question nobody wants to know any more. */
  forgottenMs: number;
}

/** Keeps each outcome for as long as `keptMs` says, with 0 not at all; a failure of the work is told whoever asks, and not kept. */
export function createJobs<T>({ clock, patienceMs, forgottenMs }: JobOptions, keptMs: (outcome: T) => number): Jobs<T> {
  const jobs = new Map<string, Job<T>>();
  const stop = new AbortController();

  const begin = (key: string, work: (signal: AbortSignal) => Promise<T>): Job<T> => {
    const idle = new AbortController();
    const startPatience = () => clock.after(forgottenMs, () => idle.abort(new Error("nobody asks any more")));
    let patience = startPatience();
    const outcome = work(AbortSignal.any([idle.signal, stop.signal]));
    const wanted = (): void => {
      patience[Symbol.dispose]();
      patience = startPatience();
    };
    const job: Job<T> = { outcome, wanted };
    const forget = (): void => {
      if (jobs.get(key) === job) jobs.delete(key);
    };
    jobs.set(key, job);
    const keep = (done: T): void => {
      const ms = keptMs(done);
      if (ms === 0) forget();
      else clock.after(ms, forget).unref();
    };
    outcome.then(keep, forget).finally(() => {
      patience[Symbol.dispose]();
      job.wanted = () => {};
    });
    return job;
  };

  return {
    forget: (key) => void jobs.delete(key),
    async ask(key, work) {
      const job = jobs.get(key) ?? begin(key, work);
      job.wanted();
      return within(clock, patienceMs, job.outcome, () => null);
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error("control stops"));
      await Promise.allSettled([...jobs.values()].map(({ outcome }) => outcome));
    },
  };
}

interface Job<T> {
  outcome: Promise<T>;
  wanted(): void;
}
