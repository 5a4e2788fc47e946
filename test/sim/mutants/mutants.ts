import type { Validity } from "@svc/control/stores/etcd/validity";
import { type Cores, realCores } from "../cores.ts";

/** A bug that somebody could make, as a test double of the core or of the shell that would have it. */
interface Mutant {
  /** What it breaks, for people. */
  breaks: string;
  /**
   * Where few seeds find it, one that did: the suite looks there first, and goes on from there. It stays true as long as the
   * decisions that are simulated take the same turns; when it finds nothing any more, the suite names another one.
   */
  foundBySeed?: number;
  /** Called for every run anew, so that what a double remembers is of that run only. */
  double(real: Cores): Cores;
}

const lateLease = (validity: Validity, ttlMs: number): Validity => ({ ...validity, untilMs: validity.untilMs + ttlMs });

const mutants = {
  M1: {
    breaks: "the agent stops what a complete assignment does not name",
    double: (real) => ({
      ...real,
      apply: (...args: Parameters<Cores["apply"]>) => {
        const decision = real.apply(...args);
        if (decision.outcome !== "accept") return decision;
        return { ...decision, removes: [...decision.removes, ...decision.orphans], orphans: [] };
      },
    }),
  },
  M2: {
    breaks: "a watch resumes from the revision in the header of its creation",
    double: (real) => ({
      ...real,
      stepResume: (...[resume, response]: Parameters<Cores["stepResume"]>) => {
        const step = real.stepResume(resume, response);
        if (step.do !== "continue" || !response.created) return step;
        return { ...step, resume: { ...step.resume, nextRevision: (response.header?.revision ?? 0n) + 1n } };
      },
    }),
  },
  M3: {
    breaks: "a lease is given up after twice its time",
    double: (real) => ({
      ...real,
      lease: {
        ...real.lease,
        granted: (sentAtMs, ttlMs) => lateLease(real.lease.granted(sentAtMs, ttlMs), ttlMs),
        answered: (...args) => {
          const next = real.lease.answered(...args);
          return next === null || next === args[0] ? next : lateLease(next, next.ttlMs);
        },
      },
    }),
  },
  M4: {
    breaks: "a new leader runs every release command that it finds under way",
    double: (real) => ({ ...real, shell: { ...real.shell, leavesRunsAlone: false } }),
  },
  M5: {
    breaks: "the agent accepts a complete assignment that is older than what it has",
    double: (real) => ({
      ...real,
      apply: (chain, held, assign) =>
        real.apply(assign.appliesTo === "" ? { ...chain, resultsIn: "", leaderEpoch: 0n } : chain, held, assign),
    }),
  },
  M6: {
    breaks: "a grant that is not confirmed at once is given to another node",
    double: (real) => ({
      ...real,
      nextDeployStep: (facts) => {
        const { run } = facts.release;
        const isSlow = run?.state === "granted" && facts.now.getTime() - Date.parse(run.changedAt) > 3_000;
        if (!isSlow) return real.nextDeployStep(facts);
        return real.nextDeployStep({ ...facts, release: { ...facts.release, run: { ...run, state: "not_started" } } });
      },
    }),
  },
  M7: {
    breaks: "old containers are removed before the edges have the new table",
    foundBySeed: 34,
    double: (real) => ({ ...real, shell: { ...real.shell, waitsForEdges: false } }),
  },
  M8: {
    breaks: "reports are written without the guard of the session",
    double: (real) => ({ ...real, shell: { ...real.shell, guardsSessions: false } }),
  },
  M9: {
    breaks: "the holder of a lease counts from when the answer came",
    foundBySeed: 61,
    double: (real) => ({
      ...real,
      lease: {
        ...real.lease,
        answered: (validity, ttlSeconds, nowMs) => {
          const next = real.lease.answered(validity, ttlSeconds, nowMs);
          return next === null || next === validity ? next : real.lease.granted(nowMs, next.ttlMs);
        },
      },
    }),
  },
  M10: {
    breaks: "control does not begin anew when an agent asks for it",
    foundBySeed: 18,
    double: (real) => ({
      ...real,
      assignAnswered: (outbox, answer) =>
        answer.resync ? { ...outbox, waitsFor: null } : real.assignAnswered(outbox, answer),
    }),
  },
  M11: {
    breaks: "the agent acts before its journal is on disk",
    double: (real) => ({ ...real, shell: { ...real.shell, syncsJournal: false } }),
  },
  M12: {
    breaks: "the room of containers on a node that was not heard for a while counts as free",
    double: (real) => {
      const freed = new Set<string>();
      return {
        ...real,
        schedule: (state) => {
          const away = new Set(
            state.nodes.filter(({ link }) => link === "unreachable" || link === "unknown").map(({ id }) => id),
          );
          for (const { placementId, nodeId } of state.placed.values()) if (away.has(nodeId)) freed.add(placementId);
          const observed = new Map(state.observed);
          for (const id of freed) {
            const seen = observed.get(id);
            if (seen !== undefined && seen.observed !== "removed") observed.set(id, { ...seen, observed: "failed" });
          }
          return real.schedule({ ...state, observed });
        },
      };
    },
  },
  M13: {
    breaks: "a restarted agent says that an attempt did not start without writing a tombstone first",
    double: (real) => ({ ...real, shell: { ...real.shell, saysNotStartedWithoutTombstone: true } }),
  },
  M14: {
    breaks: "the agent does not write down that it tells the engine to start",
    double: (real) => ({ ...real, shell: { ...real.shell, journalsRun: (kind: string) => kind !== "starting" } }),
  },
  M15: {
    breaks: "a container that has not started yet is taken for one that never will, and its gate is not shut",
    foundBySeed: 413,
    double: (real) => ({
      ...real,
      judge: (situation) => (real.judge(situation) === "shut" ? "never" : real.judge(situation)),
      nextRun: (record, event) => {
        const isUnborn = event.kind === "recovered" && event.container === "created" && record.state === "start-sent";
        return isUnborn ? { ...record, state: "tombstone", message: "" } : real.nextRun(record, event);
      },
    }),
  },
  M16: {
    breaks: "the engine removes the container of a command when it ends, and its absence counts as never started",
    double: (real) => ({
      ...real,
      nextRun: (record, event) => {
        const isGone = event.kind === "recovered" && event.container === "absent" && record.state === "start-sent";
        return isGone ? { ...record, state: "tombstone", message: "" } : real.nextRun(record, event);
      },
      shell: { ...real.shell, keepsRunContainers: false },
    }),
  },
  M17: {
    breaks: "the agent ends at once what may serve what is open for a while",
    double: (real) => ({ ...real, nextStep: (view) => real.nextStep({ ...view, drainMs: 0 }) }),
  },
  M18: {
    breaks: "a drain ends only when nothing is open any more",
    double: (real) => ({
      ...real,
      nextStep: (view) => real.nextStep({ ...view, drainMs: view.drainMs === 0 ? 0 : 24 * 3_600_000 }),
    }),
  },
  M19: {
    breaks: "a stop does not hold what is on its way",
    double: (real) => ({ ...real, shell: { ...real.shell, stopsCoverOpen: false } }),
  },
} satisfies Record<string, Mutant>;

export type MutantName = keyof typeof mutants;
export const mutantNames = Object.keys(mutants) as MutantName[];
export const isMutantName = (name: string): name is MutantName => Object.hasOwn(mutants, name);
export const whatBreaks = (name: MutantName): string => mutants[name].breaks;
/** The seed to begin with when it is to be found soon. */
export const firstSeedOf = (name: MutantName): number => (mutants[name] as Mutant).foundBySeed ?? 1;

/** The cores with one bug in them. */
export const mutated = (name: MutantName): Cores => (mutants[name] as Mutant).double(realCores);
