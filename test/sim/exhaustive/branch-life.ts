import { letsTenantIn } from "@svc/control/fleet/database-tables/table";
import {
  type BranchFacts,
  type BranchStep,
  isToBeReadOnly,
  nextBranchStep,
} from "@svc/control/tenants/databases/steps";
import type { Model } from "./explore.ts";

/**
 * One branch of Postgres, two workers of which one may have stalled, a user, nights that decide
 * whether it is read-only, and a fleet of two nodes: real `nextBranchStep`. A worker reads,
 * decides, asks the server, and writes down what came of it; anything may happen between two of these, and it may die.
 * What has no bound is told by what it is compared with: a doubt by who has not read it, time by both that it has passed and
 * that it has not, and servers that are over by where the last one was.
 *
 * Not in here: a worker that stalls for longer than its lease, reaches the server after all, and dies before it has looked
 * again. Only comparing what the server has finds that.
 */
interface State {
  /** Null: buried. */
  status: BranchFacts["status"] | null;
  nodeId: string | null;
  lastNodeId: string | null;
  /** The first one, the second one on its way, the second one. */
  password: "first" | "rotating" | "second";
  isTenantNoted: boolean;
  /** Somebody has noted it once. */
  wasTenantNoted: boolean;
  isSuspended: boolean;
  isNodeGone: boolean;
  /** It holds more than its plan allows. */
  isReadOnly: boolean;
  servers: readonly Server[];
  /** Nodes with a volume that has data. */
  volumes: readonly string[];
  wasVolumeLost: boolean;
  /** The role's password in the server; null: there is no role, or nobody reaches it any more. */
  role: "first" | "second" | null;
  wasReady: boolean;
  /** When it became `ready`, whoever has the password of then could log in. */
  isProven: boolean;
  /** Data was made for a branch that had been in use. */
  isInitAgain: boolean;
  workers: readonly Worker[];
}

interface Server {
  /** No two that are there, or that a worker means, share one. */
  id: string;
  isWanted: boolean;
  /** Where it has to run; null: anywhere. */
  pin: string | null;
  /** It may make data. */
  init: boolean;
  /** A standby: nothing can be written to it, whoever asks. */
  isReadOnly: boolean;
  /** It can be written to, and was asked for when the branch was read-only, as it is still. */
  isPrivate: boolean;
  nodeId: string | null;
  is: "starting" | "serving" | "failed";
}

/** What a worker has read, as far as it still matters, and where it is. */
interface Worker {
  status: BranchFacts["status"];
  password: State["password"];
  step: BranchStep;
  serverId: string | null;
  /** Somebody has doubted the tenant since it read. */
  isDoubted: boolean;
  /** What the server said; null before it was asked. */
  said: boolean | null;
  /** Another one has its place by now. */
  isStale: boolean;
}

export type BranchMutant =
  | "ready without a login"
  | "starts without looking again"
  | "starts before the end of the one before"
  | "forgets where the data is"
  | "commits a rotation first"
  | "does not look at the password again"
  | "does not count doubts"
  | "trusts that what was cut off did not arrive"
  | "may make data at any time"
  | "makes up for missing data"
  | "makes data over data"
  | "lets everybody in to a server that the platform writes to"
  | "leaves a server as it was started"
  | "takes the refusal of a standby for a yes";

const longMs = 1e9;
const nodes = ["n1", "n2"] as const;

/** How often servers have failed decides only when the next is tried, and these worlds have no clock. */
export const uncounted = (step: BranchStep): BranchStep =>
  step.do === "replaceServer" ? { do: "removeServers", taskIds: [step.taskId] } : step;

const asksServer = ({ do: what }: BranchStep): boolean =>
  what === "bringTenant" || what === "proveLogin" || what === "rotate";

/** Who is told the password now gets in, as far as anybody can find out. */
const isOpen = ({ role, password, isNodeGone }: State): boolean => isNodeGone || role === told(password);

/** What whoever is told the password now is told. */
const told = (password: State["password"]) => (password === "first" ? "first" : "second");

