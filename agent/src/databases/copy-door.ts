import { chmod, chown, mkdir, readdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { copyVolume, type DatabaseEngine } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import type { Ids } from "../engine/context-owner.ts";
import type { EngineDescription, Owner } from "../engine/engine.ts";
import { ownDir, serverIds, socketNames } from "./socket-dir.ts";

/** Where the database proxy of this node lets the keeper of a copy in, and the directory that the keeper has at /socket. */
export function copyDoorOf(owner: Owner, copyId: string, engine: DatabaseEngine): { dir: string; socket: string } {
  const dir = join(ownDir(owner), copyVolume(copyId).slice("svc-db".length));
  return { dir, socket: join(dir, socketNames[engine]) };
}

/**
 * Makes the directory of a copy's door, or what a reboot left of it right: the proxy may listen there, the keeper may connect,
 * and nobody else of this machine gets past it. Needs root.
 */
export async function layCopyDoor(
  owner: Owner,
  copyId: string,
  engine: Pick<EngineDescription, "isRemapped" | "rootDir">,
  proxy: Ids,
): Promise<void> {
  const { dir } = copyDoorOf(owner, copyId, "postgres");
  await mkdir(dir, { recursive: true, mode: 0o711 });
  // What is made there gets the directory's group.
  await chown(dir, proxy.uid, serverIds(engine).gid);
  await chmod(dir, 0o2710);
}

/** Fine when it is gone. */
export const removeCopyDoor = (owner: Owner, copyId: string): Promise<void> =>
  rm(copyDoorOf(owner, copyId, "postgres").dir, { recursive: true, force: true });

/** Removes the doors of all copies but these. */
export async function removeOtherCopyDoors(owner: Owner, copyIds: readonly string[]): Promise<void> {
  const kept = new Set(copyIds.map((copyId) => basename(copyDoorOf(owner, copyId, "postgres").dir)));
  for (const name of await directoriesOf(ownDir(owner))) {
    // What has no such name is a server's.
    if (!name.startsWith("copy-") || kept.has(name)) continue;
    await rm(join(ownDir(owner), name), { recursive: true, force: true });
  }
}

async function directoriesOf(dir: string): Promise<string[]> {
  try {
    return await readdir(dir);
  } catch (cause) {
    if (isFileError(cause, "ENOENT")) return [];
    throw cause;
  }
}
