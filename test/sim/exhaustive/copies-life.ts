import {
  type CopiesFacts,
  type CopiesStep,
  lackingMaxMs,
  nextCopiesStep,
} from "@svc/control/tenants/databases/copies/steps";
import type { Model } from "./explore.ts";

/**
 * The copies of one branch on two nodes, a worker and one that has stalled, agents that may be killed, and whoever gives the branch
 * another volume or suspends it: real `nextCopiesStep`. A worker reads and decides, and writes some time later, by which
 * time anything may have happened; or it dies. What a step writes looks again as the effects do.
 */
interface State {
  generation: 1 | 2;
  isSuspended: boolean;
  /** Of those that could keep a copy: n1 has the data. */
  nodes: readonly NodeOf[];
  copies: readonly CopyOf[];
  /** Ids of copies that the server keeps its log for. */
  slots: readonly string[];
  /** Something could be restored from a copy of the volume of now, and nobody took away the last node that had one. */
  hadBase: boolean;
  /** One that followed gave way to one that does not. */
  hasGivenWay: boolean;
  workers: readonly CopiesStep[];
  /** Copies that were begun. */
  begun: number;
}

interface NodeOf {
  id: string;
  tier: 1 | 2 | 3;
  is: "absent" | "there" | "gone";
}

interface CopyOf {
  id: string;
  purpose: "keeper" | "successor" | "move";
  generation: number;
  nodeId: string;
  state: "basing" | "following" | "broken" | "ended";
  hasBase: boolean;
  isReleased: boolean;
  /** Tasks that keep it and are not over. */
  keepers: readonly { wanted: boolean; runs: boolean }[];
}

export type CopiesMutant =
  | "gives up the one before at once"
  | "does not look whether the successor follows"
  | "starts a keeper without looking again"
  | "begins without looking again"
  | "releases the log of one that is still kept"
  | "ends what has become whole as if it had nothing";

const begunMax = 3;
const isOpen = ({ state }: CopyOf): boolean => state !== "ended";

