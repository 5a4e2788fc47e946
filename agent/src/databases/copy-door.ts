import { chmod, chown, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { copyVolume, type DatabaseEngine } from "@svc/proto";
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
