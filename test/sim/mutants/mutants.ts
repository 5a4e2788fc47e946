import { isRunOver } from "@svc/control/fleet/cluster/keys";
import { clean } from "@svc/control/fleet/routes/dirty";
import type { SessionKey } from "@svc/control/fleet/sessions/session-key";
import type { Guard } from "@svc/control/stores/etcd/txn";
import { granted, type Validity } from "@svc/control/stores/etcd/validity";
import { type Footing, soundFooting } from "../machines/footing.ts";
import { databaseMutants } from "./databases.ts";
import type { Patches } from "./door.ts";
import { jobMutants } from "./jobs.ts";

/** A bug that somebody could make. */
export interface Mutant {
  /** What it breaks, for people. */
  breaks: string;
  /**
   * Where few seeds find it, one that did: the suite looks there first, and goes on from there. It stays true as long as the
   * decisions that are simulated take the same turns; when it finds nothing any more, the suite names another one.
   */
  foundBySeed?: number;
  /** In a module of the product. Made anew for every run, so that what it remembers is of that run only. */
  patches?: Patches;
  /** In what agents stand on. Likewise. */
  footing?: Partial<Footing>;
}

const lateLease = (validity: Validity, ttlMs: number): Validity => ({ ...validity, untilMs: validity.untilMs + ttlMs });

/** What marks an attempt that is said not to have started, and may. */
const unborn = "unborn";

