/** Numbers of a user and a group. */
export interface Ids {
  uid: number;
  gid: number;
}

const root: Ids = { uid: 0, gid: 0 };
/** BuildKit 0.13, which maps the owners in a context by itself. */
const mapsSince = 26;

/**
 * Who has to own the entries of a build context so that they are root's in the build. An older engine that remaps users
 * unpacks a context without mapping the owners, and what it takes for root's is nobody's there.
 */
export function contextOwner(engine: { version: string; isRemapped: boolean; rootDir: string }): Ids {
  return Number.parseInt(engine.version, 10) >= mapsSince ? root : rootOfContainers(engine);
}

/** Who the root of every container is outside of it. */
export function rootOfContainers({ isRemapped, rootDir }: { isRemapped: boolean; rootDir: string }): Ids {
  if (!isRemapped) return root;
  // Its data lies in a directory that is named for the user that its containers' root is.
  const [, uid, gid] = /\/(\d+)\.(\d+)$/.exec(rootDir) ?? [];
  return uid === undefined || gid === undefined ? root : { uid: Number(uid), gid: Number(gid) };
}
