import type { CopyBase } from "@svc/control/stores/db/columns";
import { endCopy, setCopy } from "@svc/control/tenants/databases/testing/memory/copies";
import type { DatabaseTables, Tx } from "@svc/control/tenants/databases/testing/memory/tables";
import { admitDial, isHere, type Purpose } from "@svc/dbproxy/table/admission";
import type { DatabaseEngine } from "@svc/proto";
import type { Random } from "../kernel/random.ts";
import type { World } from "../world/world.ts";
import { machineIdOf } from "./addresses.ts";
import type { AgentMachine } from "./agent.ts";
import type { Container } from "./docker.ts";
import type { Volume, Write } from "./servers.ts";

type Copy = NonNullable<ReturnType<DatabaseTables["branches"]["copies"]["get"]>>;

/** Where the log of a server is, in its own words. */
export const positionOf = (engine: DatabaseEngine, last: Write | null): string => {
  const number = last?.number ?? 0;
  return engine === "postgres" ? `0/${number.toString(16).toUpperCase()}` : `0-1-${number}`;
};

/** A whole copy, as a keeper tells of it. */
const bases: CopyBase[] = [{ number: 1, at: "2026-01-01T00:00:00.000Z", bytes: 1 }];
const tellEveryMs = 60_000;
const keptHours = 168;

/** The server of a database that a gate lets in to, by its own machine's gate or over that of the server's. */
export function serverBehind(
  world: World,
  origin: AgentMachine,
  databaseId: string,
  purpose: Purpose,
): { machine: AgentMachine; container: Container; volume: Volume; epoch: string } | null {
  const entry = origin.gate.entryOf(databaseId);
  if (entry?.at == null) return null;
  const { epoch, at } = entry;
  const machine = isHere(entry)
    ? origin
    : world.nodes.find((each) => "nodeId" in at && machineIdOf(each.nodeId) === at.nodeId);
  const far = machine?.gate.entryOf(databaseId);
  if (machine === undefined || machine.isOff || origin.isOff || far?.at == null || !("socket" in far.at)) return null;
  const admitted = admitDial(far, { ...purpose, epoch }, machineIdOf(origin.nodeId));
  if (admitted !== "pass") return null;
  const { socket } = far.at;
  const { docker } = machine;
  const container = docker.only(({ server, name }) => server?.socketPath === socket && docker.isAnswering(name));
  const volume = docker.databases.volumes.get(container?.server?.volume ?? "");
  return container === undefined || volume === undefined ? null : { machine, container, volume, epoch };
}

/**
 * Who keeps copies of databases, on every machine: what the product's work on copies and its keepers come to, and nothing in between.
 * A copy is placed, is made whole, follows through the gates as long as it is let in, and its machine tells of it.
 */
export class Keepers {
  private readonly toldAtMs = new Map<string, number>();
  private readonly wholeAtMs = new Map<string, number>();
  private readonly stalledUntilMs = new Map<string, number>();
  private readonly world: World;
  private readonly random: Random;

  constructor(world: World, random: Random) {
    this.world = world;
    this.random = random;
  }

  /** Looks after all copies once. */
  look(): Array<(tx: Tx) => void> {
    const { tables } = this.world.postgres;
    return [...tables.branches.copies.values()].flatMap((copy) =>
      copy.state === "ended" ? [] : (this.keep(copy) ?? []),
    );
  }

  private keep(copy: Copy): ((tx: Tx) => void) | null {
    const { world } = this;
    const { nodes, branches } = world.postgres.tables;
    const branch = branches.rows.get(copy.database_id);
    const isGone = copy.node_id !== null && nodes.get(copy.node_id)?.lifecycle !== "active";
    if (branch === undefined || branch.generation !== copy.generation || isGone)
      return (tx) => endCopy(tx, copy.id, keptHours);
    if (copy.node_id === null) {
      const apart = new Set([branch.node_id, ...branches.copiesOf(branch.id).map(({ node_id }) => node_id)]);
      const free = [...nodes.values()].filter(
        ({ id, role, lifecycle, schedulable }) =>
          role === "node" && lifecycle === "active" && schedulable && !apart.has(id),
      );
      if (free.length === 0) return null;
      const { id } = this.random.pick(free);
      return (tx) => this.change(tx, copy, { node_id: id });
    }
    const machine = world.nodes.find(({ nodeId, machineId }) => nodeId === copy.node_id && !world.isCloned(machineId));
    if (machine === undefined || machine.isOff || !machine.docker.isUp) return null;
    this.follow(copy, machine);
    return machine.isConnected ? this.tell(copy, machine) : null;
  }

  private follow({ id: copyId, database_id }: Copy, machine: AgentMachine): void {
    const { copies } = machine.docker.databases;
    const { world } = this;
    const { kernel, postgres } = world;
    const source = serverBehind(world, machine, database_id, { purpose: "copy", copyId });
    if (source === null || kernel.nowMs < (this.stalledUntilMs.get(copyId) ?? 0)) return;
    // Now and then it has something else to do than to follow: a whole copy, or a slow disk.
    if (this.random.chance(world.isCalm ? 0.01 : 0.06))
      this.stalledUntilMs.set(copyId, kernel.nowMs + this.random.between(1_000, 14_000));
    if (!copies.has(copyId)) {
      copies.set(copyId, null);
      this.wholeAtMs.set(copyId, kernel.nowMs + this.random.between(1_000, 8_000));
    }
    if (kernel.nowMs < (this.wholeAtMs.get(copyId) ?? 0)) return;
    const { last, role } = source.volume;
    copies.set(copyId, { last, role: role && { ...role }, atMs: postgres.nowMs() });
  }

  private tell(copy: Copy, machine: AgentMachine): ((tx: Tx) => void) | null {
    const { id, engine } = copy;
    const copied = machine.docker.databases.copies.get(id) ?? null;
    const position = copied && positionOf(engine, copied.last);
    const state = copied === null ? ("basing" as const) : ("following" as const);
    const isNews = position !== copy.position || state !== copy.state;
    if (!isNews && this.world.kernel.nowMs - (this.toldAtMs.get(id) ?? 0) < tellEveryMs) return null;
    this.toldAtMs.set(id, this.world.kernel.nowMs);
    const covered_at = copied && new Date(copied.atMs);
    return (tx) => this.change(tx, copy, { state, position, covered_at, bases: copied === null ? [] : bases });
  }

  /** As long as it has not ended. */
  private change(tx: Tx, { id }: Copy, change: Partial<Copy>): void {
    const now = tx.tables.branches.copies.get(id);
    if (now !== undefined && now.state !== "ended") setCopy(tx, { ...now, ...change });
  }
}
