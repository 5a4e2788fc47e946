import {
  type ChangeFacts,
  type ChangeStep,
  freezesMax,
  letInMs,
  nextChangeStep,
} from "@svc/control/tenants/databases/changes/steps";
import { type BranchStep, nextBranchStep, type ServerFacts } from "@svc/control/tenants/databases/steps";
import { uncounted } from "./branch-life.ts";
import type { Model } from "./explore.ts";

/**
 * A move and a restore of a branch that is in use, and another image for its server, on two machines: real `nextChangeStep` and `nextBranchStep`. The first machine has
 * the branch, the second a copy that follows. Two workers, of which one may have stalled or dies anywhere, an operator who cancels
 * and who declares the first machine lost, machines that reboot or go silent, database proxies that are told late.
 *
 * What was acknowledged is a number: the n-th write. A volume or a copy has all of them until some number.
 */
interface State {
  change: Change | null;
  /** So many were begun. */
  begun: number;
  branch: { status: "ready" | "error" | "provisioning"; nodeId: NodeId; generation: 1 | 2; isTenantNoted: boolean };
  /** What apps were told that it is written. */
  acknowledged: number;
  servers: readonly Server[];
  epoch: number;
  /** By generation. Null: it has no data. */
  volumes: readonly [Volume | null, Volume | null];
  copy: { has: number; isOpen: boolean };
  first: "up" | "silent" | "fenced";
  /** What the proxy of the first machine was told last. That of the second can do no harm by being late: it lets fewer in. */
  told: { epoch: number; isOpen: boolean };
  workers: readonly Worker[];
  /** What has gone wrong already, if it cannot be seen any more. */
  wrong: string | null;
}

type NodeId = "n1" | "n2";
interface Volume {
  data: number;
  /** The tenant's role may not log in. */
  isLocked: boolean;
}
type ChangeKind = ChangeFacts["kind"];
interface Change {
  /** Each has a number of its own. */
  id: number;
  kind: ChangeKind;
  state: Exclude<ChangeFacts["state"], "done" | "failed">;
  freezes: number;
  isUndoing: boolean;
  isCancelled: boolean;
  mark: number | null;
  /** What its operator was told that is kept. */
  covered: number;
}
interface Server {
  epoch: number;
  nodeId: NodeId;
  generation: 1 | 2;
  isWanted: boolean;
  isRestoring: boolean;
  is: "starting" | "serving";
  hasSession: boolean;
  /** It runs, and nobody knows: its machine was given up. */
  isForgotten: boolean;
}
/** What a worker is about to do, and what the server said; undefined before it was asked. */
interface Worker {
  step: { of: "change"; step: ChangeStep } | { of: "branch"; step: BranchStep };
  changeId: number;
  state: Change["state"] | null;
  freezes: number;
  epoch: number | null;
  said?: { mark: number; isCopied: boolean } | boolean;
  isDoubted: boolean;
  /** Another one has its place by now. */
  isStale: boolean;
}

export type ChangeMutant =
  | "goes on when the old server is silent"
  | "starts after a reboot without a grant"
  | "removes the old volume at the switch"
  | "does not wait for the copy"
  | "two changes at once"
  | "lets the tenant in before that is noted"
  | "does not look which try it was"
  | "freezes while others are at its password"
  | "makes data where some is missing"
  | "keeps the tenant out at the proxies alone";

const longMs = 1_000_000;
const writesMax = 1;
const changesMax = 2;

