/** Numbers of a user and a group. */
export type Ids = { uid: number; gid: number };

const ROOT: Ids = { uid: 0, gid: 0 };
/** BuildKit 0.13, which maps the owners in a context by itself. */
const MAPS_SINCE = 26;

type EngineFacts = { version: string; isRemapped: boolean; rootDir: string };

/** Whether the engine gives what it unpacks, a context or an archive, to the users of the build. */
export const mapsOwners = ({ version, isRemapped }: Omit<EngineFacts, "rootDir">): boolean =>
  !isRemapped || Number.parseInt(version, 10) >= MAPS_SINCE;

/**
 * Who has to own the entries of a build context so that they are root's in the build. An older engine that remaps users
 * unpacks a context without mapping the owners, and what it takes for root's is nobody's there.
 */
export function contextOwner(engine: EngineFacts): Ids {
  if (mapsOwners(engine)) return ROOT;
  // Its data lies in a directory that is named for the user that its containers' root is.
  const [, uid, gid] = /\/(\d+)\.(\d+)$/.exec(engine.rootDir) ?? [];
  return uid === undefined || gid === undefined ? ROOT : { uid: Number(uid), gid: Number(gid) };
}
