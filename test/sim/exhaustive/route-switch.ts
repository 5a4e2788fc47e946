import { create } from "@bufbuild/protobuf";
import type { RouteEntry } from "@svc/control/fleet/cluster/route-entry";
import { isCurrent } from "@svc/control/fleet/routes/progress";
import { applyChange, tableChange } from "@svc/control/fleet/routes/table";
import { RouteSchema, RouteTable_Kind, RouteTableSchema } from "@svc/proto/edge";
import { decide, type Table } from "@svc/router/table";
import type { Model } from "./explore.ts";

/**
 * A deployment takes over a host, edges follow, and the containers of the one before go: real `tableChange`, `decide` and
 * `isCurrent`. What a replica of control knows of etcd may be old; what it reads for the last decision is not.
 */
interface Edge {
  /** Generations: accepted, served, on disk, and the one that control has heard of. */
  target: number;
  served: number;
  disk: number;
  told: number;
  inbox: readonly number[];
  crashes: number;
}

interface State {
  active: "old" | "new";
  /** The host's deployment by generation, from 1. */
  published: readonly ("old" | "new")[];
  /** What the replica that retires has seen: a generation, and what each edge had told by then. */
  seen: { generation: number; told: readonly number[] };
  edges: readonly Edge[];
  removed: boolean;
  switches: number;
}

export type RouteMutant = "does not wait for edges" | "tells before it serves" | "decides on an old view";

const limits = { crashes: 1, switches: 2 } as const;
const upstreamOf = { old: "n1:1", new: "n2:1" } as const;

const entryOf = (deploymentId: "old" | "new"): RouteEntry => ({
  ...{ host: "a.test", projectId: "p", channel: "production", deploymentId },
  proxy: { upstreams: [upstreamOf[deploymentId]] },
});

/** The table of a generation as an edge has it. */
function tableOf(published: State["published"], generation: number): Table {
  const deployment = published[generation - 1];
  const route =
    deployment &&
    create(RouteSchema, {
      ...{ host: "a.test", projectId: "p", channel: "production", deploymentId: deployment },
      target: { case: "proxy", value: { upstreams: [upstreamOf[deployment]] } },
    });
  return { clusterEpoch: 1n, generation: BigInt(generation), routes: new Map(route ? [["a.test", route]] : []) };
}

export function routeSwitch(mutant: RouteMutant | null, edgeCount = 2): Model<State> {
  const withEdge = (state: State, at: number, change: Partial<Edge>): State => ({
    ...state,
    edges: state.edges.map((edge, index) => (index === at ? { ...edge, ...change } : edge)),
  });
  return {
    initial: {
      ...{ active: "old", published: ["old"], removed: false, switches: 0 },
      seen: { generation: 1, told: Array.from({ length: edgeCount }, () => 1) },
      edges: Array.from(
        { length: edgeCount },
        (): Edge => ({ target: 1, served: 1, disk: 1, told: 1, inbox: [], crashes: 0 }),
      ),
    },
    *next(state) {
      const generation = state.published.length;
      if (state.switches < limits.switches && !state.removed) {
        const active = state.active === "old" ? "new" : "old";
        yield [`activate ${active}`, { ...state, active, switches: state.switches + 1 }];
      }
      const before = new Map(state.published.slice(-1).map((deployment) => ["a.test", entryOf(deployment)]));
      const facts = [
        {
          ...{
            host: "a.test",
            projectId: "p",
            channel: "production",
            redirectTo: null,
            gate: null,
            hsts: null,
            suspended: false,
            stopped: false,
          },
          active: {
            deploymentId: state.active,
            kind: "image" as const,
            upstreams: [upstreamOf[state.active]],
            entrances: [],
            isOver: false,
          },
        },
      ];
      const change = tableChange(before, facts);
      if (change.upserts.length > 0) {
        const [entry] = applyChange(before, change);
        const deployment = entry?.deploymentId === "new" ? ("new" as const) : ("old" as const);
        yield ["publish", { ...state, published: [...state.published, deployment] }];
      }
      const told = state.edges.map((edge) => edge.told);
      if (state.seen.generation !== generation || state.seen.told.join() !== told.join()) {
        yield ["the view follows", { ...state, seen: { generation, told } }];
      }
      for (const [at, edge] of state.edges.entries()) {
        if (edge.target < generation && !edge.inbox.includes(generation)) {
          yield [`send to ${at}`, withEdge(state, at, { inbox: [...edge.inbox, generation] })];
        }
        const [first, ...inbox] = edge.inbox;
        if (first !== undefined) {
          const whole = tableOf(state.published, first);
          const message = create(RouteTableSchema, {
            ...{ kind: RouteTable_Kind.COMPLETE, clusterEpoch: 1n, generation: BigInt(first) },
            upserts: [...whole.routes.values()],
          });
          const decision = decide(tableOf(state.published, edge.target), true, message);
          const target = "accept" in decision ? Number(decision.accept.generation) : edge.target;
          const tells = mutant === "tells before it serves" ? { told: target } : {};
          yield [`${at} accepts`, withEdge(state, at, { inbox, target, ...tells })];
        }
        if (edge.served !== edge.target) yield [`${at} serves`, withEdge(state, at, { served: edge.target })];
        if (edge.disk !== edge.served) yield [`${at} writes`, withEdge(state, at, { disk: edge.served })];
        if (edge.told !== edge.disk && mutant !== "tells before it serves")
          yield [`${at} tells`, withEdge(state, at, { told: edge.disk })];
        if (edge.crashes < limits.crashes) {
          const again = { target: edge.disk, served: edge.disk, inbox: [], crashes: edge.crashes + 1 };
          // The first thing that it says is what it serves.
          yield [`${at} starts again`, withEdge(state, at, { ...again, told: edge.disk })];
        }
      }
      if (state.active !== "new" || state.removed || state.switches < limits.switches - 1) return;
      const known = mutant === "decides on an old view" ? state.seen : { generation, told };
      const isNamed = state.published[known.generation - 1] === "old" && mutant !== "decides on an old view";
      const isLeft = known.told.every((generationTold) =>
        isCurrent({ generation: generationTold, behindHosts: [] }, known.generation, ["a.test"]),
      );
      if ((isLeft && !isNamed) || mutant === "does not wait for edges")
        yield ["remove the old containers", { ...state, removed: true }];
    },
    key: (state) => JSON.stringify(state),
    problem({ removed, edges, published }) {
      const at = edges.findIndex(({ served }) => published[served - 1] === "old");
      return removed && at >= 0 ? `edge ${at} sends visitors to what is gone` : null;
    },
  };
}