export function branchLife(mutant: BranchMutant | null): Model<State> {
  function factsOf(state: State & { status: BranchFacts["status"] }, isLate: boolean): BranchFacts {
    const { status, nodeId, lastNodeId } = state;
    const servers = state.servers.filter(
      ({ isWanted }) => isWanted || mutant !== "starts before the end of the one before",
    );
    return {
      ...{ status, sinceMs: isLate ? longMs : 0, projectGone: false, suspended: state.isSuspended, nodeId },
      lastNodeId: mutant === "forgets where the data is" ? null : lastNodeId,
      nodeGone: state.isNodeGone,
      servers: servers.map(({ id, isWanted, nodeId: at, is, isReadOnly }) => ({
        ...{ taskId: id, wanted: isWanted, nodeId: at, refused: null, state: is, problem: null, failsAgain: false },
        ...{ ageMs: longMs, outgrown: false, isDown: false },
        readOnly: mutant === "leaves a server as it was started" ? isToBeReadOnly(tenantOf(state)) : isReadOnly,
      })),
      ...tenantOf(state),
      changing: false,
      // Whoever waits for a server that failed has noted that before.
      serverFailures: servers.some(({ isWanted, is }) => isWanted && is === "failed") ? 1 : 0,
    };
  }

  const tenantOf = ({ isTenantNoted, password, isReadOnly }: State) => ({
    ...{ tenantCurrent: isTenantNoted, rotating: password === "rotating", readOnly: isReadOnly },
    standsBy: mutant !== "takes the refusal of a standby for a yes",
  });

  const doubted = (state: State): State => ({
    ...state,
    isTenantNoted: false,
    workers: state.workers.map((worker) => ({ ...worker, isDoubted: true })),
  });

  function start(state: State): State {
    const { servers, nodeId, lastNodeId } = state;
    const isOpen = servers.length > 0 && mutant !== "starts before the end of the one before";
    const isLost = nodeId === null && lastNodeId !== null && mutant !== "forgets where the data is";
    if ((isOpen || isLost) && mutant !== "starts without looking again") return state;
    const id = ["a", "b"].find((each) => !servers.some((server) => server.id === each));
    if (id === undefined) return state;
    const init = !state.wasTenantNoted || mutant === "may make data at any time";
    const isReadOnly = isToBeReadOnly(tenantOf(state));
    const server: Server = {
      ...{ id, isWanted: true, pin: nodeId, init, isReadOnly, nodeId: null, is: "starting" },
      isPrivate: state.isReadOnly && !isReadOnly,
    };
    return { ...state, servers: [...servers, server] };
  }
  /** It is over: who meant it means none any more. */
  const end = (state: State, gone: Server): State => ({
    ...state,
    servers: state.servers.filter((server) => server !== gone).map((server) => ({ ...server, id: "a" })),
    workers: state.workers.map((worker) => ({
      ...worker,
      serverId: afterEnd(worker.serverId, gone),
      step:
        worker.step.do === "removeServers"
          ? { ...worker.step, taskIds: worker.step.taskIds.flatMap((id) => afterEnd(id, gone) ?? []) }
          : worker.step,
    })),
  });
  const afterEnd = (id: string | null, gone: Server) => (id === null || id === gone.id ? null : "a");

  /** What the worker's request does to the server; null when there is none to ask. */
  function ask(
    { servers, role, isNodeGone }: State,
    { password, step, serverId }: Worker,
  ): (Pick<State, "role"> & { said: boolean }) | null {
    const server = servers.find(({ id }) => id === serverId);
    if (isNodeGone || server?.is !== "serving") return null;
    if (step.do === "proveLogin") return { role, said: role === told(password) };
    if (server.isReadOnly) return mutant === "takes the refusal of a standby for a yes" ? { role, said: true } : null;
    // A role is made with the first password alone: there is nobody else's to replace before.
    if (step.do === "rotate" && role === null) return null;
    return { role: told(password), said: true };
  }

  /** What the worker writes down, under the lock and only where it still holds. */
  function note(state: State, { status, password, step, said, isDoubted }: Worker): State {
    if (state.status === null) return state;
    const isSame =
      state.status === status && (password === state.password || mutant === "does not look at the password again");
    if (step.do === "bringTenant") {
      const isNoted = isSame && (!isDoubted || mutant === "does not count doubts");
      return isNoted ? { ...state, isTenantNoted: true, wasTenantNoted: true } : doubted(state);
    }
    if (step.do === "rotate") return isSame ? { ...state, password: "second" } : doubted(state);
    if (state.status !== status) return state;
    switch (step.do) {
      case "pin":
        return { ...state, nodeId: step.nodeId };
      case "startServer":
        return start(state);
      case "removeServers": {
        const leave = (server: Server) => (step.taskIds.includes(server.id) ? { ...server, isWanted: false } : server);
        return { ...state, servers: state.servers.map(leave) };
      }
      case "proveLogin":
        if (said === false) return doubted(state);
        if (isDoubted || !isSame) return state;
        return { ...state, status: "ready", wasReady: true, isProven: said === true && isOpen(state) };
      case "fail":
        return { ...state, status: "error" };
      case "bury":
        return { ...state, status: null };
      default:
        return state;
    }
  }

  function* user(state: State): Generator<readonly [string, State]> {
    const { status } = state;
    if (status === null) return;
    if (status !== "dropping") yield ["drop", { ...state, ...forgotten, status: "dropping" }];
    if (status === "error") yield ["retry", { ...doubted(state), status: "provisioning" }];
    if (status === "ready" && state.password === "first") yield ["rotate", { ...state, password: "rotating" }];
    if (status === "ready") yield [state.isReadOnly ? "it may write again" : "it is full", decided(state)];
    yield [state.isSuspended ? "resume" : "suspend", { ...state, isSuspended: !state.isSuspended }];
    if (state.lastNodeId !== null && !state.isNodeGone) yield ["fence", { ...state, isNodeGone: true, role: null }];
  }

  const decided = (state: State): State => ({
    ...state,
    isReadOnly: !state.isReadOnly,
    servers: state.servers.map((server) => ({ ...server, isPrivate: false })),
  });

  function* fleet(state: State): Generator<readonly [string, State]> {
    for (const server of state.servers) {
      const { id, isWanted, pin, nodeId, is, init } = server;
      const become = (change: Partial<Server>): readonly Server[] =>
        state.servers.map((each) => (each === server ? { ...each, ...change } : each));
      if (isWanted && nodeId === null) {
        // The nodes are alike until one has something of the branch.
        const may = pin !== null ? [pin] : state.lastNodeId === null ? nodes.slice(0, 1) : nodes;
        for (const at of may)
          yield [`${id} is placed on ${at}`, { ...state, servers: become({ nodeId: at }), lastNodeId: at }];
      }
      if (nodeId !== null && !state.isNodeGone) {
        if (is === "starting") {
          yield [`${id} fails`, { ...state, servers: become({ is: "failed" }) }];
          yield* serve(state, server, become);
        }
        if (is === "serving") yield [`${id} starts again`, { ...state, servers: become({ is: "starting" }) }];
      }
      if (!isWanted || (state.isNodeGone && nodeId !== null)) yield [`${id} is gone`, end(state, server)];
      if (init && is === "serving")
        yield [`the agent notes that ${id} has data`, { ...state, servers: become({ init: false }) }];
    }
    const isHeld = state.servers.some(({ is, init }) => init || is !== "failed");
    if (!state.wasVolumeLost && state.volumes.length > 0 && !isHeld && state.workers.length === 0)
      yield ["the volume is lost", { ...state, volumes: [], role: null, wasVolumeLost: true }];
  }

  function* serve(
    state: State,
    { id, nodeId, init }: Server,
    become: (change: Partial<Server>) => readonly Server[],
  ): Generator<readonly [string, State]> {
    if (nodeId === null) return;
    const after: State = { ...state, servers: become({ is: "serving" }) };
    const hasData = state.volumes.includes(nodeId);
    if (hasData && !(init && mutant === "makes data over data")) yield [`${id} serves`, after];
    else if (init || mutant === "makes up for missing data") {
      const volumes = hasData ? state.volumes : [...state.volumes, nodeId].sort();
      yield [`${id} makes data and serves`, { ...after, volumes, role: null, isInitAgain: state.wasReady }];
    }
  }

  function* work(state: State): Generator<readonly [string, State]> {
    const { status, password, workers } = state;
    if (status !== null && workers.length < 2) {
      const stalled = workers.map((worker) => ({ ...worker, isStale: true }));
      const serverId = state.servers.find(({ isWanted }) => isWanted)?.id ?? null;
      for (const isLate of [false, true]) {
        const step = uncounted(nextBranchStep(factsOf({ ...state, status }, isLate)));
        if (step.do === "end" || step.do === "wait") continue;
        const isAsking = asksServer(step);
        const fresh: Worker = {
          ...{ status, password, step, isDoubted: false, said: null, isStale: !isAsking },
          serverId: isAsking ? serverId : null,
        };
        if (!isAsking) yield [step.do, note(state, fresh)];
        if (isAsking || workers.length === 0) yield [`decide ${step.do}`, { ...state, workers: [...stalled, fresh] }];
      }
    }
    for (const [at, worker] of workers.entries()) {
      const { step, said, isStale } = worker;
      const without: State = { ...state, workers: workers.toSpliced(at, 1) };
      const name = `${step.do} of ${isStale ? "the stalled worker" : "the worker"}`;
      if (said !== null || !asksServer(step)) {
        yield [`note: ${name}`, note(without, worker)];
        // One that dies before it has asked might as well never have been.
        if (said !== null && !isStale) yield [`${name} is killed`, without];
        continue;
      }
      const asked = ask(state, worker);
      if (asked === null) yield [`no answer: ${name}`, without];
      else {
        const { role } = asked;
        yield [`ask: ${name}`, { ...state, role, workers: workers.with(at, { ...worker, said: asked.said }) }];
        const isOld = worker.status !== status || worker.password !== password;
        const isDoubted = isOld && step.do !== "proveLogin" && mutant !== "trusts that what was cut off did not arrive";
        const cutOff: State = { ...without, role };
        yield [`the answer is lost: ${name}`, isDoubted ? doubted(cutOff) : cutOff];
      }
      const isEarly =
        (mutant === "commits a rotation first" && step.do === "rotate") ||
        (mutant === "ready without a login" && step.do === "proveLogin");
      if (isEarly) yield [`note: ${name}`, note(without, worker)];
    }
  }

  return {
    initial: {
      ...{ status: "provisioning", nodeId: null, lastNodeId: null, password: "first" },
      ...{ isTenantNoted: false, wasTenantNoted: false, isSuspended: false, isNodeGone: false, isReadOnly: false },
      ...{ servers: [], volumes: [], wasVolumeLost: false, role: null },
      ...{ wasReady: false, isProven: false, isInitAgain: false, workers: [] },
    },

    *next(state) {
      yield* user(state);
      yield* fleet(state);
      yield* work(state);
    },

    key,

    problem(state) {
      const { status, servers, volumes, role, password, isReadOnly, isSuspended } = state;
      const { isTenantNoted, isProven, isInitAgain, isNodeGone, nodeId, lastNodeId, workers } = state;
      if (servers.filter((server) => server.nodeId !== null).length > 1) return "two servers that may write";
      if (volumes.length > 1) return "a second, empty volume on another node";
      if (isInitAgain) return "an empty database in the place of one that was in use";
      if (nodeId !== null && nodeId !== lastNodeId) return "a branch that knows another place than that of its data";
      const newest = servers.at(-1);
      const isTold = isReadOnly && mutant !== "lets everybody in to a server that the platform writes to";
      const server = newest === undefined ? null : { readOnly: newest.isReadOnly };
      const isLetIn = status !== null && letsTenantIn({ status, isOff: isSuspended, readOnly: isTold, server });
      if (newest?.isPrivate && newest.is === "serving" && isLetIn) return "a write while the branch is read-only";
      if (status !== "ready") return null;
      if (!isProven) return "ready, and nobody could log in";
      if (workers.length === 0 && newest !== undefined && newest.isReadOnly !== isReadOnly) {
        const isDone = [false, true].every(
          (isLate) => nextBranchStep(factsOf({ ...state, status }, isLate)).do === "end",
        );
        if (isDone && !isSuspended) return "a server that is left to write, or not to";
      }
      const isReachable = !isNodeGone && volumes.length > 0;
      const isQuiet = workers.length === 0 && password !== "rotating" && isTenantNoted;
      return isReachable && isQuiet && role !== password ? "the server has another password than the branch" : null;
    },
  };
}

