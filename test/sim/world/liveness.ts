import {
  hasEnded,
  isRunOver,
  keys,
  type ObservationValue,
  prefix,
  type RoutesMetaValue,
  type RunValue,
} from "@svc/control/fleet/cluster/keys";
import type { RouteEntry } from "@svc/control/fleet/cluster/route-entry";
import { Observed } from "@svc/proto/node";
import { upstreamsIn } from "../machines/caddy.ts";
import type { EdgeMachine } from "../machines/edge.ts";
import type { EtcdStore } from "../stores/etcd.ts";
import type { SiteRow, TaskRow } from "../stores/postgres.ts";
import type { World } from "./world.ts";

/** A leader's clock may be so much behind that of the database. */
const clockErrorMs = 260_000;

/** What the checks at the end look up. */
function look(world: World) {
  const { etcd, values, postgres } = world;
  const read = <T>(key: string): T | null => {
    const entry: ReturnType<EtcdStore["get"]> = etcd.get(key);
    return entry === null ? null : values.of<T>(entry.value);
  };
  const well = new Set(
    world.nodes
      .filter(({ isConnected, process, machineId }) => isConnected && process.alive && !world.isCloned(machineId))
      .map(({ nodeId }) => nodeId),
  );
  const placedOn = new Map<string, string>();
  for (const key of etcd.entries.keys()) {
    if (!key.startsWith(prefix.placements)) continue;
    const [nodeId = "", id = ""] = key.slice(prefix.placements.length).split("/");
    placedOn.set(id, nodeId);
  }
  const observation = (id: string): ObservationValue | null => {
    const nodeId = placedOn.get(id);
    return nodeId === undefined ? null : read<ObservationValue>(keys.observation(nodeId, id));
  };
  return { read, well, placedOn, observation, tables: postgres.tables };
}

/** Two minutes after the last fault: what has to be well is well. */
export function checkSettled(world: World): void {
  const seen = look(world);
  const { tables, read } = seen;
  const { checks } = world;
  const meta = read<RoutesMetaValue>(keys.routesMeta);
  for (const edge of world.edges) {
    const row = tables.nodes.get(edge.id);
    if (row?.lifecycle !== "active" || !edge.process.alive) continue;
    if (Number(edge.generation) !== (meta?.generation ?? 0))
      checks.fail(23, `${edge.id} serves table ${edge.generation}, and ${meta?.generation} is published`);
    if (!edge.caddy.isConfigured) checks.fail(23, `the Caddy of ${edge.id} has no configuration`);
    checkRoutes(world, edge);
  }
  for (const { process, nodeId, machineId, isConnected, incarnation } of world.nodes) {
    const row = tables.nodes.get(nodeId);
    const isWanted = row?.lifecycle === "active" && row.quarantinedAt === null && row.incarnation === incarnation;
    if (isWanted && process.alive && !isConnected && !world.isCloned(machineId))
      checks.fail(33, `${machineId} has no session, and could have one`);
  }
  checks.edges.checkSettled();
  checks.databases.checkSettled();
  checks.backups.checkSettled();
  checks.changes.checkSettled();
  checks.copies.checkSettled();
  for (const site of tables.sites.values()) {
    checkSite(world, seen, site);
    checkStopped(world, site);
  }
  for (const machine of world.nodes) {
    if (!seen.well.has(machine.nodeId)) continue;
    for (const { id, kind, state, name } of machine.docker.containers.values()) {
      if (kind !== "serve" || state !== "running") continue;
      const task = tables.tasks.get(id);
      if (task === undefined || task.desired === "running") continue;
      const askedMs = world.kernel.nowMs - Math.max(tables.removedAtMs.get(id) ?? 0, world.calmSinceMs);
      if (askedMs < task.drainSeconds * 1_000 + 30_000) continue;
      // Its node may have heard of it late.
      if (task.drainSeconds > 0 && machine.docker.isOpen(name)) continue;
      const orderedMs = world.kernel.nowMs - (checks.seen.stopOrderedAtMs.get(`${machine.machineId} ${id}`) ?? 0);
      if (orderedMs < 15_000) continue;
      checks.fail(24, `${machine.machineId} still runs ${id}, which is to be ${task.desired}`);
    }
  }
  for (const node of tables.nodes.values()) {
    if (node.drain !== "draining" || node.lifecycle !== "active") continue;
    const isOver = node.drainDeadline !== null && node.drainDeadline.getTime() + clockErrorMs < world.postgres.nowMs();
    const held = [...seen.placedOn].filter(([, nodeId]) => nodeId === node.id).map(([id]) => id);
    if (isOver) checks.fail(26, `the drain of ${node.id} goes on after its deadline`);
    const isEmpty = held.every((id) => {
      const said = seen.observation(id);
      return said !== null && hasEnded(said.observed);
    });
    const hasRuns = [...world.etcd.entries.keys()].some((key) => key.startsWith(keys.runs(node.id)));
    if (isEmpty && !hasRuns) checks.fail(26, `the drain of ${node.id} has not ended, and nothing is left there`);
  }
}

