import { pipeline, type Readable, Transform } from "node:stream";
import type { StaticTarget } from "@svc/proto/edge";
import { RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { sleep } from "@svc/runtime/sleep";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { bundleName } from "../names.ts";
import type { BundleState } from "../servable.ts";
import type { BundlePull } from "./pull.ts";
import type { BundleStore } from "./store.ts";
import { BundleRefusedError } from "./unpack.ts";

/** Null while it is under way and not for long yet. */
type FetchProblem = { problem: string /** Trying again gives the same. */; final: boolean } | null;

/** Brings bundles that routes ask for. */
export interface BundleFetcher extends AsyncDisposable {
  state(target: StaticTarget): BundleState;
  /** From now on these are wanted, and no others: what is under way for others is broken off. */
  want(targets: readonly StaticTarget[]): void;
}

/** How long a route may wait for its bundle before that counts as a failure of the route. */
const patienceMs = 20_000;
const attemptTimeoutMs = 10 * 60_000;
const longestPauseMs = 60_000;
const attemptsAtOnce = 3;

interface Fetch {
  problem: FetchProblem;
  abort: AbortController;
  done: Promise<void>;
}

/** @param onChange called when the state of a wanted bundle changed */
export function createFetcher(deps: {
  store: BundleStore;
  pull: BundlePull;
  onChange: () => void;
  metrics?: Pick<Metrics, "bundleFetches" | "bundleBytes"> | undefined;
  clock: Clock;
  log: Log;
}): BundleFetcher {
  const { store, pull, onChange, metrics, clock, log } = deps;
  const fetches = new Map<string, Fetch>();
  const limited = createLimiter({ total: attemptsAtOnce });

  async function bring(name: string, target: StaticTarget, fetch: Fetch): Promise<void> {
    const { signal } = fetch.abort;
    using impatient = clock.after(patienceMs, () => {
      fetch.problem = { problem: "its files are still being fetched", final: false };
      onChange();
    });
    try {
      for (let attempt = 0; !signal.aborted; attempt += 1) {
        const problem = await limited(() => bringOnce(name, target, signal), { signal });
        if (signal.aborted) return;
        if (problem === null) {
          fetches.delete(name);
          onChange();
          return;
        }
        impatient[Symbol.dispose]();
        fetch.problem = problem;
        onChange();
        if (problem.final) return;
        await sleep(clock, Math.min(longestPauseMs, 1000 * 2 ** Math.min(attempt, 10)), signal);
      }
    } catch (cause) {
      if (!signal.aborted) throw cause;
    }
  }

  /** The same bytes, counted on their way. What fails on one side ends the other. */
  function counted(archive: Readable): Readable {
    if (metrics === undefined) return archive;
    const counter = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        metrics.bundleBytes.inc(chunk.length);
        done(null, chunk);
      },
    });
    return pipeline(archive, counter, () => {});
  }

  async function bringOnce(name: string, target: StaticTarget, outer: AbortSignal): Promise<FetchProblem> {
    const signal = AbortSignal.any([outer, clock.abortAfter(attemptTimeoutMs)]);
    try {
      await store.add(name, counted(await pull(target, signal)), signal);
      metrics?.bundleFetches.inc({ outcome: "ok" });
      return null;
    } catch (err) {
      if (!outer.aborted) metrics?.bundleFetches.inc({ outcome: "failed" });
      if (!outer.aborted) log.warn({ repository: target.repository, digest: target.digest, err }, "bundle not fetched");
      return problemOf(err);
    }
  }

  return {
    state(target) {
      const name = bundleName(target.digest);
      if (name === null) return { problem: "its files have no digest" };
      if (store.has(name)) return "present";
      return fetches.get(name)?.problem ?? "coming";
    },
    want(targets) {
      const wanted = new Map<string, StaticTarget>();
      for (const target of targets) {
        const name = bundleName(target.digest);
        if (name !== null && !store.has(name)) wanted.set(name, target);
      }
      for (const [name, fetch] of fetches) {
        if (wanted.has(name)) continue;
        fetch.abort.abort();
        fetches.delete(name);
      }
      for (const [name, target] of wanted) {
        if (fetches.has(name)) continue;
        const fetch: Fetch = { problem: null, abort: new AbortController(), done: Promise.resolve() };
        fetches.set(name, fetch);
        fetch.done = bring(name, target, fetch);
      }
    },
    async [Symbol.asyncDispose]() {
      const running = [...fetches.values()];
      fetches.clear();
      for (const { abort } of running) abort.abort();
      await Promise.all(running.map(({ done }) => done));
    },
  };
}

function problemOf(cause: unknown): NonNullable<FetchProblem> {
  if (cause instanceof BundleRefusedError) return { problem: cause.message, final: true };
  if (cause instanceof RegistryError)
    return { problem: `its files could not be fetched (${cause.code})`, final: false };
  return { problem: "its files could not be put in place", final: false };
}