export function copiesLife(mutant: CopiesMutant | null): Model<State> {
  const nodeOf = ({ nodes }: State, id: string): NodeOf => {
    const node = nodes.find((each) => each.id === id);
    if (node === undefined) throw new Error(`there is no node ${id}`);
    return node;
  };

  function factsOf(state: State): CopiesFacts {
    const open = state.copies.filter(isOpen);
    const [best] = state.nodes
      .filter(({ id, is }) => is === "there" && !open.some(({ nodeId }) => nodeId === id))
      .toSorted((a, b) => b.tier - a.tier);
    return {
      ...{ isWanted: true, status: "ready", generation: state.generation, suspended: state.isSuspended },
      ...{ projectGone: false, isServing: !state.isSuspended, isChanging: false, hasPassword: true },
      mayHoldLog: state.copies.some((copy) => mayRelease(state, copy)),
      best: best === undefined ? null : { nodeId: best.id, tier: best.tier },
      copies: open.map((copy) => {
        const { id, purpose, generation, nodeId } = copy;
        const { tier, is } = nodeOf(state, nodeId);
        return {
          ...{ id, purpose, generation, nodeId, tier, nodeGone: is === "gone", nodeLeaving: false },
          state: copy.state === "ended" ? "broken" : copy.state,
          isFresh: copy.state === "following" && is === "there",
          // The first that is broken may have been so for any time; more of them would be more of the same.
          ...{
            ageMs: 0,
            isLetIn: true,
            isTooLarge: false,
            lackingMs: copy.state === "broken" && id === "c0" ? lackingMaxMs : 0,
          },
          keepers: copy.keepers.map(({ wanted }, at) => ({
            taskId: String(at),
            wanted,
            failed: false,
            isCurrent: true,
            ageMs: 0,
          })),
        };
      }),
    };
  }

  const mayRelease = ({ generation }: State, copy: CopyOf): boolean =>
    !isOpen(copy) &&
    copy.generation === generation &&
    !copy.isReleased &&
    (copy.keepers.length === 0 || mutant === "releases the log of one that is still kept");

  const change = (state: State, id: string, how: (copy: CopyOf) => CopyOf): State => ({
    ...state,
    copies: state.copies.map((copy) => (copy.id === id ? how(copy) : copy)),
  });
  const ended = (copy: CopyOf): CopyOf => ({
    ...{ ...copy, state: "ended" },
    keepers: copy.keepers.map((keeper) => ({ ...keeper, wanted: false })),
  });

  /** What a worker writes, as far as it still holds. */
  function write(state: State, step: CopiesStep): State {
    const find = (id: string) => state.copies.find((copy) => copy.id === id && isOpen(copy));
    switch (step.do) {
      case "begin": {
        const { purpose, nodeId } = step;
        const isThere = state.copies.some(
          (copy) => isOpen(copy) && (copy.purpose === purpose || copy.nodeId === nodeId),
        );
        if ((isThere && mutant !== "begins without looking again") || state.begun === begunMax) return state;
        const fresh: CopyOf = {
          ...{ id: `c${state.begun}`, purpose, generation: state.generation, nodeId, state: "basing" },
          ...{ hasBase: false, isReleased: false, keepers: [] },
        };
        const begun: State = { ...state, begun: state.begun + 1, copies: [...state.copies, fresh] };
        const keeper = state.copies.find((copy) => isOpen(copy) && copy.purpose === "keeper");
        const isHasty = mutant === "gives up the one before at once" && purpose === "successor" && keeper !== undefined;
        return isHasty ? drop(begun, keeper.id) : begun;
      }
      case "promote": {
        const { copyId, insteadOf } = step;
        const copy = find(copyId);
        const keeper = state.copies.find((each) => isOpen(each) && each.purpose === "keeper");
        if (copy === undefined || (keeper?.id ?? null) !== insteadOf) return state;
        const follows = copy.state === "following" || mutant === "does not look whether the successor follows";
        if (insteadOf !== null && !follows) return state;
        const promoted = change(state, copyId, (each) => ({ ...each, purpose: "keeper" }));
        if (insteadOf === null) return promoted;
        const hasGivenWay = state.hasGivenWay || (copy.state !== "following" && keeper?.state === "following");
        return { ...change(promoted, insteadOf, ended), hasGivenWay };
      }
      case "end": {
        const copy = find(step.copyId);
        if (copy?.purpose !== step.purpose) return state;
        // Without a time in which it can be restored from, it may be taken away at once.
        const isKept = copy.hasBase && mutant !== "ends what has become whole as if it had nothing";
        return isKept ? change(state, step.copyId, ended) : drop(state, step.copyId);
      }
      case "startKeeper": {
        const copy = find(step.copyId);
        const isKept = (copy?.keepers.length ?? 0) > 0 && mutant !== "starts a keeper without looking again";
        if (copy === undefined || isKept || copy.keepers.length === 2) return state;
        return change(state, step.copyId, (each) => ({
          ...each,
          keepers: [...each.keepers, { wanted: true, runs: false }],
        }));
      }
      case "removeKeepers":
        return change(state, step.copyId, (each) => ({
          ...each,
          keepers: each.keepers.map((keeper) => ({ ...keeper, wanted: false })),
        }));
      case "releaseLog": {
        const which = state.copies.filter((copy) => mayRelease(state, copy)).map(({ id }) => id);
        return {
          ...state,
          slots: state.slots.filter((id) => !which.includes(id)),
          copies: state.copies.map((copy) => (which.includes(copy.id) ? { ...copy, isReleased: true } : copy)),
        };
      }
      default:
        return state;
    }
  }
  /** Its volume goes. */
  const drop = (state: State, id: string): State => change(state, id, (copy) => ({ ...ended(copy), hasBase: false }));

  /** What is of no use and in nobody's way says nothing any more, whatever it was. */
  const settled = (state: State): State => ({
    ...state,
    copies: state.copies.map((copy) =>
      copy.state === "ended" && copy.generation < state.generation && copy.keepers.length === 0
        ? { ...copy, purpose: "keeper", nodeId: "n1", hasBase: false, isReleased: true }
        : copy,
    ),
  });

  function* fleet(state: State): Generator<readonly [string, State]> {
    for (const { id, is } of state.nodes) {
      const become = (next: NodeOf["is"]): State["nodes"] =>
        state.nodes.map((node) => (node.id === id ? { ...node, is: next } : node));
      if (is === "absent") yield [`${id} joins`, { ...state, nodes: become("there") }];
      if (is === "there" && id !== "n1") {
        const copies = state.copies.map((copy) =>
          copy.nodeId === id
            ? { ...copy, hasBase: false, keepers: copy.keepers.map((each) => ({ ...each, runs: false })) }
            : copy,
        );
        const left = copies.some(({ hasBase, generation }) => hasBase && generation === state.generation);
        yield [`${id} is lost`, { ...state, nodes: become("gone"), copies, hadBase: state.hadBase && left }];
      }
    }
    for (const copy of state.copies) {
      const { id, keepers, nodeId } = copy;
      const isThere = nodeOf(state, nodeId).is === "there";
      for (const [at, keeper] of keepers.entries()) {
        const become = (next: Partial<(typeof keepers)[number]>) =>
          change(state, id, (each) => ({ ...each, keepers: each.keepers.with(at, { ...keeper, ...next }) }));
        // Its agent may not have heard that it is to go.
        if (isThere && !keeper.runs && !state.isSuspended && copy.generation === state.generation) {
          const slots = state.slots.includes(id) ? state.slots : [...state.slots, id].sort();
          yield [`the keeper of ${id} follows the log`, { ...become({ runs: true }), slots }];
        }
        if (keeper.runs) yield [`the keeper of ${id} is killed`, become({ runs: false })];
        if (!keeper.wanted || !isThere)
          yield [
            `the keeper of ${id} is over`,
            change(state, id, (each) => ({ ...each, keepers: each.keepers.toSpliced(at, 1) })),
          ];
        if (keeper.runs && isOpen(copy) && copy.generation === state.generation) {
          if (copy.state !== "following")
            yield [
              `${id} follows`,
              { ...change(state, id, (each) => ({ ...each, state: "following", hasBase: true })), hadBase: true },
            ];
          else yield [`${id} is broken`, change(state, id, (each) => ({ ...each, state: "broken" }))];
        }
      }
    }
  }

  function* events(state: State): Generator<readonly [string, State]> {
    yield* fleet(state);

    yield [state.isSuspended ? "resume" : "suspend", { ...state, isSuspended: !state.isSuspended }];
    // A restore: another server over another volume, that keeps no log yet.
    if (state.generation === 1)
      yield ["another volume", { ...state, generation: 2, slots: [], hadBase: false, workers: [] }];
    const step = nextCopiesStep(factsOf(state));
    if (step.do !== "rest" && step.do !== "wait") {
      yield [step.do, write(state, step)];
      if (state.workers.length === 0) yield [`decide ${step.do}`, { ...state, workers: [...state.workers, step] }];
    }
    for (const [at, each] of state.workers.entries()) {
      const without = { ...state, workers: state.workers.toSpliced(at, 1) };
      yield [`${each.do} of a worker that stalled`, write(without, each)];
      yield [`a worker is killed before ${each.do}`, without];
    }
  }

  return {
    initial: {
      ...{ generation: 1, isSuspended: false, copies: [], slots: [], hadBase: false, workers: [], begun: 0 },
      hasGivenWay: false,
      nodes: [
        { id: "n1", tier: 1, is: "there" },
        { id: "n2", tier: 2, is: "absent" },
      ],
    },

    *next(state) {
      for (const [label, after] of events(state)) yield [label, settled(after)] as const;
    },

    key: ({ generation, isSuspended, nodes, copies, slots, hadBase, hasGivenWay, workers, begun }) =>
      JSON.stringify([
        ...[generation, isSuspended, hadBase, hasGivenWay, begun, slots, nodes.map(({ is }) => is), workers],
        copies.map(({ purpose, generation: of, nodeId, state, hasBase, isReleased, keepers }) => [
          ...[purpose, of, nodeId, state, hasBase, isReleased],
          keepers.map(({ wanted, runs }) => [wanted, runs]),
        ]),
      ]),

    problem(state) {
      const { copies, slots, generation, hadBase, workers, isSuspended } = state;
      const open = copies.filter(isOpen);
      if (state.hasGivenWay) return "one that followed gave way to one that does not";
      if (new Set(open.map(({ nodeId }) => nodeId)).size < open.length) return "two copies follow on one node";
      if (open.filter(({ purpose }) => purpose === "keeper").length > 1) return "two keepers' copies";
      if (copies.some(({ keepers }) => keepers.filter(({ runs }) => runs).length > 1))
        return "two keepers at one volume";
      const hasBase = copies.some((copy) => copy.hasBase && copy.generation === generation);
      if (hadBase && !hasBase) return "no copy, where one was and could have been kept";
      const isAllOver = copies.every((copy) => isOpen(copy) || copy.keepers.length === 0);
      const isQuiet = workers.length === 0 && isAllOver && !isSuspended && nextCopiesStep(factsOf(state)).do === "rest";
      const isHeld = slots.some((id) => !open.some((copy) => copy.id === id));
      return isQuiet && isHeld ? "a log that is kept for a copy that has ended" : null;
    },
  };
}
