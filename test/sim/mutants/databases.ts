import type { Mutant } from "./mutants.ts";

/** Bugs of what is done for databases. */
export const databaseMutants = {
  D1: {
    breaks: "a database gets its next server while the one before may run still",
    foundBySeed: 1_115,
    patches: {
      nextBranchStep: (real) => (facts) => {
        const step = real(facts);
        return step.do === "wait" && step.for === "the server before to end" ? { do: "startServer" } : step;
      },
      hasNoServer: (real) => (tx, branch) =>
        real(tx, branch) || tx.tables.branches.serversOf(branch.id).every(({ desired }) => desired === "removed"),
    },
  },
  D3: {
    breaks: "a database's server starts after a reboot although nobody has named it since",
    foundBySeed: 1_008,
    patches: { nextStep: (real) => (view, kind) => real({ ...view, isGranted: true }, kind) },
  },
  D4: {
    breaks: "data that is missing is made anew, also for a database that was in use",
    foundBySeed: 1_093,
    patches: {
      databaseTask:
        (real) =>
        (...args) => {
          const task = real(...args);
          return { ...task, spec: { ...task.spec, init: true } };
        },
    },
  },
  D5: {
    breaks: "the volume that a database had before a change goes as soon as it has the next one",
    foundBySeed: 25,
    patches: {
      volumesToRemove: (real) => (volumes) =>
        real(
          volumes.map((each) => (each.isOver && each.isChanging ? { ...each, isDue: true, isChanging: false } : each)),
        ),
    },
  },
  D6: {
    breaks: "another password is kept before the server has it, and nobody looks whether it came to it",
    foundBySeed: 50_005,
    patches: {
      tenantWork: (real) => (deps) => {
        const quiet = real({ ...deps, rows: { ...deps.rows, cutOff: async () => {} } });
        return { ...real(deps), bring: async (...args) => void quiet.bring(...args).catch(() => {}) };
      },
    },
  },
  D7: {
    breaks: "a backup is complete when what packs it has ended well, however its dumper did",
    foundBySeed: 9,
    patches: { dumpProblem: () => () => null },
  },
  D8: {
    breaks:
      "whether a backup is under way is looked at before another request has begun its own, and no index holds the slot",
    foundBySeed: 9,
    patches: {
      isSlotTaken: () => () => false,
      countBackups: (real) => {
        const looks = new Map<string, { at: Date; found: ReturnType<typeof real> }>();
        return (tx, projectId) => {
          const last = looks.get(projectId);
          const isFresh = last !== undefined && tx.now.getTime() - last.at.getTime() < 20;
          if (!isFresh) looks.set(projectId, { at: tx.now, found: real(tx, projectId) });
          return (isFresh ? last : looks.get(projectId))?.found ?? real(tx, projectId);
        };
      },
    },
  },
  D9: {
    breaks: "a copy on a better machine takes the place of the one before without having what that one has",
    foundBySeed: 73,
    patches: { isFollowing: () => () => true },
  },
  D10: {
    breaks: "the copy on a worse machine ends as soon as one is begun on a better one",
    foundBySeed: 73,
    patches: {
      nextCopiesStep: (real) => (facts) => {
        const [keeper, successor] = (["keeper", "successor"] as const).map((purpose) =>
          facts.copies.find((copy) => copy.purpose === purpose),
        );
        if (keeper === undefined || successor === undefined) return real(facts);
        return { do: "end", copyId: keeper.id, purpose: "keeper", why: "there is a better one" };
      },
    },
  },
  D11: {
    breaks: "the volume of a dropped database goes before its time",
    foundBySeed: 1_003,
    patches: { volumesToRemove: (real) => (volumes) => real(volumes.map((each) => ({ ...each, isDue: each.isOver }))) },
  },
  D12: {
    breaks: "the server of a database that moves ends before the copy has everything",
    foundBySeed: 69,
    patches: {
      nextChangeStep: (real) => (facts) =>
        real(facts.copy === null ? facts : { ...facts, copy: { ...facts.copy, hasFrozen: true } }),
    },
  },
} satisfies Record<string, Mutant>;
