import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Route } from "@svc/proto/edge";
import { isFileError, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import type { HostLinks } from "../host-links.ts";
import type { Log } from "../log.ts";
import { bundleName } from "../names.ts";
import { type Occupant, type Predecessor, predecessorsAfter, predecessorsKept } from "./predecessor-rules.ts";

/** What static sites served before their last deploys, as far as this edge saw it. */
export interface Predecessors {
  /** A host serves `next` in the place of `left` from now on; null is nothing, undefined nothing known. */
  replaced(host: string, left: Route | undefined, next: Route | null, nowMs: number): void;
  /** Forgets what is over, and keeps the rest on disk. */
  settle(nowMs: number): Promise<void>;
  /** Bundles that visitors may still ask for. */
  bundles(): Set<string>;
}

const stored = z.record(
  z.string(),
  z.array(z.object({ bundle: z.string(), owner: z.string(), untilMs: z.number() })).max(predecessorsKept),
);

/**
 * Reads what was kept last. It is lost with the disk, and nothing is lost with it but files of old pages.
 *
 * @param links get a link `<host>/<n>` for each, to the files of it that never change
 */
export function openPredecessors(dir: string, immutablesDir: string, links: HostLinks, log: Log): Predecessors {
  mkdirSync(dir, { recursive: true, mode: 0o755 });
  const path = join(dir, "predecessors.json");
  const byHost = new Map<string, Predecessor[]>(Object.entries(load(path, log)));
  let changed = false;

  function put(host: string, predecessors: readonly Predecessor[]): void {
    changed = true;
    if (predecessors.length === 0) byHost.delete(host);
    else byHost.set(host, [...predecessors]);
    relink(host);
  }

  function relink(host: string): void {
    for (let nth = 0; nth < predecessorsKept; nth += 1) {
      const bundle = byHost.get(host)?.[nth]?.bundle;
      links.put(`${host}/${nth + 1}`, bundle === undefined ? null : join(immutablesDir, bundle));
    }
  }

  for (const host of new Set([...byHost.keys(), ...[...links.names()].map((name) => name.split("/")[0] ?? "")]))
    relink(host);

  return {
    replaced(host, left, next, nowMs) {
      const known = byHost.get(host) ?? [];
      const after = predecessorsAfter(known, occupant(left), occupant(next), nowMs);
      if (!isDeepStrictEqual(after, known)) put(host, after);
    },
    async settle(nowMs) {
      for (const [host, predecessors] of byHost) {
        const current = predecessors.filter(({ untilMs }) => untilMs > nowMs);
        if (current.length < predecessors.length) put(host, current);
      }
      if (!changed) return;
      await writeDurably(path, JSON.stringify(Object.fromEntries(byHost) satisfies z.infer<typeof stored>));
      changed = false;
    },
    bundles: () => new Set([...byHost.values()].flat().map(({ bundle }) => bundle)),
  };
}

const occupant = (route: Route | null | undefined): Occupant | null =>
  route
    ? {
        owner: `${route.projectId}/${route.channel}`,
        bundle: route.target.case === "static" ? bundleName(route.target.value.digest) : null,
      }
    : null;

function load(path: string, log: Log): z.infer<typeof stored> {
  try {
    return stored.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (err) {
    if (!isFileError(err, "ENOENT")) log.warn({ err }, "what sites served before their last deploys is not known");
    return {};
  }
}
