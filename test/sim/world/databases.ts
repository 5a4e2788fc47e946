import { adminSecretAad, pendingSecretAad, tenantSecretAad } from "@svc/control/fleet/databases/secrets";
import {
  beginRotation,
  dropBranches,
  insertBranch,
  retryBranch,
  type Tx,
  wakeBranch,
} from "@svc/control/tenants/databases/testing/memory/tables";
import { virtualSecrets } from "../control/database-admin.ts";
import type { Replica } from "../control/replica.ts";
import { transactOf } from "../control/transact.ts";
import { enter } from "../kernel/ports.ts";
import { at, type Random } from "../kernel/random.ts";
import type { AgentMachine } from "../machines/agent.ts";
import type { Deed } from "./schedule.ts";
import type { World } from "./world.ts";

/** What may be done to databases, and how often per minute at most. */
export const databaseDeeds = {
  createDatabase: 4,
  rotateDatabase: 4,
  dropDatabase: 0.6,
  fillDatabase: 1,
  suspendDatabase: 0.7,
  endKeeping: 1,
  crashServer: 1.5,
  rebootItsNode: 0.8,
  loseItsData: 0.25,
  crashGate: 1,
} as const;

/** What holds of servers for a whole run, as a share. */
export const databaseRates = { rateServerUnknown: 0.15, rateServerSlow: 0.2 } as const;

type DatabaseDeed = keyof typeof databaseDeeds | keyof typeof databaseRates;

/** Troubles of what the platform does in servers. */
export interface ServerTrouble {
  /** Share of what is done whose answer is lost, or which is. */
  unknownShare: number;
  slowShare: number;
}

export const isDatabaseDeed = (kind: string): kind is DatabaseDeed => kind in databaseDeeds || kind in databaseRates;

/** Does one thing to databases, their servers, or the gates before them. */
export function actOnDatabases(world: World, kind: DatabaseDeed, { a, b, ms, x }: Deed): void {
  const { trouble, nodes } = world;
  const replica = world.replicas.find(({ process }, index) => process.alive && index >= b % world.replicas.length);
  const inTables = (work: (tx: Tx) => void): void => void (replica !== undefined && change(replica, work));
  /** Of the branches that are there, one. */
  const ofBranch = (work: (tx: Tx, branch: NonNullable<ReturnType<Tx["tables"]["branches"]["rows"]["get"]>>) => void) =>
    inTables((tx) => {
      const branch = at([...tx.tables.branches.rows.values()], a);
      if (branch !== undefined) work(tx, branch);
    });
  /** A node that has the data of one of them. */
  const nodeOf = (index: number): AgentMachine | undefined => {
    const homes = [...world.postgres.tables.branches.rows.values()].flatMap(({ node_id }) => node_id ?? []);
    return nodes.find(({ nodeId }) => nodeId === at(homes, index));
  };
  switch (kind) {
    case "rateServerUnknown":
      trouble.servers.unknownShare = x;
      return;
    case "rateServerSlow":
      trouble.servers.slowShare = x;
      return;
    case "createDatabase":
      inTables((tx) => create(world, tx, a, x < 0.2 ? "postgres" : "mariadb"));
      return;
    case "rotateDatabase":
      ofBranch((tx, { id, status }) => {
        if (status !== "ready") return;
        beginRotation(tx, id, virtualSecrets.seal(somePassword(world.databaseRandom), pendingSecretAad(id)));
      });
      return;
    case "dropDatabase":
      ofBranch((tx, { project_id }) => dropBranches(tx, project_id, "production"));
      return;
    case "fillDatabase":
      ofBranch((tx, branch) => {
        tx.tables.branches.change(branch.id, { read_only: !branch.read_only });
        wakeBranch(tx, branch);
      });
      return;
    case "suspendDatabase":
      ofBranch((tx, branch) => {
        const { branches } = tx.tables;
        const { id, project_id: projectId, status } = branch;
        if (branches.suspended.delete(projectId)) {
          if (status === "provisioning") branches.change(id, { status_at: tx.now });
        } else branches.suspended.add(projectId);
        wakeBranch(tx, branch);
      });
      return;
    case "endKeeping":
      inTables(({ tables, now }) => {
        const purgeAt = new Date(now.getTime() - 3_600_000);
        for (const volume of tables.branches.volumes.values())
          if (volume.state !== "current") Object.assign(volume, { purgeAt });
        for (const copy of tables.branches.copies.values())
          if (copy.state === "ended") tables.branches.copies.set(copy.id, { ...copy, purge_at: purgeAt });
      });
      return;
    case "crashServer":
      nodeOf(a)?.docker.crashProgram(b, "database");
      return;
    case "rebootItsNode": {
      const node = nodeOf(a);
      node?.powerOff();
      world.kernel.at(Math.min(Math.max(ms, 3_000), 15_000), "power on", () => node?.powerOn());
      return;
    }
    case "loseItsData":
      nodeOf(a)?.docker.loseData();
      return;
    case "crashGate":
      at(nodes, a)?.gate.restart(Math.min(ms, 5_000));
      return;
  }
}

/** Somebody asks for the database of a site's production, as the API would take it. */
function create(world: World, tx: Tx, index: number, engine: "postgres" | "mariadb"): void {
  const { branches, sites } = tx.tables;
  const projectId = at([...sites.values()], index)?.projectId;
  if (projectId === undefined) return;
  const [known] = branches.ofProject(projectId);
  if (known?.status === "error") {
    retryBranch(tx, known.id);
    wakeBranch(tx, known);
  }
  if (known !== undefined) return;
  const random = world.databaseRandom;
  const digits = (count: number) => Array.from({ length: count }, () => random.int(0, 15).toString(16)).join("");
  const id = `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-${digits(12)}`;
  const seal = (aad: string) => virtualSecrets.seal(somePassword(random), aad);
  const secrets = { admin_secret: seal(adminSecretAad(id)), secret: seal(tenantSecretAad(id)) };
  insertBranch(tx, { id, project_id: projectId, channel: "production", engine, ...secrets });
  const row = branches.rows.get(id);
  if (row !== undefined) wakeBranch(tx, row);
}

const somePassword = (random: Random): Buffer => Buffer.from(`password ${random.next()}`);

const change = (replica: Replica, work: (tx: Tx) => void): void =>
  enter(replica.process, () => void transactOf(replica)((tx) => work(tx)).catch(() => {}));
