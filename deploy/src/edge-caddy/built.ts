import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defaultCacheDir, repositoryRoot } from "../paths.ts";

/** Sources of Caddy's module. */
export const moduleDir = join(repositoryRoot, "edge-module");

/** Where everything is that is needed for a Caddy with the module, and what came of it. */
export const edgeCaddyDir = (cacheDir: string): string => join(cacheDir, "edge-caddy");

/** Where a Caddy with the module as it is now belongs: one of other sources has another name. */
export function edgeCaddyPath(cacheDir: string): string {
  const digest = createHash("sha256");
  for (const name of readdirSync(moduleDir, { recursive: true, encoding: "utf8" }).toSorted()) {
    if (!name.endsWith(".go")) continue;
    digest.update(`${name}\n`).update(readFileSync(join(moduleDir, name)));
  }
  return join(edgeCaddyDir(cacheDir), `caddy-${digest.digest("hex").slice(0, 16)}`);
}

/** The Caddy of an edge: one with the module where that was built, else the machine's. */
export function edgeCaddy(env: NodeJS.ProcessEnv): string {
  const path = edgeCaddyPath(defaultCacheDir(env));
  return existsSync(path) ? path : "caddy";
}
