import { type BranchFacts, type BranchStep, nextBranchStep } from "@svc/control/tenants/databases/steps";
import type { Model } from "./explore.ts";

/**
 * One branch, two workers of which one may have stalled, a user and a fleet of two nodes: real `nextBranchStep`. A worker reads,
 * decides, acts on the server, and writes down what came of it; anything may happen between two of these, and it may die after
 * each. Passwords are numbers.
 *
 * Not in here: a worker that stalls for longer than its lease, reaches the server after all, and dies before it has looked
 * again. Only comparing what the server has finds that.
 */
interface Row {
  status: BranchFacts["status"];
  nodeId: string | null;
  secret: number;
  pending: number | null;
  tenantNoted: boolean;
  doubts: number;
  /** It has had its status for longer than anything waits. */
  isLate: boolean;
}

interface Server {
  id: number;
  wanted: boolean;
  nodeId: string | null;
  state: "starting" | "serving" | "failed" | "gone";
}

interface Worker {
  row: Row;
  step: BranchStep;
  serverId: number | null;
  /** What the server said; null before it was asked. */
  said: boolean | null;
  /** Another one has its place by now. */
  isStale: boolean;
}

interface State {
  /** Null: buried. */
  row: Row | null;
  buriedAt: string | null;
  servers: readonly Server[];
  /** The role's password in the server; null: there is no role. */
  role: number | null;
  wasProven: boolean;
  suspended: boolean;
  nodeGone: boolean;
  workers: readonly Worker[];
  done: string;
  crashes: number;
  stalls: number;
}

export type BranchMutant =
  | "ready without a login"
  | "starts without looking again"
  | "forgets where the data is"
  | "commits a rotation first"
  | "does not look at the password again";

const limits = { servers: 2, crashes: 1, stalls: 1 } as const;
const longMs = 1e9;

const factsOf = ({ row, servers, suspended, nodeGone }: State & { row: Row }): BranchFacts => ({
  ...{ status: row.status, sinceMs: row.isLate ? longMs : 0, projectGone: false, suspended, nodeId: row.nodeId },
  lastNodeId: servers.findLast(({ nodeId }) => nodeId !== null)?.nodeId ?? null,
  nodeGone: nodeGone && servers.some(({ nodeId }) => nodeId !== null),
  servers: servers
    .filter(({ state }) => state !== "gone")
    .map(({ id, wanted, nodeId, state }) => ({
      ...{ taskId: String(id), wanted, nodeId, refused: null, problem: null, ageMs: longMs, outgrown: false },
      state: state === "gone" ? "failed" : state,
    })),
  tenantCurrent: row.tenantNoted,
  rotating: row.pending !== null,
});

const asksServer = (step: BranchStep): boolean => ["bringTenant", "proveLogin", "rotate"].includes(step.do);
const passwordOf = ({ pending, secret }: Row): number => pending ?? secret;