/** @param kinds which changes are begun */
export function databaseChange(
  mutant: ChangeMutant | null,
  kinds: readonly ChangeKind[] = ["move", "restore"],
): Model<State> {
  const isHolding = ({ change }: State) => change !== null && change.state !== "copying";

  const serversSeen = (state: State): Server[] =>
    state.servers.filter(
      ({ nodeId, isForgotten }) =>
        !isForgotten && (mutant !== "goes on when the old server is silent" || nodeId !== "n1" || state.first === "up"),
    );
  const factsOfServers = (state: State): ServerFacts[] =>
    serversSeen(state).map(({ epoch, nodeId, isWanted, is }) => ({
      ...{
        taskId: String(epoch),
        wanted: isWanted,
        nodeId,
        refused: null,
        problem: null,
        failsAgain: false,
        isDown: false,
        ageMs: longMs,
        outgrown: false,
        readOnly: false,
      },
      // Of a silent machine the last word stands.
      state: is,
    }));
  const isNodeGone = ({ branch, first }: State) => branch.nodeId === "n1" && first === "fenced";

  function changeFacts(state: State, change: Change, isLate: boolean): ChangeFacts {
    const { branch, copy } = state;
    const isUndoing = change.isUndoing || (mutant === "lets the tenant in before that is noted" && isLate);
    return {
      ...{ kind: change.kind, state: change.state, freezes: change.freezes },
      sinceMs: change.state === "restoring" && !isLate ? 0 : longMs,
      // Late is too late for the copy, and also for letting the tenant in again.
      frozenMs: isLate ? letInMs : 0,
      undoing: isUndoing ? "late" : null,
      ...{ cancelled: change.isCancelled, branch: branch.status, projectGone: false, suspended: false },
      ...{ backingUp: false, volume: null, nodeGone: isNodeGone(state), servers: factsOfServers(state) },
      copy:
        change.kind === "upgrade"
          ? null
          : {
              ...{
                state: copy.isOpen ? "following" : "ended",
                problem: null,
                nodeGone: false,
                isHere: false,
                behindMs: 0,
              },
              hasFrozen: change.mark !== null && (copy.has >= change.mark || mutant === "does not wait for the copy"),
              refusal: null,
            },
      ...{ tenantCurrent: branch.isTenantNoted, tenantMs: longMs, rotating: false },
      ...{ standsBy: false, serverStandsBy: false },
    };
  }
  const branchStep = (state: State): BranchStep =>
    uncounted(
      nextBranchStep({
        ...{ status: state.branch.status, sinceMs: 0, projectGone: false, suspended: false },
        ...{ nodeId: state.branch.nodeId, lastNodeId: state.branch.nodeId, nodeGone: isNodeGone(state) },
        servers: factsOfServers(state),
        ...{
          tenantCurrent: state.branch.isTenantNoted,
          rotating: false,
          changing: isHolding(state),
          serverFailures: 0,
        },
        ...{ readOnly: false, standsBy: true },
      }),
    );

  const hasNoServer = (state: State) => serversSeen(state).length === 0;
  const doubted = (state: State): State => ({
    ...state,
    branch: { ...state.branch, isTenantNoted: false },
    workers: state.workers.map((worker) => ({ ...worker, isDoubted: true })),
  });
  const unwant = (state: State): State => ({
    ...state,
    servers: state.servers.map((server) => ({ ...server, isWanted: false })),
  });
  const start = (state: State, isRestoring: boolean): State => {
    const epoch = state.epoch + 1;
    const { nodeId, generation } = state.branch;
    const server: Server = {
      ...{
        epoch,
        nodeId,
        generation,
        isWanted: true,
        isRestoring,
        is: "starting",
        hasSession: false,
        isForgotten: false,
      },
    };
    return { ...state, epoch, servers: [...state.servers, server] };
  };
  const ended = (state: State): State => ({ ...state, change: null });

  function switchOver(state: State, change: Change): State {
    const { branch, copy, volumes } = state;
    if (!hasNoServer(state) || branch.generation !== 1 || change.isCancelled) return state;
    if (change.kind === "upgrade") return start({ ...state, change: { ...change, state: "restoring" } }, false);
    const kept = mutant === "removes the old volume at the switch" ? null : volumes[0];
    return start(
      {
        ...doubted(state),
        change: { ...change, state: "restoring" },
        copy: { ...copy, isOpen: false },
        volumes: [kept, null],
        branch: {
          ...{ nodeId: "n2", generation: 2, isTenantNoted: false },
          status: branch.status === "error" ? "provisioning" : branch.status,
        },
      },
      true,
    );
  }

  /** What becomes of what a worker has decided and asked, under the lock and only where it still holds. */
  function note(state: State, worker: Worker): State {
    const { step, said, isDoubted } = worker;
    if (step.of === "branch") return noteBranch(state, step.step, isDoubted);
    const { change } = state;
    const isSame =
      change?.id === worker.changeId &&
      change.state === worker.state &&
      (change.freezes === worker.freezes || mutant === "does not look which try it was");
    if (step.step.do === "freeze") return noteFrozen(state, isSame ? change : null, said);
    if (step.step.do === "bringTenant")
      return isDoubted ? doubted(state) : { ...state, branch: { ...state.branch, isTenantNoted: true } };
    if (change === null || !isSame) return state;
    switch (step.step.do) {
      case "beginFreeze": {
        const isBusy = state.workers.some(
          ({ step: { step: other } }) => other.do === "bringTenant" || other.do === "thaw",
        );
        // Time has passed since the tenant was let in: whoever was at it has given up.
        if (isBusy && mutant !== "freezes while others are at its password") return state;
        if (state.branch.status !== "ready" || !state.branch.isTenantNoted || change.isCancelled) return state;
        return { ...state, change: { ...change, state: "freezing", freezes: change.freezes + 1 } };
      }
      case "stop":
        if (change.isUndoing) return state;
        return unwant({ ...state, change: { ...change, state: "stopping" } });
      case "undo":
        return { ...state, change: { ...change, isUndoing: true } };
      case "thaw":
      case "leave": {
        const open =
          step.step.do === "thaw" && !isDoubted
            ? { ...state, branch: { ...state.branch, isTenantNoted: true } }
            : doubted(state);
        if (step.step.to === "failed") return ended(open);
        return { ...open, change: { ...change, state: "copying", isUndoing: false, mark: null } };
      }
      case "removeServers":
        return unwant(state);
      case "switch":
        return switchOver(state, change);
      case "startServer":
        return hasNoServer(state) ? start(state, change.kind !== "upgrade") : state;
      case "proveLogin": {
        if (said !== true) return doubted(state);
        if (isDoubted || !state.branch.isTenantNoted) return state;
        return ended({ ...state, branch: { ...state.branch, status: "ready" } });
      }
      case "fail": {
        const isLost = change.state === "restoring" && change.kind !== "upgrade";
        const left = change.state === "copying" ? state : doubted(state);
        return ended(isLost ? { ...left, branch: { ...left.branch, status: "error" } } : left);
      }
      default:
        return state;
    }
  }

  function noteFrozen(state: State, change: Change | null, said: Worker["said"]): State {
    if (change === null) return doubted(state);
    if (change.isUndoing) return doubted(state);
    if (typeof said !== "object") return state;
    const isCopied = said.isCopied || mutant === "does not wait for the copy";
    const after: State = {
      ...state,
      change: { ...change, mark: said.mark, state: isCopied ? "stopping" : "draining" },
    };
    return isCopied ? unwant(after) : after;
  }

  function noteBranch(state: State, step: BranchStep, isDoubted: boolean): State {
    switch (step.do) {
      case "startServer":
        return hasNoServer(state) && !isHolding(state) ? start(state, false) : state;
      case "removeServers":
        return {
          ...state,
          servers: state.servers.map((server) =>
            step.taskIds.includes(String(server.epoch)) ? { ...server, isWanted: false } : server,
          ),
        };
      case "bringTenant":
        return isDoubted ? doubted(state) : { ...state, branch: { ...state.branch, isTenantNoted: true } };
      case "fail":
        // Under the lock: nobody has it in hands by now.
        return isHolding(state) ? state : { ...state, branch: { ...state.branch, status: "error" } };
      default:
        return state;
    }
  }

  const setVolume = (state: State, generation: 1 | 2, volume: Volume): State => ({
    ...state,
    volumes: generation === 1 ? [volume, state.volumes[1]] : [state.volumes[0], volume],
  });

  /** What the worker asks of the server comes to this; null: nobody answers. */
  function ask(state: State, { step: { step }, epoch }: Worker): [State, NonNullable<Worker["said"]>] | null {
    const server = state.servers.find((each) => each.epoch === epoch && each.is === "serving");
    const volume = server && state.volumes[server.generation - 1];
    if (!server || !volume || (server.nodeId === "n1" && state.first !== "up")) return null;
    if (step.do === "freeze") {
      const servers = state.servers.map((each) => (each === server ? { ...each, hasSession: false } : each));
      const { data } = volume;
      const after = setVolume({ ...state, servers }, server.generation, {
        data,
        isLocked: mutant !== "keeps the tenant out at the proxies alone",
      });
      return [after, { mark: data, isCopied: state.copy.has >= data }];
    }
    if (step.do === "proveLogin") return [state, !volume.isLocked];
    return [setVolume(state, server.generation, { ...volume, isLocked: false }), true];
  }
  const asksServer = ({ step: { step } }: Worker) =>
    step.do === "freeze" || step.do === "thaw" || step.do === "bringTenant" || step.do === "proveLogin";

  function* decided(state: State): Generator<Worker> {
    const { change } = state;
    const epoch = serversSeen(state).find(({ isWanted }) => isWanted)?.epoch ?? null;
    const of = {
      changeId: change?.id ?? 0,
      state: change?.state ?? null,
      freezes: change?.freezes ?? 0,
      epoch,
      isDoubted: false,
      isStale: false,
    };
    const mayBeLate =
      change?.state === "freezing" ||
      change?.state === "draining" ||
      (change?.state === "restoring" && change.kind === "upgrade");
    for (const isLate of mayBeLate ? [false, true] : [false]) {
      if (change === null) break;
      const step = nextChangeStep(changeFacts(state, change, isLate));
      if (step.do !== "wait" && step.do !== "end") yield { ...of, step: { of: "change", step } };
    }
    const step = branchStep(state);
    if (step.do !== "wait" && step.do !== "end" && step.do !== "proveLogin")
      yield { ...of, step: { of: "branch", step } };
  }

  const replaced = ({ workers }: State, { step: { of } }: Worker) =>
    workers.map((other) => (other.step.of === of ? { ...other, isStale: true } : other));

  function* work(state: State): Generator<readonly [string, State]> {
    for (const worker of decided(state)) {
      const { do: name } = worker.step.step;
      if (!asksServer(worker)) yield [name, note({ ...state, workers: replaced(state, worker) }, worker)];
      if (!asksServer(worker) && state.workers.length > 0) continue;
      if (state.workers.length < 2 && !state.workers.some((other) => nameOf(other) === nameOf(worker)))
        yield [`decide ${name}`, { ...state, workers: [...replaced(state, worker), worker] }];
    }
    for (const [at, worker] of state.workers.entries()) {
      const without: State = { ...state, workers: state.workers.toSpliced(at, 1) };
      const name = nameOf(worker);
      // Not in here: one that stalls beyond its lease, reaches the server after all, and dies before it looks again.
      if (worker.said === undefined || !worker.isStale) yield [`${name} is given up`, without];
      if (worker.said !== undefined || !asksServer(worker)) {
        yield [`note ${name}`, note(without, worker)];
        continue;
      }
      const asked = ask(state, worker);
      if (asked === null) continue;
      const [after, said] = asked;
      yield [`ask ${name}`, { ...after, workers: after.workers.with(at, { ...worker, said }) }];
    }
  }

  const tableOf = (state: State) => ({
    epoch: state.epoch,
    isOpen: state.branch.status !== "error" && !isHolding(state),
  });

  function* proxies(state: State): Generator<readonly [string, State]> {
    const table = tableOf(state);
    const { told } = state;
    if (state.first !== "up" || (told.epoch === table.epoch && told.isOpen === table.isOpen)) return;
    const servers = state.servers.map((server) =>
      server.nodeId === "n1" && server.epoch !== table.epoch ? { ...server, hasSession: false } : server,
    );
    yield ["the proxy of the first machine is told", { ...state, servers, told: table }];
  }

  /** Whether the server's machine lets apps in to it. */
  function isAdmitted(state: State, { nodeId, epoch, is, generation }: Server): boolean {
    const told = nodeId === "n1" ? state.told : tableOf(state);
    return is === "serving" && told.epoch === epoch && told.isOpen && state.volumes[generation - 1]?.isLocked === false;
  }

  function* apps(state: State): Generator<readonly [string, State]> {
    for (const server of state.servers) {
      const become = (change: Partial<Server>) =>
        state.servers.map((each) => (each === server ? { ...each, ...change } : each));
      if (!server.hasSession && isAdmitted(state, server))
        yield [`an app comes in to ${server.epoch}`, { ...state, servers: become({ hasSession: true }) }];
      const volume = state.volumes[server.generation - 1];
      if (server.hasSession && volume && state.acknowledged < writesMax) {
        const data = volume.data + 1;
        const isAhead = state.branch.generation === server.generation;
        const wrong = isAhead ? state.wrong : "a write that is acknowledged where it is lost";
        yield [
          `an app writes to ${server.epoch}`,
          { ...setVolume(state, server.generation, { ...volume, data }), acknowledged: state.acknowledged + 1, wrong },
        ];
      }
    }
  }

  function* machines(state: State): Generator<readonly [string, State]> {
    const { first, copy } = state;
    const source = state.volumes[0];
    const server = state.servers.find(({ generation, is }) => generation === 1 && is === "serving");
    if (copy.isOpen && source && server && first === "up" && copy.has < source.data)
      yield ["the copy follows", { ...state, copy: { ...copy, has: copy.has + 1 } }];
    for (const each of state.servers) {
      const isReached = each.nodeId === "n2" || first === "up";
      const others = state.servers.filter((other) => other !== each);
      if (!each.isWanted && isReached)
        yield [`${each.epoch} ends, and its node says so`, { ...state, servers: others }];
      if (each.nodeId === "n1" && first === "fenced" && !each.isForgotten) {
        const back = { ...each, is: "serving", isForgotten: true } as const;
        const isBack = mutant === "starts after a reboot without a grant";
        yield [`${each.epoch} is over with its machine`, { ...state, servers: isBack ? [back, ...others] : others }];
      }
      if (each.is === "serving" && isReached) {
        const again = { ...each, is: "starting", hasSession: false } as const;
        yield [`${each.epoch} dies`, { ...state, servers: state.servers.map((s) => (s === each ? again : s)) }];
      }
      if (each.is === "starting" && each.isWanted && isReached) yield* serve(state, each);
    }
    const settled = state.servers.map((each) =>
      each.nodeId === "n1" ? ({ ...each, is: "starting", hasSession: false } as const) : each,
    );
    if (first === "up") yield ["the first machine goes silent", { ...state, first: "silent" }];
    if (first === "silent") yield ["it is heard again", { ...state, first: "up" }];
    if (first !== "fenced") {
      yield ["it is declared lost", { ...state, first: "fenced", servers: settled }];
    }
  }

  function* serve(state: State, server: Server): Generator<readonly [string, State]> {
    const { generation, epoch, isRestoring } = server;
    const serving: State = {
      ...state,
      servers: state.servers.map((each) => (each === server ? { ...each, is: "serving" } : each)),
    };
    if (state.volumes[generation - 1] !== null) yield [`${epoch} serves`, serving];
    else if (isRestoring && mutant !== "makes data where some is missing") {
      const restored = setVolume(serving, generation, { data: state.copy.has, isLocked: true });
      yield [`${epoch} restores the copy and serves`, noteRestored(restored, state)];
    } else if (mutant === "makes data where some is missing") {
      yield [`${epoch} makes data`, noteRestored(setVolume(serving, generation, { data: 0, isLocked: true }), state)];
    }
  }

  /** Compares what there is with what was promised. */
  function noteRestored(state: State, { change, acknowledged }: State): State {
    const has = state.volumes[1]?.data ?? 0;
    if (change === null) return state;
    const isLost = change.kind === "move" ? has < acknowledged : has < change.covered;
    const wrong = isLost ? `a ${change.kind} lost a write` : state.wrong;
    return { ...state, acknowledged: has, wrong };
  }

  function* operator(state: State): Generator<readonly [string, State]> {
    const { change, branch, begun, copy } = state;
    const isFree = change === null || mutant === "two changes at once";
    // A second one is of interest where the first one left something behind.
    const isDue = begun === 0 || branch.status === "error" || mutant === "two changes at once";
    if (isFree && isDue && begun < changesMax && copy.isOpen && branch.generation === 1) {
      const fresh = {
        id: begun + 1,
        freezes: freezesMax - 2,
        isUndoing: false,
        isCancelled: false,
        mark: null,
        covered: copy.has,
      };
      const begin = (kind: Change["kind"], at: Change["state"]): State => ({
        ...state,
        begun: begun + 1,
        change: { ...fresh, kind, state: at },
        wrong: change === null ? state.wrong : "two changes of one branch",
      });
      for (const kind of kinds)
        if (branch.status === "ready" || kind === "restore")
          yield [kind, begin(kind, kind === "move" ? "copying" : "stopping")];
    }
    if (change !== null && change.state !== "restoring" && !change.isCancelled)
      yield ["cancel", { ...state, change: { ...change, isCancelled: true } }];
  }

  return {
    initial: {
      ...{ change: null, begun: 0, acknowledged: 0, epoch: 1, first: "up", workers: [], wrong: null },
      branch: { status: "ready", nodeId: "n1", generation: 1, isTenantNoted: true },
      servers: [
        {
          epoch: 1,
          nodeId: "n1",
          generation: 1,
          isWanted: true,
          isRestoring: false,
          is: "serving",
          hasSession: false,
          isForgotten: false,
        },
      ],
      volumes: [{ data: 0, isLocked: false }, null],
      copy: { has: 0, isOpen: true },
      told: { epoch: 1, isOpen: true },
    },

    *next(state) {
      yield* operator(state);
      yield* work(state);
      yield* proxies(state);
      yield* apps(state);
      yield* machines(state);
    },

    key,

    problem(state) {
      const { servers, volumes, branch, change, wrong, workers } = state;
      if (wrong !== null) return wrong;
      if (servers.filter((server) => isAdmitted(state, server)).length > 1) return "two epochs that are let in";
      const known = servers.filter(({ isForgotten }) => !isForgotten);
      if (known.some(({ generation }) => generation === 1) && branch.generation === 2)
        return "the next server was asked for before the end of the one before";
      if (known.filter(({ generation }) => generation === branch.generation).length > 1)
        return "two servers of one volume";
      if (volumes[0] === null && (change !== null || branch.status !== "ready"))
        return "the old volume is gone too early";
      const isFree = change === null && workers.length === 0 && branch.status === "ready";
      if (isFree && servers.length === 0 && branchStep(state).do === "end") return "a branch that nobody brings up";
      const isQuiet = isFree && branch.isTenantNoted;
      return isQuiet && volumes[branch.generation - 1]?.isLocked
        ? "a tenant that is locked out, and nobody knows"
        : null;
    },
  };
}

