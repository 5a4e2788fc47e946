import { createHash } from "node:crypto";
import { chmod, chown, mkdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { type Ids, rootOfContainers } from "../engine/context-owner.ts";
import type { EngineDescription, Owner } from "../engine/engine.ts";

/** In memory, and short whatever the agent's own directory is: the kernel takes 107 bytes for the path of a socket. */
const root = "/run/svc-capture";
/** Who browsers run as in their containers; deploy/src/capture-image.ts makes the image so. */
const browserId = 998;

/** Of one agent: several may share a machine. */
const ownDir = ({ clusterId, nodeId }: Owner): string =>
  join(root, createHash("sha256").update(`${clusterId}/${nodeId}`).digest("hex").slice(0, 12));

/** The directory that the browser of a capture, and nobody else, has at /way. */
export const wayDirOf = (owner: Owner, placementId: string): string =>
  join(ownDir(owner), createHash("sha256").update(placementId).digest("hex").slice(0, 24));

/** The socket in it, which is the browser's only way out. */
export const waySocketOf = (owner: Owner, placementId: string): string => join(wayDirOf(owner, placementId), "edge");

/** Makes the directory, in which nobody but the browser gets anywhere. Needs root. */
export async function layWayDir(
  owner: Owner,
  placementId: string,
  engine: Pick<EngineDescription, "isRemapped" | "rootDir">,
): Promise<void> {
  const directory = wayDirOf(owner, placementId);
  await mkdir(directory, { recursive: true, mode: 0o711 });
  const { uid, gid } = browserIds(engine);
  await chown(directory, uid, gid);
  await chmod(directory, 0o500);
}

/** Has the browser connect to the socket, and nobody else. */
export async function openToBrowser(
  path: string,
  engine: Pick<EngineDescription, "isRemapped" | "rootDir">,
): Promise<void> {
  const { uid, gid } = browserIds(engine);
  await chown(path, uid, gid);
  await chmod(path, 0o600);
}

/** Fine when it is gone. */
export async function removeWayDir(owner: Owner, placementId: string): Promise<void> {
  await rm(wayDirOf(owner, placementId), { recursive: true, force: true });
  // Unless it has others of the same agent.
  await rmdir(ownDir(owner)).catch(() => {});
}

function browserIds(engine: Pick<EngineDescription, "isRemapped" | "rootDir">): Ids {
  const { uid, gid } = rootOfContainers(engine);
  return { uid: uid + browserId, gid: gid + browserId };
}
