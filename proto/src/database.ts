// @pure
import { hostAndPort } from "./hosts.ts";
import type { Channel } from "./lifecycle.ts";

/** What a managed database may run on. */
export const databaseEngines = ["postgres", "mariadb"] as const;
export type DatabaseEngine = (typeof databaseEngines)[number];

/** How far a branch is; one that is absent has no status. */
export const databaseStatuses = ["provisioning", "ready", "dropping", "error"] as const;
export type DatabaseStatus = (typeof databaseStatuses)[number];

/** The order in which branches are listed. */
export const databaseChannels = ["production", "preview", "dev"] as const satisfies readonly Channel[];

/** The name under which apps reach the proxy of their node, and its port for each engine. */
export const databaseHost = "db.svc.internal";
export const databasePorts = { postgres: 5432, mariadb: 3306 } as const satisfies Record<DatabaseEngine, number>;

const schemes = { postgres: "postgres", mariadb: "mysql" } as const satisfies Record<DatabaseEngine, string>;

/**
 * What is named after a branch's id, and never renamed: its database, the role of its owner, and what holds its data on a
 * node. `id` is a UUID; the first 16 of its hexadecimal digits are enough to tell branches of a cluster apart.
 */
export function databaseNames(id: string): { database: string; role: string; volume: string } {
  const short = id.replaceAll("-", "").slice(0, 16);
  return { database: `d_${short}`, role: `r_${short}`, volume: `svc-db-${short}` };
}

/** The volume of a database by its generation: the first, of which there was no number once, and those that copies were restored into. */
export const databaseVolume = (id: string, generation: number): string =>
  generation <= 1 ? databaseNames(id).volume : `${databaseNames(id).volume}-${generation}`;

/** The volume of a copy, on the node that keeps it. */
export const copyVolume = (copyId: string): string => `svc-dbcopy-${copyId.replaceAll("-", "").slice(0, 16)}`;

/** The name under which a server of Postgres keeps its log for a copy, and knows how far that has it. */
export const copySlot = (copyId: string): string => `svc_copy_${copyId.replaceAll("-", "").slice(0, 16)}`;

/** Whom a database's server knows besides its administrator and its tenant: who reads it all and changes nothing. */
export const keeperUser = "svc_keeper";

/** How the rows of a table are written for whoever wants them as a file. */
export const exportFormats = ["csv", "json", "sql"] as const;

/** The address at which a driver reaches a branch, password included. Passwords are of characters that need no escape. */
export function databaseUrl(
  branch: { id: string; engine: DatabaseEngine; password: string },
  at: { host: string; port: number } = { host: databaseHost, port: databasePorts[branch.engine] },
): string {
  const { database, role } = databaseNames(branch.id);
  return `${schemes[branch.engine]}://${role}:${branch.password}@${hostAndPort(at.host, at.port)}/${database}`;
}
