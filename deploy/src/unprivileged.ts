import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { CommandError, run } from "@svc/runtime/command";

/** A system user without rights or a home. */
export interface SystemUser {
  uid: number;
  gid: number;
}

/** The user's numbers, or null when there is no such user. */
async function findUser(name: string): Promise<SystemUser | null> {
  try {
    const { stdout } = await run(["getent", "passwd", name]);
    const [, , uid, gid] = stdout.split(":");
    return { uid: Number(uid), gid: Number(gid) };
  } catch (error) {
    if (error instanceof CommandError) return null;
    throw error;
  }
}

/** The system user of that name, made when missing. Needs root. */
export async function ensureSystemUser(name: string): Promise<SystemUser> {
  const found = await findUser(name);
  if (found !== null) return found;
  await run([
    "useradd",
    "--system",
    "--user-group",
    "--no-create-home",
    "--home-dir",
    "/nonexistent",
    "--shell",
    "/usr/sbin/nologin",
    name,
  ]);
  const made = await findUser(name);
  if (made === null) throw new Error(`the system user ${name} could not be made`);
  return made;
}

/** Whether everybody may pass through every directory above `path`. */
async function isReachable(path: string): Promise<boolean> {
  for (let dir = dirname(path); ; dir = dirname(dir)) {
    const { mode } = await stat(dir);
    if ((mode & 0o001) === 0) return false;
    if (dir === dirname(dir)) return true;
  }
}

/** The last one makes access(2), too, count the capability, as initdb does when it looks for its companions. */
const lookThrough = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--securebits=+no_setuid_fixup"];

/**
 * Options of setpriv(1) under which a command runs as `user`. When one of `paths` lies below a directory
 * that others may not enter (a checkout in /root), the command keeps the one capability to look
 * through directories; it still cannot write anything that is not the user's.
 */
export async function privilegesOf(user: SystemUser, paths: readonly string[]): Promise<string[]> {
  const reachable = (await Promise.all(paths.map(isReachable))).every(Boolean);
  return [
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    "--clear-groups",
    "--no-new-privs",
    ...(reachable ? [] : lookThrough),
  ];
}
