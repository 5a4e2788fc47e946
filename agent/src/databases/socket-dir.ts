import { createHash } from "node:crypto";
import { chmod, chown, mkdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { type DatabaseEngine, databaseNames } from "@svc/proto";
import { type Ids, rootOfContainers } from "../engine/context-owner.ts";
import type { EngineDescription, Owner } from "../engine/engine.ts";

/** In memory, and short whatever the agent's own directory is: the kernel takes 107 bytes for the path of a socket. */
const root = "/run/svc-db";
export const socketNames = { postgres: ".s.PGSQL.5432", mariadb: "mysqld.sock" } as const satisfies Record<
  DatabaseEngine,
  string
>;

/** Who servers run as in their containers; deploy/src/database-image.ts makes the images so. */
const serverId = 999;

/** Of one agent: several may share a machine. */
export const ownDir = ({ clusterId, nodeId }: Owner): string =>
  join(root, createHash("sha256").update(`${clusterId}/${nodeId}`).digest("hex").slice(0, 12));

/** The directory that a database's server, and nobody else's, has at /socket. */
export const socketDirOf = (owner: Owner, databaseId: string): string =>
  join(ownDir(owner), databaseNames(databaseId).volume.slice("svc-db-".length));

/** Where the server of a database listens. */
export const socketPathOf = (owner: Owner, databaseId: string, engine: DatabaseEngine): string =>
  join(socketDirOf(owner, databaseId), socketNames[engine]);

/**
 * Makes the directory of a database's socket, or what a reboot left of it right: the server may write there, the members
 * of `groupId` may connect, and nobody else of this machine gets past it. Needs root.
 *
 * @param groupId of the database proxy
 */
export async function laySocketDir(
  owner: Owner,
  databaseId: string,
  engine: Pick<EngineDescription, "isRemapped" | "rootDir">,
  groupId: number,
): Promise<void> {
  const directory = socketDirOf(owner, databaseId);
  await mkdir(directory, { recursive: true, mode: 0o711 });
  const { uid } = serverIds(engine);
  // First the owner: one that is new must not find open what was open to the one before.
  await chown(directory, uid, groupId);
  await chmod(directory, 0o710);
}

/** Fine when it is gone. */
export async function removeSocketDir(owner: Owner, databaseId: string): Promise<void> {
  await rm(socketDirOf(owner, databaseId), { recursive: true, force: true });
  // Unless it has others of the same agent.
  await rmdir(ownDir(owner)).catch(() => {});
}

/** Whom this machine takes a server for. */
export function serverIds(engine: Pick<EngineDescription, "isRemapped" | "rootDir">): Ids {
  const { uid, gid } = rootOfContainers(engine);
  return { uid: uid + serverId, gid: gid + serverId };
}
