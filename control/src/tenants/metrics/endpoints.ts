import { idParams, metricsQuery, metricsReply, resourcesQuery, resourcesReply } from "@svc/proto";
import { planOfUser } from "../../identity/plans/of-user.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { metricsOf, metricsRange, rangeOf } from "./rules.ts";
import { readCurrent, readDisk, readResources, readTraffic, type Scope } from "./store.ts";

const access = { scope: "metrics:read" } as const;

const scopeOf = (projectId: string, { channel }: Pick<Scope, "channel">): Scope => ({
  projectId,
  ...(channel !== undefined && { channel }),
});

const metrics = endpoint({
  method: "GET",
  path: "/projects/:id/metrics",
  access,
  summary: "What visitors asked for, by hour or day; buckets without a request are left out.",
  params: idParams,
  query: metricsQuery,
  reply: metricsReply,
  async handle({ db, clock }, { caller, params, query }) {
    const { id } = await getProject(db, caller, params.id);
    const range = metricsRange(query, clock.now());
    return { metrics: metricsOf(range.bucketSize, await readTraffic(db, scopeOf(id, query), range)) };
  },
});

const resources = endpoint({
  method: "GET",
  path: "/projects/:id/resources",
  access,
  summary: "What containers took of processor and memory, by hour or day, what they take now, and what they may.",
  params: idParams,
  query: resourcesQuery,
  reply: resourcesReply,
  async handle({ db, clock }, { caller, params, query }) {
    const { id, owner_id } = await getProject(db, caller, params.id);
    const now = clock.now();
    const scope = scopeOf(id, query);
    const range = rangeOf(query.span, now);
    const plan = await planOfUser(db, owner_id);
    return {
      resources: {
        bucketSize: range.bucketSize,
        series: await readResources(db, scope, range),
        current: await readCurrent(db, scope, now),
        disk: await readDisk(db, id),
        limits: {
          memoryMb: plan.memory_mb,
          cpuMillicores: plan.cpu_millicores,
          pidsLimit: plan.pids_limit,
          storageMb: plan.storage_mb,
        },
      },
    };
  },
});

export const metricsEndpoints = [metrics, resources];
