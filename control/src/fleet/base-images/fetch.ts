import { limits, parseBaseImage } from "@svc/proto";
import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Content } from "../artifacts/rules.ts";
import type { ReferenceRules } from "../images/reference.ts";
import { type ResolveAddresses, systemAddresses } from "../images/resolve.ts";
import type { Platform } from "../images/rules.ts";
import { createAdmission } from "./admission.ts";
import { BaseImageRefused, type CopyDeps, copyBaseImage, isCopied } from "./copy.ts";
import { createJobs } from "./jobs.ts";
import type { BaseImageRefusal } from "./rules.ts";
import { noteUse } from "./store.ts";

export interface BaseImageRequest {
  /** The account whose build asks. */
  ownerId: string;
  reference: string;
  platform: Platform;
}

/** The copy in the cluster's registry, or why there is none; null: not yet. */
export type BaseImageAnswer = Content | { refusal: BaseImageRefusal } | null;

/** Of work that is shared: who is refused, null for everybody. */
type Outcome = Content | { refusal: BaseImageRefusal; refusedTo: string | null } | null;

export interface BaseImages extends AsyncDisposable {
  /** Answers within seconds. Whoever gets null asks again. */
  fetch(request: BaseImageRequest): Promise<BaseImageAnswer>;
}

export interface BaseImagesDeps {
  clock: Clock;
  db: Db;
  log: Log;
  /** The cluster's registry. */
  registry: Registry;
  rules: ReferenceRules;
  /** The operator's own, which may come from where nobody else's may, and wait for nobody. */
  operators: readonly string[];
  /** By default as the system resolves names. */
  resolve?: ResolveAddresses;
  /** Other bounds, for tests. */
  bounds?: Partial<Bounds>;
}

interface Bounds extends Pick<CopyDeps, "limitMs" | "maxImageMb" | "maxMbPerAccount"> {
  /** How long one question takes. */
  patienceMs: number;
}

const boundsUsed: Bounds = {
  limitMs: limits.pullSecondsMax * 1000,
  maxImageMb: limits.baseImageMbMax,
  maxMbPerAccount: limits.baseImagesMbPerAccount,
  patienceMs: 5_000,
};
/** Together some tens of MB of memory. */
const copies = { total: 3, perKey: 2 };
/** Images that are looked at in somebody's registry, copied, or wait for the copy. */
const inside = { total: 8, perKey: 3, patienceMs: 10_000 };
const forgottenMs = 60_000;
/** A tag is looked up no more often: registries count that. A digest says the same for ever. */
const tagKeptMs = 600_000;
/** Long enough for those who ask now and again; whoever deploys again after a mistake of a registry's asks anew. */
const refusalKeptMs = 5_000;

/**
 * Copies of base images, each made once however many builds ask for it at the same time, on this replica. Another
 * replica may be at the same: both store the same content.
 */
export function createBaseImages(deps: BaseImagesDeps): BaseImages {
  const { clock, db, registry, log, rules, resolve = systemAddresses } = deps;
  const { patienceMs, ...bounds } = { ...boundsUsed, ...deps.bounds };
  const copying: CopyDeps = { clock, db, registry, log, rules, resolve, limiter: createLimiter(copies), ...bounds };
  const operators = new Set(
    deps.operators.map(parseBaseImage).flatMap((each) => ("canonical" in each ? [each.canonical] : [])),
  );
  const copyingOperators = (host: string): CopyDeps => ({
    ...copying,
    rules: { ...rules, allow: [...rules.allow, host] },
    limiter: (work) => work(),
  });
  const admission = createAdmission(inside);
  const jobs = createJobs<Outcome>({ clock, patienceMs, forgottenMs }, (outcome) => {
    if (outcome === null) return 0;
    if ("digest" in outcome) return tagKeptMs;
    // What is refused one account is of no use to the next that asks.
    return outcome.refusedTo === null ? refusalKeptMs : 0;
  });

  return {
    async fetch({ ownerId, reference: text, platform }) {
      const reference = parseBaseImage(text);
      if ("problem" in reference) return { refusal: { code: "OCI_REGISTRY_BLOCKED", message: reference.problem } };
      const { canonical, registry: host } = reference;
      const key = `${canonical} ${platform.os}/${platform.architecture}`;
      const isOperators = operators.has(canonical);
      const answer = await jobs.ask(key, async (signal) => {
        // Only what is to come from somebody's registry waits for others that do.
        const needsPlace = !isOperators && !(await isCopied(copying, reference, signal));
        using place = needsPlace ? admission.admit(ownerId, key, clock.steadyMs()) : null;
        if (needsPlace && place === null) return null;
        try {
          return isOperators
            ? await copyBaseImage(copyingOperators(host), { reference, platform, ownerId: null }, signal)
            : await copyBaseImage(copying, { reference, platform, ownerId }, signal);
        } catch (error) {
          if (error instanceof BaseImageRefused) return { refusal: error.refusal, refusedTo: error.ownerId };
          throw error;
        }
      });
      if (answer === null) return null;
      if ("refusal" in answer) {
        const { refusal, refusedTo } = answer;
        return refusedTo === null || refusedTo === ownerId ? { refusal } : null;
      }
      if (await noteUse(db, answer)) return answer;
      // Somebody deleted it since.
      jobs.forget(key);
      return null;
    },
    [Symbol.asyncDispose]: () => jobs[Symbol.asyncDispose](),
  };
}