/** What no longer matters once a branch is to go; also what a worker meant to write, since it has another status by now. */
const forgotten = {
  ...({ password: "first", isTenantNoted: false, role: null, isProven: false } as const),
  ...({ isReadOnly: false, workers: [] } as const),
};

const bits = (...flags: boolean[]): string => flags.map((flag) => (flag ? "1" : "0")).join("");

const key = (state: State): string =>
  [
    ...[state.status, state.nodeId, state.lastNodeId, state.password, state.role, state.volumes],
    bits(
      state.isTenantNoted,
      state.wasTenantNoted,
      state.isSuspended,
      state.isNodeGone,
      state.wasVolumeLost,
      state.isReadOnly,
    ),
    bits(state.wasReady, state.isProven, state.isInitAgain),
    ...state.servers.map(
      ({ id, pin, nodeId, is, ...server }) =>
        `${id}${pin}${nodeId}${is}${bits(server.isWanted, server.init, server.isReadOnly, server.isPrivate)}`,
    ),
    ...state.workers.map(
      ({ status, password, step, serverId, isDoubted, said, isStale }) =>
        `:${status} ${password} ${nameOf(step)} ${serverId} ${said} ${bits(isDoubted, isStale)}`,
    ),
  ].join("|");

const nameOf = (step: BranchStep): string =>
  step.do === "removeServers" ? `-${step.taskIds}` : "nodeId" in step ? `${step.do}${step.nodeId}` : step.do;