export function branchLife(mutant: BranchMutant | null): Model<State> {
  const doubt = (row: Row): Partial<Row> => ({ tenantNoted: false, doubts: row.doubts + 1 });
  const move = (row: Row, status: Row["status"]): Row => ({ ...row, status, isLate: false });

  /** What the worker's request does to the server; null when there is none to ask. */
  function ask(state: State, { row, step, serverId }: Worker): { role: number | null; said: boolean } | null {
    const server = state.servers.find(({ id }) => id === serverId);
    if (server?.state !== "serving") return null;
    if (step.do === "proveLogin") return { role: state.role, said: state.role === passwordOf(row) };
    return { role: passwordOf(row), said: true };
  }

  /** What is written down, under the lock and only where it still holds. */
  function note(state: State, { row: read, step, said }: Worker): State {
    const { row, servers } = state;
    if (row === null) return state;
    const with_ = (change: Partial<Row>): State => ({ ...state, row: { ...row, ...change } });
    const isSame =
      mutant === "does not look at the password again" || (row.secret === read.secret && row.pending === read.pending);
    if (row.status !== read.status)
      return step.do === "bringTenant" || step.do === "rotate" ? with_(doubt(row)) : state;
    switch (step.do) {
      case "pin":
        return with_({ nodeId: step.nodeId });
      case "startServer": {
        const isOpen = servers.some(({ state: each }) => each !== "gone");
        const isLost = row.nodeId === null && servers.some(({ nodeId }) => nodeId !== null);
        if (((isOpen || isLost) && mutant !== "starts without looking again") || servers.length >= limits.servers)
          return state;
        const server: Server = { id: servers.length, wanted: true, nodeId: null, state: "starting" };
        return { ...state, servers: [...servers, server] };
      }
      case "removeServers": {
        const gone = new Set(step.taskIds);
        const leave = (server: Server) => (gone.has(String(server.id)) ? { ...server, wanted: false } : server);
        return { ...state, servers: servers.map(leave) };
      }
      case "bringTenant":
        return with_(isSame && row.doubts === read.doubts ? { tenantNoted: true } : doubt(row));
      case "proveLogin":
        if (!said) return with_(doubt(row));
        return { ...state, row: move(row, "ready"), wasProven: true };
      case "rotate":
        return isSame && read.pending !== null ? with_({ secret: read.pending, pending: null }) : with_(doubt(row));
      case "fail":
        return { ...state, row: move(row, "error") };
      case "bury":
        return { ...state, row: null, buriedAt: step.nodeId };
      default:
        return state;
    }
  }

  return {
    initial: {
      row: {
        ...{
          status: "provisioning",
          nodeId: null,
          secret: 0,
          pending: null,
          tenantNoted: false,
          doubts: 0,
          isLate: false,
        },
      },
      ...{ buriedAt: null, servers: [], role: null, wasProven: false, suspended: false, nodeGone: false },
      ...{ workers: [], done: "", crashes: 0, stalls: 0 },
    },

    *next(state) {
      const { row, servers, workers } = state;
      const once = (what: string, change: Partial<State>): [string, State] => [
        what,
        { ...state, ...change, done: [...state.done.split(" "), what].filter(Boolean).sort().join(" ") },
      ];
      const may = (what: string) => !state.done.split(" ").includes(what);

      // The user, the administrator, and time.
      if (row !== null) {
        if (row.status !== "dropping" && may("drop")) yield once("drop", { row: move(row, "dropping") });
        if (row.status === "error" && may("retry"))
          yield once("retry", { row: { ...move(row, "provisioning"), ...doubt(row) } });
        if (row.status === "ready" && row.pending === null)
          if (may("rotate")) yield once("rotate", { row: { ...row, pending: 1 } });
        if (!row.isLate && row.status !== "ready" && row.status !== "error")
          yield ["time passes", { ...state, row: { ...row, isLate: true } }];
      }
      if (may("suspend")) yield once("suspend", { suspended: true });
      else if (state.suspended) yield ["resume", { ...state, suspended: false }];
      if (may("fence") && servers.some(({ nodeId }) => nodeId !== null)) yield once("fence", { nodeGone: true });

      // The fleet.
      for (const [at, server] of servers.entries()) {
        const become = (change: Partial<Server>): State => ({
          ...state,
          servers: servers.map((each, index) => (index === at ? { ...each, ...change } : each)),
        });
        const { wanted, nodeId, state: is } = server;
        if (is === "gone") continue;
        // A server is asked for where the branch knew its data to be then, and stays there.
        if (wanted && nodeId === null)
          for (const node of row?.nodeId == null ? ["n1", "n2"] : [row.nodeId])
            yield [`place ${server.id} on ${node}`, become({ nodeId: node })];
        if (nodeId !== null && is === "starting" && !state.nodeGone) {
          yield [`${server.id} serves`, become({ state: "serving" })];
          yield [`${server.id} fails`, become({ state: "failed" })];
        }
        if (!wanted || (state.nodeGone && nodeId !== null)) yield [`${server.id} is gone`, become({ state: "gone" })];
      }

      // The workers.
      const stalls = state.stalls + workers.length;
      if (row !== null && workers.length < 2 && stalls <= limits.stalls) {
        const facts = factsOf({ ...state, row });
        const step = nextBranchStep(mutant === "forgets where the data is" ? { ...facts, lastNodeId: null } : facts);
        const wanted = servers.find((server) => server.wanted && server.state !== "gone");
        const fresh: Worker = { row, step, serverId: wanted?.id ?? null, said: null, isStale: false };
        const stalled = workers.map((worker) => ({ ...worker, isStale: true }));
        if (step.do !== "end" && step.do !== "wait")
          yield [`decide ${step.do}`, { ...state, workers: [...stalled, fresh], stalls }];
      }
      for (const [at, worker] of workers.entries()) {
        const { step, said, isStale } = worker;
        const rest = workers.filter((_, index) => index !== at);
        const name = `${step.do} of ${isStale ? "the stalled worker" : "the worker"}`;
        if (said === null && asksServer(step)) {
          const asked = ask(state, worker);
          const change = asked && { role: asked.role, workers: workers.with(at, { ...worker, said: asked.said }) };
          yield [`ask: ${name}`, { ...state, ...(change ?? { workers: rest }) }];
          if (mutant === "commits a rotation first" && step.do === "rotate")
            yield [`note: ${name}`, { ...note(state, { ...worker, said: true }), workers: rest }];
          if (mutant === "ready without a login" && step.do === "proveLogin")
            yield [`note: ${name}`, { ...note(state, { ...worker, said: true }), workers: rest, wasProven: false }];
        } else {
          yield [`note: ${name}`, { ...note(state, worker), workers: rest }];
        }
        if (state.crashes < limits.crashes && !(isStale && said !== null))
          yield [`${name} is killed`, { ...state, workers: rest, crashes: state.crashes + 1 }];
      }
    },

    key: (state) => JSON.stringify(state),

    problem({ row, buriedAt, servers, role, wasProven, workers }) {
      const placed = servers.filter(({ nodeId }) => nodeId !== null);
      if (placed.filter(({ state }) => state !== "gone").length > 1) return "two servers at one volume";
      if (new Set(placed.map(({ nodeId }) => nodeId)).size > 1) return "a second, empty volume on another node";
      if (row === null) return placed.length > 0 && buriedAt === null ? "a volume that nobody knows of" : null;
      if (row.status === "ready" && !wasProven) return "ready, and nobody has ever logged in";
      const isQuiet = workers.length === 0 && row.status === "ready" && row.pending === null && row.tenantNoted;
      return isQuiet && role !== row.secret ? "the server has another password than the branch" : null;
    },
  };
}
