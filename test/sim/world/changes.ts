import {
  requestCancel,
  requestMove,
  requestRestore,
  requestUpgrade,
} from "@svc/control/tenants/databases/testing/memory/change-requests";
import { dropBranches, type Tx } from "@svc/control/tenants/databases/testing/memory/tables";
import { mayStay } from "@svc/dbproxy/table/admission";
import { transactOf } from "../control/transact.ts";
import { enter } from "../kernel/ports.ts";
import { at, type Random } from "../kernel/random.ts";
import { machineIdOf } from "../machines/addresses.ts";
import type { AgentMachine } from "../machines/agent.ts";
import { serverBehind } from "../machines/keepers.ts";
import type { Deed } from "./schedule.ts";
import type { World } from "./world.ts";

/** What may be done that changes where databases are, and how often per minute at most. */
export const changeDeeds = {
  moveDatabase: 5,
  restoreDatabase: 1,
  upgradeServer: 1,
  cancelChange: 0.8,
  cutItsMachines: 1.5,
  crashItsAgents: 1.5,
} as const;

type ChangeDeed = keyof typeof changeDeeds;
export const isChangeDeed = (kind: string): kind is ChangeDeed => kind in changeDeeds;

type Branch = NonNullable<ReturnType<Tx["tables"]["branches"]["rows"]["get"]>>;

/** In a transaction of a replica that is there; what is refused is not done. */
export function inTables(world: World, index: number, work: (tx: Tx) => void): void {
  const replica = world.replicas.find(({ process }, own) => process.alive && own >= index % world.replicas.length);
  if (replica !== undefined) enter(replica.process, () => void transactOf(replica)(work).catch(() => {}));
}

/** Asks for one change of a database, or does something to the machines of one that is under way. */
export function actOnChanges(world: World, kind: ChangeDeed, { a, b, ms, x }: Deed): void {
  const ofBranch = (work: (tx: Tx, branch: Branch) => void): void =>
    inTables(world, b, (tx) => {
      const branch = at([...tx.tables.branches.rows.values()], a);
      if (branch !== undefined) work(tx, branch);
    });
  switch (kind) {
    case "moveDatabase":
      ofBranch((tx, branch) => void requestMove(tx, branch, x < 0.4 ? null : (at(world.nodes, b)?.nodeId ?? null)));
      return;
    case "restoreDatabase":
      ofBranch((tx, branch) => void requestRestore(tx, branch));
      return;
    case "upgradeServer":
      ofBranch((tx, branch) => void requestUpgrade(tx, branch, `svc/${branch.engine}-next`));
      return;
    case "cancelChange":
      inTables(world, b, (tx) => {
        const { changes, rows } = tx.tables.branches;
        const open = [...changes.values()].filter(({ ended_at }) => ended_at === null);
        const branch = rows.get(at(open, a)?.database_id ?? "");
        if (branch !== undefined) requestCancel(tx, branch);
      });
      return;
    case "cutItsMachines":
      for (const machine of machinesUnderChange(world, a))
        for (const { name } of world.replicas) {
          world.network.close(machine.process.id, name, Math.min(ms, 30_000));
          world.network.close(name, machine.process.id, Math.min(ms, 30_000));
        }
      return;
    case "crashItsAgents":
      for (const machine of machinesUnderChange(world, a)) {
        machine.crash(x < 0.8);
        world.kernel.at(Math.min(ms, 10_000), "start again", () => machine.start());
      }
      return;
  }
}

/** One or both of the machines of a change that is under way. */
function machinesUnderChange(world: World, index: number): AgentMachine[] {
  const { changes, copies } = world.postgres.tables.branches;
  const change = at(
    [...changes.values()].filter(({ ended_at }) => ended_at === null),
    index,
  );
  const ids = [change?.from_node, change?.to_node ?? copies.get(change?.copy_id ?? "")?.node_id];
  return world.nodes.filter(({ nodeId }) => ids.includes(nodeId) && (index % 3 === 0 || ids[index % 2] === nodeId));
}

const lookEveryMs = 500;

interface Session {
  databaseId: string;
  origin: AgentMachine;
  found: NonNullable<ReturnType<typeof serverBehind>>;
  startedAtMs: number;
  ended: number;
}

/** Apps that write to databases. */
export class Writers {
  private readonly sessions = new Map<string, Session>();
  private readonly random: Random;
  private readonly world: World;
  private writes = 0;

  constructor(world: World) {
    this.world = world;
    this.random = world.kernel.random.fork("apps");
  }

  start(): void {
    const { world } = this;
    const { branches } = world.postgres.tables;
    for (const { id } of branches.rows.values()) if (this.random.chance(0.4)) this.write(id);
    world.kernel.at(lookEveryMs, "apps", () => this.start());
  }

  private write(databaseId: string): void {
    const { world, random } = this;
    let session = this.sessions.get(databaseId);
    if (session === undefined || !this.isOpen(session) || random.chance(0.05)) {
      session = this.open(databaseId, random.pick(world.nodes)) ?? undefined;
      if (session === undefined) return;
      this.sessions.set(databaseId, session);
    }
    const { volume, container, machine } = session.found;
    if (container.server?.readOnly === true) return;
    this.writes += 1;
    volume.last = { number: this.writes, atMs: world.postgres.nowMs(), before: volume.last };
    world.checks.changes.onWrite(volume, container, machine);
  }

  private open(databaseId: string, origin: AgentMachine): Session | null {
    const found = serverBehind(this.world, origin, databaseId, { purpose: "session" });
    if (found === null || found.volume.role?.isLocked !== false) return null;
    return { databaseId, origin, found, startedAtMs: found.container.startedAtMs, ended: found.volume.ended };
  }

  private isOpen({ databaseId, origin, found, startedAtMs, ended }: Session): boolean {
    const { machine, container, volume, epoch } = found;
    const of = { nodeId: machineIdOf(origin.nodeId) };
    const isLetIn = [origin, machine].every(
      ({ isOff, gate }) =>
        !isOff && mayStay({ databaseId, epoch, of }, gate.entryOf(databaseId) ?? undefined, gate.gone),
    );
    const isSame = container.startedAtMs === startedAtMs && machine.docker.isAnswering(container.name);
    return isLetIn && isSame && volume.ended === ended;
  }
}

/** What is still under way is ended, so that the rest is one: what has its next volume already, and no machine, with its database. */
export function restChanges(world: World): void {
  const { tables, now } = world.postgres;
  const tx: Tx = { tables, now: now(), notify() {} };
  for (const change of tables.branches.changes.values()) {
    const branch = tables.branches.rows.get(change.database_id);
    if (change.ended_at !== null || branch === undefined) continue;
    if (change.state === "restoring" || change.state === "stopping") dropBranches(tx, branch.project_id);
    else requestCancel(tx, branch);
  }
}