/** Visitors are served what is published, host by host. */
function checkRoutes({ etcd, values, checks }: World, { id, caddy }: EdgeMachine): void {
  const published = new Map<string, string>();
  for (const [key, { value }] of etcd.entries) {
    if (!key.startsWith(prefix.routeTable)) continue;
    const entry = values.of<RouteEntry>(value);
    published.set(entry.host, [...(entry.proxy?.upstreams ?? [])].sort().join(" "));
  }
  for (const host of new Set([...published.keys(), ...caddy.hosts()])) {
    const target = caddy.targetOf(host);
    const sent = target === null ? undefined : upstreamsIn(target).join(" ");
    if (sent !== published.get(host))
      checks.fail(23, `${id} sends visitors of ${host} to ${sent}, and ${published.get(host)} is published`);
  }
}

function checkStopped({ edges, checks }: World, { host }: SiteRow): void {
  for (const edge of edges) {
    const route = edge.routes.get(host);
    if (edge.process.alive && route?.target.case === "proxy" && checks.rows.isToStop(route.deploymentId))
      checks.fail(30, `${edge.id} sends visitors of ${host} to ${route.deploymentId}, which is stopped`);
  }
}

function checkSite(world: World, seen: ReturnType<typeof look>, site: SiteRow): void {
  const { checks } = world;
  const { tables, read } = seen;
  if (site.deploymentId === null) return;
  const row = tables.deployments.get(site.deploymentId);
  if (row?.status !== "running" || site.stopped) return;
  const isStorm = read<{ storm: unknown }>(keys.clusterStatus)?.storm != null;
  const entry = read<RouteEntry>(keys.route(site.host)) ?? undefined;
  const open = [...tables.open.values()].filter((task) => task.ownerId === row.id && task.desired === "running");
  for (let slot = 0; slot < row.replicas; slot += 1) {
    const current = open.filter((task) => task.replica === slot && task.retiringAt === null);
    const serving = current.filter((task) => serves(world, seen, task, entry));
    if (serving.length === 1 && current.length === 1) continue;
    if (isStorm) continue;
    const why = current.map((task) => reasonOf(world, seen, task));
    if (current.length === 0 || why.some((reason) => reason === null)) {
      const what = current.map(
        (task, index) => `${task.id} on ${seen.placedOn.get(task.id)}: ${why[index] ?? stateOf(seen, task)}`,
      );
      if (serving.length === 0)
        checks.fail(22, `${row.id} slot ${slot} is not served: ${what.join("; ") || "no container"}`);
      else if (current.length > 1 && why.every((reason) => reason === null || reason === "serves")) {
        checks.fail(22, `${row.id} slot ${slot} has ${current.length} containers: ${what.join("; ")}`);
      }
    }
  }
}

const stateOf = (seen: ReturnType<typeof look>, { id, createdAt, cause }: TaskRow): string => {
  const said = seen.observation(id);
  return `${said?.observed ?? "nothing said"} ${said?.health ?? ""} (${cause ?? "first"}, since ${createdAt.toISOString()})`;
};

function serves(world: World, seen: ReturnType<typeof look>, { id }: TaskRow, entry: RouteEntry | undefined): boolean {
  const said = seen.observation(id);
  if (said?.observed !== "running" || said.health !== "healthy" || said.upstream === null) return false;
  const machine = world.nodes.find(
    ({ nodeId, machineId }) => nodeId === seen.placedOn.get(id) && !machineId.includes("clone"),
  );
  return (
    machine?.docker.isAnswering(`svc-p-${id}`) === true && (entry?.proxy?.upstreams.includes(said.upstream) ?? false)
  );
}

