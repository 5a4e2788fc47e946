import { create } from "@bufbuild/protobuf";
import {
  HstsSchema,
  PageTarget_Page,
  type Route,
  RouteSchema,
  type RouteTable,
  RouteTable_Kind,
  RouteTableSchema,
} from "@svc/proto/edge";

const base = { projectId: "p1", channel: "production", deploymentId: "d1" };

export const aProxy = (host: string, ...upstreams: string[]): Route =>
  create(RouteSchema, { ...base, host, target: { case: "proxy", value: { upstreams } } });

/** To entrances of nodes. */
export const anEntrance = (host: string, ...entrances: string[]): Route =>
  create(RouteSchema, { ...base, host, target: { case: "proxy", value: { upstreams: [...entrances], entrances } } });

export const aStatic = (host: string, digest: string, spa = false): Route =>
  create(RouteSchema, {
    ...base,
    host,
    target: { case: "static", value: { repository: "svc/p1/bundle", digest, spa } },
  });

export const aPage = (host: string, page: keyof typeof PageTarget_Page): Route =>
  create(RouteSchema, { ...base, host, target: { case: "page", value: { page: PageTarget_Page[page] } } });

export const aRedirect = (host: string, to: string): Route =>
  create(RouteSchema, { ...base, host, target: { case: "redirect", value: { host: to } } });

export const aComplete = (
  generation: number | bigint,
  routes: Route[],
  more: { epoch?: bigint; bulk?: string } = {},
): RouteTable =>
  create(RouteTableSchema, {
    kind: RouteTable_Kind.COMPLETE,
    clusterEpoch: more.epoch ?? 1n,
    generation: BigInt(generation),
    upserts: routes,
    bulkToken: more.bulk ?? "",
  });

export const aDelta = (
  appliesTo: number | bigint,
  generation: number | bigint,
  change: { upserts?: Route[]; removed?: string[]; epoch?: bigint; bulk?: string },
): RouteTable =>
  create(RouteTableSchema, {
    kind: RouteTable_Kind.DELTA,
    clusterEpoch: change.epoch ?? 1n,
    appliesTo: BigInt(appliesTo),
    generation: BigInt(generation),
    upserts: change.upserts ?? [],
    removedHosts: change.removed ?? [],
    bulkToken: change.bulk ?? "",
  });

/** The same route, of which browsers are told to use TLS alone. */
export const told = (route: Route, maxAgeSeconds: number, includeSubdomains = false): Route => ({
  ...route,
  hsts: create(HstsSchema, { maxAgeSeconds, includeSubdomains }),
});

/** The same route behind a password. */
export const guarded = (route: Route, revision: string): Route => ({ ...route, gate: revision });
