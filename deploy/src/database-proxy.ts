import { chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Layout } from "./layout.ts";
import { nodeBinary, repositoryRoot } from "./paths.ts";
import { ensureSystemUser, privilegesOf } from "./unprivileged.ts";

const systemUser = "svc-dbproxy";

/**
 * Makes the directory of each node's database proxy, which belongs to a user of its own: by that the agent knows whom to
 * let in. Returns the options of setpriv(1) under which the proxies run; none where this user is not root.
 */
export async function layProxyDirs(layout: Pick<Layout, "databaseProxy">, nodes: number): Promise<string[]> {
  const user = process.getuid?.() === 0 ? await ensureSystemUser(systemUser) : null;
  const dirs = Array.from({ length: nodes }, (_, index) => layout.databaseProxy(index + 1));
  for (const dir of dirs) {
    await mkdir(dir, { recursive: true, mode: 0o755 });
    if (user !== null) await chown(dir, user.uid, user.gid);
  }
  const main = join(repositoryRoot, "dbproxy", "src", "main.ts");
  return user === null ? ["--no-new-privs"] : privilegesOf(user, [...dirs, nodeBinary(), main]);
}