const bits = (...flags: boolean[]): string => flags.map((flag) => (flag ? "1" : "0")).join("");
const volumeKey = (volume: Volume | null): string => (volume === null ? "-" : `${volume.data}${bits(volume.isLocked)}`);

function key({ change, branch, servers, volumes, copy, told, workers, ...state }: State): string {
  const asked = ({ said }: Worker) => (typeof said === "object" ? `${said.mark}${bits(said.isCopied)}` : said);
  return [
    change &&
      `${change.kind}${change.state}${change.freezes}${bits(change.isUndoing, change.isCancelled)}${change.mark}${change.covered}`,
    `${branch.status}${branch.nodeId}${branch.generation}${bits(branch.isTenantNoted)}`,
    ...[state.begun, state.acknowledged, state.epoch, state.first, state.wrong],
    ...[...volumes.map(volumeKey), `${copy.has}${bits(copy.isOpen)}`],
    `${told.epoch}${bits(told.isOpen)}`,
    ...servers.map(
      (s) => `s${s.epoch}${s.generation}${s.is}${bits(s.isWanted, s.isRestoring, s.hasSession, s.isForgotten)}`,
    ),
    ...workers.map(
      (worker) =>
        `w${nameOf(worker)}${worker.changeId}${worker.state}${worker.freezes}${worker.epoch}${asked(worker)}${bits(worker.isDoubted, worker.isStale)}${detail(worker)}`,
    ),
  ].join("|");
}

const detail = ({ step: { step } }: Worker): string =>
  step.do === "removeServers" ? step.taskIds.join() : "to" in step ? step.to : "";

const nameOf = ({ step, said }: Worker): string =>
  `${step.of} ${step.step.do}${said === undefined ? "" : " (answered)"}`;