const mutants = {
  M1: {
    breaks: "the agent stops what a complete assignment does not name",
    patches: {
      apply:
        (real) =>
        (...args) => {
          const decision = real(...args);
          if (decision.outcome !== "accept") return decision;
          return { ...decision, removes: [...decision.removes, ...decision.orphans], orphans: [] };
        },
    },
  },
  M2: {
    breaks: "a watch resumes from the revision in the header of its creation",
    foundBySeed: 50_006,
    patches: {
      stepResume: (real) => (resume, response) => {
        const step = real(resume, response);
        if (step.do !== "continue" || !response.created) return step;
        return { ...step, resume: { ...step.resume, nextRevision: (response.header?.revision ?? 0n) + 1n } };
      },
    },
  },
  M3: {
    breaks: "a lease is given up after twice its time",
    patches: {
      granted:
        (real) =>
        (...[sentAtMs, ttlMs]) =>
          lateLease(real(sentAtMs, ttlMs), ttlMs),
      answered:
        (real) =>
        (...args) => {
          const next = real(...args);
          return next === null || next === args[0] ? next : lateLease(next, next.ttlMs);
        },
    },
  },
  M4: {
    breaks: "control that was started anew takes release commands that are under way for such as never started",
    foundBySeed: 146,
    patches: {
      nextDeployStep: (real) => (facts) => {
        const { run } = facts.release;
        const isOlder =
          run !== null && !isRunOver(run.state) && Date.parse(run.changedAt) < facts.lookingSince.getTime();
        if (!isOlder) return real(facts);
        return real({ ...facts, release: { ...facts.release, run: { ...run, state: "not_started" } } });
      },
    },
  },
  M5: {
    breaks: "the agent accepts a complete assignment that is older than what it has",
    foundBySeed: 77,
    patches: {
      apply: (real) => (chain, held, assign) =>
        real(assign.appliesTo === "" ? { ...chain, resultsIn: "", leaderEpoch: 0n } : chain, held, assign),
    },
  },
  M6: {
    breaks: "a grant that is not confirmed at once is given to another node",
    patches: {
      nextDeployStep: (real) => (facts) => {
        const { run } = facts.release;
        const isSlow = run?.state === "granted" && facts.now.getTime() - Date.parse(run.changedAt) > 3_000;
        if (!isSlow) return real(facts);
        return real({ ...facts, release: { ...facts.release, run: { ...run, state: "not_started" } } });
      },
    },
  },
  M7: {
    breaks: "old containers are removed before the edges have the new table",
    foundBySeed: 40,
    patches: { edgesFollowing: () => (_, edges) => edges.length },
  },
  M8: {
    breaks: "what a session writes is guarded by whichever session is there",
    patches: {
      takeSessionKey:
        (real) =>
        async (...args) => {
          const [{ etcd }, { key: at }] = args;
          const write: SessionKey["write"] = async (ops, guards = []) => {
            const present = await etcd.get(at);
            const guard: Guard =
              present === null
                ? { key: at, compare: "absent" }
                : { key: at, compare: "modRevision", value: present.modRevision };
            return etcd.txn({ guards: [guard, ...guards], ops, orElse: [{ get: { key: at } }] });
          };
          return {
            epoch: (await real(...args)).epoch,
            write,
            update: async (value) => void (await write([{ put: { key: at, value } }])),
            release: async () => void (await write([{ delete: { key: at } }]).catch(() => {})),
          };
        },
    },
  },
  M9: {
    breaks: "the holder of a lease counts from when the answer came",
    foundBySeed: 50_233,
    patches: {
      answered: (real) => (validity, ttlSeconds, nowMs) => {
        const next = real(validity, ttlSeconds, nowMs);
        return next === null || next === validity ? next : granted(nowMs, next.ttlMs);
      },
    },
  },
  M10: {
    breaks: "control does not begin anew when an agent asks for it",
    foundBySeed: 10,
    patches: {
      assignAnswered: (real) => (outbox, answer) =>
        answer.resync ? { ...outbox, waitsFor: null } : real(outbox, answer),
    },
  },
  M11: {
    breaks: "the agent acts before its journal is on disk",
    footing: { syncsJournal: false },
  },
  M12: {
    breaks: "the room of containers on a node that was not heard for a while counts as free",
    patches: {
      schedule: (real) => {
        const freed = new Set<string>();
        return (state) => {
          const away = new Set(
            state.nodes.filter(({ link }) => link === "unreachable" || link === "unknown").map(({ id }) => id),
          );
          for (const { placementId, nodeId } of state.placed.values()) if (away.has(nodeId)) freed.add(placementId);
          const observed = new Map(state.observed);
          for (const id of freed) {
            const seen = observed.get(id);
            if (seen !== undefined && seen.observed !== "removed") observed.set(id, { ...seen, observed: "failed" });
          }
          return real({ ...state, observed });
        };
      },
    },
  },
  M13: {
    breaks: "a restarted agent says that an attempt did not start without writing a tombstone first",
    patches: {
      nextRun: (real) => (record, event) => {
        const isUnborn = event.kind === "recovered" && (record.state === "offer" || record.state === "intent");
        return isUnborn ? { ...record, state: "offer", message: unborn } : real(record, event);
      },
      toStatus: (real) => (record) =>
        real(record.state === "offer" && record.message === unborn ? { ...record, state: "tombstone" } : record),
    },
  },
  M14: {
    breaks: "the agent does not write down that it tells the engine to start",
    footing: {
      journal: (journal) => ({
        ...journal,
        saveRun: (record) => {
          if (record.state !== "start-sent" || record.startedAt !== "") journal.saveRun(record);
        },
      }),
    },
  },
  M15: {
    breaks: "a container that has not started yet is taken for one that never will, and its gate is not shut",
    foundBySeed: 20_722,
    patches: {
      judge: (real) => (situation) => (real(situation) === "shut" ? "never" : real(situation)),
      nextRun: (real) => (record, event) => {
        const isUnborn = event.kind === "recovered" && event.container === "created" && record.state === "start-sent";
        return isUnborn ? { ...record, state: "tombstone", message: "" } : real(record, event);
      },
    },
  },
  M16: {
    breaks: "the engine removes the container of a command when it ends, and its absence counts as never started",
    foundBySeed: 46,
    patches: {
      nextRun: (real) => (record, event) => {
        const isGone = event.kind === "recovered" && event.container === "absent" && record.state === "start-sent";
        return isGone ? { ...record, state: "tombstone", message: "" } : real(record, event);
      },
    },
    footing: { keepsRunContainers: false },
  },
  M17: {
    breaks: "the agent ends at once what may serve what is open for a while",
    patches: { nextStep: (real) => (view) => real({ ...view, drainMs: 0 }) },
  },
  M18: {
    breaks: "a drain ends only when nothing is open any more",
    patches: {
      nextStep: (real) => (view) => real({ ...view, drainMs: view.drainMs === 0 ? 0 : 24 * 3_600_000 }),
    },
  },
  M19: {
    breaks: "a stop does not hold what is on its way",
    patches: {
      requestLifecycle:
        (real) =>
        (...args) => {
          const [{ tables }, projectId] = args;
          const asked = real(...args);
          for (const row of tables.deployments.values()) if (row.projectId === projectId) row.heldAt = null;
          return asked;
        },
    },
  },
  M20: {
    breaks: "an edge takes a complete table that is older than what it has",
    foundBySeed: 184,
    patches: {
      decide: (real) => (known, whole, message) => {
        const decision = real(known, whole, message);
        const isOlder = "refuse" in decision && message.clusterEpoch === known.clusterEpoch && !decision.resync;
        return isOlder ? real({ ...known, generation: 0n }, whole, message) : decision;
      },
    },
  },
  M21: {
    breaks: "an edge reports a table before it is on its disk",
    patches: {
      createTableStore: (real) => (file, log) => {
        const store = real(file, log);
        let last: Promise<unknown> = Promise.resolve();
        return {
          ...store,
          save: async (kept, changed) => {
            const copy = { ...kept, table: { ...kept.table, routes: new Map(kept.table.routes) } };
            const hosts = [...changed];
            last = last.then(() => store.save(copy, hosts)).catch(() => {});
          },
        };
      },
    },
  },
  M22: {
    breaks: "an edge takes for told what Caddy's module has not answered",
    patches: {
      createTableFeed:
        (real) =>
        (...args) => {
          const feed = real(...args);
          return { ...feed, tell: async (hosts) => void feed.tell([...hosts]).catch(() => {}) };
        },
    },
  },
  M23: {
    breaks: "a router that was started anew numbers its entries from the beginning again",
    patches: { nextSequence: (real) => () => real(new Map()) },
  },
  M24: {
    breaks: "a container that changes does not tell whoever publishes routes",
    foundBySeed: 11,
    patches: { dirtyByKeys: () => () => clean },
  },
  M25: {
    breaks: "a look at some sites leaves hosts as they are that are published already",
    patches: {
      tableChange: (real) => (published, facts, about) => {
        const change = real(published, facts, about);
        if (about === undefined) return change;
        return { ...change, upserts: change.upserts.filter(({ host }) => !published.has(host)) };
      },
    },
  },
  M26: {
    breaks: "a deployment takes the traffic while its release command runs",
    patches: {
      nextDeployStep: (real) => (facts) =>
        real(
          facts.release.run?.state === "started"
            ? { ...facts, release: { ...facts.release, status: "succeeded" } }
            : facts,
        ),
    },
  },
  M27: {
    breaks: "an edge whose drain is canceled stays as far as it was with it",
    foundBySeed: 128,
    patches: {
      nextPhase:
        (real) =>
        (...[at, place, waits]) =>
          place.leave ? real(at, place, waits) : at.phase,
    },
  },
  M28: {
    breaks: "an edge lets visitors come as soon as it has a table, whether it is in rotation or not",
    patches: { unreadyReason: (real) => (health) => real({ ...health, inRotation: true }) },
  },
  ...jobMutants,
  ...databaseMutants,
} satisfies Record<string, Mutant>;

export type MutantName = keyof typeof mutants;
export const mutantNames = Object.keys(mutants) as MutantName[];
export const isMutantName = (name: string): name is MutantName => Object.hasOwn(mutants, name);
export const whatBreaks = (name: MutantName): string => mutants[name].breaks;
/** The seed to begin with when it is to be found soon. */
export const firstSeedOf = (name: MutantName): number => (mutants[name] as Mutant).foundBySeed ?? 1;

/** Everything as it is, but for one bug. */
export function mutated(name: MutantName): { footing: Footing; patches: Patches } {
  const { footing, patches = {} }: Mutant = mutants[name];
  return { footing: { ...soundFooting, ...footing }, patches };
}