/** Why a container may well not serve; null: no reason is known. */
function reasonOf(world: World, seen: ReturnType<typeof look>, task: TaskRow): string | null {
  const nodeId = seen.placedOn.get(task.id);
  const said = seen.observation(task.id);
  if (nodeId === undefined) return task.refused === null ? null : "no room";
  if (!seen.well.has(nodeId)) return "its node is away";
  if (seen.tables.nodes.get(nodeId)?.drain !== "none") return "its node is being emptied";
  if (said !== null && hasEnded(said.observed)) return "it has ended, and is tried again ever more rarely";
  if (said?.health === "backoff") return "it waits after a crash";
  // A container is proved, and tried again after a failure of its engine, with growing pauses.
  const sinceMs = said === null ? task.createdAt.getTime() : Date.parse(said.changedAt);
  if (Math.abs(world.postgres.nowMs() - sinceMs) < 60_000) return "it is on its way";
  // Clocks that were set wrong say otherwise.
  const placedMs = world.kernel.nowMs - (world.checks.seen.placedAtMs.get(task.id) ?? 0);
  if (placedMs < 60_000) return "it was placed a moment ago";
  const record = world.nodes.find((machine) => machine.nodeId === nodeId)?.disk.state.placements.get(task.id);
  if (record !== undefined && record.memory.retryAtMs > (world.machineOf(nodeId)?.process.wallMs() ?? 0))
    return "it waits after a failure";
  return null;
}

/** The slowest deadlines are over, and nothing has happened for a while. */
export function checkRest(
  world: World,
  before: { writes: number; assigns: number; resyncs: Map<string, number> },
): void {
  const { checks, etcd, values, postgres } = world;
  const seen = look(world);
  for (const [key, entry] of etcd.entries) {
    if (!key.startsWith(prefix.runs)) continue;
    const [nodeId = ""] = key.slice(prefix.runs.length).split("/");
    const run = values.of<RunValue>(entry.value);
    // An offer that nobody answers is waited for as long as the largest image may take to fetch.
    // One whose deployment is over, left by a write that came late, is swept up within the hour; nobody grants it.
    const status = postgres.tables.deployments.get(run.ownerId)?.status;
    if (run.state === "accepted" && status !== "deploying") continue;
    // What went live after all jobs were switched off has jobs of its own.
    if (checks.jobs.hasBegunLately(run.attemptId)) continue;
    if (seen.well.has(nodeId) && run.state !== "offered" && !isRunOver(run.state))
      checks.fail(25, `${run.attemptId} is still ${run.state} on ${nodeId}`);
  }
  for (const machine of world.nodes) {
    if (!seen.well.has(machine.nodeId)) continue;
    for (const { id, name } of machine.docker.containers.values()) {
      const { drainSeconds = 0 } = postgres.tables.tasks.get(id) ?? {};
      const removedAtMs = postgres.tables.removedAtMs.get(id) ?? null;
      const askedMs = world.kernel.nowMs - Math.max(removedAtMs ?? world.kernel.nowMs, world.calmSinceMs);
      if (machine.docker.isOpen(name) && askedMs > drainSeconds * 1_000 + 120_000)
        checks.fail(31, `${machine.machineId} drains ${id} for ${Math.round(askedMs / 1_000)} s, of ${drainSeconds} s`);
    }
    for (const { state, offer } of machine.disk.state.runs.values()) {
      if (state === "intent") checks.fail(25, `${machine.machineId} keeps ${offer.attemptId} as ${state}`);
    }
    if (machine.disk.state.placements.size > 1_000)
      checks.fail(20, `${machine.machineId} remembers ${machine.disk.state.placements.size} placements`);
    if (machine.disk.state.runs.size > 100)
      checks.fail(20, `${machine.machineId} remembers ${machine.disk.state.runs.size} attempts`);
    const pending = machine.reporter?.backlog() ?? 0;
    if (pending > 0) checks.fail(28, `${machine.machineId} has ${pending} reports that nobody acknowledges`);
  }
  for (const [nodeId, count] of checks.agents.resyncs) {
    if (count - (before.resyncs.get(nodeId) ?? 0) > 1)
      checks.fail(27, `${nodeId} asked ${count - (before.resyncs.get(nodeId) ?? 0)} times to begin again`);
  }
  for (const edge of world.edges)
    if (edge.resyncs > 40) checks.fail(27, `${edge.id} asked ${edge.resyncs} times to begin again`);
  const writes = etcd.writes - before.writes;
  const isMoving = [...postgres.tables.open.values()].some(
    ({ createdAt }) => postgres.nowMs() - createdAt.getTime() < 100_000,
  );
  const isFailing = [...etcd.entries].some(
    ([key, entry]) =>
      key.startsWith(prefix.observations) && values.of<ObservationValue>(entry.value).health === "backoff",
  );
  // A scheduler for which something waits without room writes its turn every two seconds.
  if (!isMoving && !isFailing && writes > 25) checks.fail(28, `${writes} writes in 40 s at rest`);
  void Observed;
}
