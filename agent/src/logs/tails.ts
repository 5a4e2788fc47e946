import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import { lastLines } from "./last-lines.ts";

/** How a container ended that nobody had told to. `code` is null when it still ran and was given up. */
export interface Exit {
  code: number | null;
  oomKilled: boolean;
  reason: string;
  at: string;
}

/** The last words of a container that ended by itself, and how it ended. */
export interface Tail {
  exit: Exit;
  text: string;
}

/**
 * Keeps the tails of containers that ended by themselves, one per placement: what the engine has goes with the
 * container, and the one of a failed deployment goes at once. They are on disk, so they outlive the agent.
 */
export interface Tails {
  keep(of: { placementId: string; projectId: string }, tail: Tail): Promise<void>;
  find(placementId: string): Promise<Tail | null>;
  drop(placementId: string): Promise<void>;
  /** Projects of which there is one. */
  projects(): Promise<string[]>;
  dropProject(projectId: string): Promise<void>;
}

export const tailLinesMax = 2_000;
export const tailBytesMax = 256 * 1024;
/** The newest so many of a project, and of the node. */
const keptPerProject = 5;
const kept = 400;
const keptMs = 7 * 24 * 60 * 60 * 1000;

const stored = z.object({
  exit: z.object({ code: z.number().nullable(), oomKilled: z.boolean(), reason: z.string(), at: z.string() }),
  text: z.string(),
});
/** Of ids that may be the name of a file. `@` parts the two. */
const safeId = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
const nameOf = (projectId: string, placementId: string): string => `${projectId}@${placementId}.json`;

/**
 * @param dir for these files alone. Directories beside it are of identities that the node had before, and go.
 */
export async function openTails(clock: Clock, dir: string): Promise<Tails> {
  const beside = dirname(dir);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const name of await readdir(beside)) {
    if (join(beside, name) !== dir) await rm(join(beside, name), { recursive: true, force: true });
  }
  // Half written when the agent died.
  for (const name of await readdir(dir)) if (!name.endsWith(".json")) await rm(join(dir, name), { force: true });

  const list = async (): Promise<{ name: string; projectId: string; placementId: string }[]> => {
    // Whoever took the directory away took the tails with it: nothing else is to suffer.
    const names = await readdir(dir).catch(() => []);
    return names.flatMap((name) => {
      const [projectId, placementId] = name.replace(/\.json$/, "").split("@");
      const isWhole = name.endsWith(".json") && projectId !== undefined && placementId !== undefined;
      return isWhole ? [{ name, projectId, placementId }] : [];
    });
  };
  const remove = (name: string): Promise<void> => rm(join(dir, name), { force: true });
  const dropWhere = async (isIt: (one: { projectId: string; placementId: string }) => boolean): Promise<void> => {
    for (const one of await list()) if (isIt(one)) await remove(one.name);
  };
  const ageOf = async (name: string): Promise<number> => {
    try {
      return clock.now().getTime() - (await stat(join(dir, name))).mtimeMs;
    } catch {
      return Number.POSITIVE_INFINITY;
    }
  };
  const prune = async (): Promise<void> => {
    const all = await Promise.all((await list()).map(async (one) => ({ ...one, ageMs: await ageOf(one.name) })));
    const perProject = new Map<string, number>();
    for (const [index, { name, projectId, ageMs }] of all.sort((a, b) => a.ageMs - b.ageMs).entries()) {
      const before = perProject.get(projectId) ?? 0;
      perProject.set(projectId, before + 1);
      if (index >= kept || before >= keptPerProject || ageMs > keptMs) await remove(name);
    }
  };

  return {
    async keep({ placementId, projectId }, { exit, text }) {
      if (!safeId.test(placementId) || !safeId.test(projectId)) return;
      const tail: Tail = { exit, text: lastLines(text, tailLinesMax, tailBytesMax) };
      await writeDurably(join(dir, nameOf(projectId, placementId)), JSON.stringify(tail));
      await prune();
    },
    async find(placementId) {
      const one = (await list()).find((each) => each.placementId === placementId);
      if (one === undefined || (await ageOf(one.name)) > keptMs) return null;
      try {
        return stored.parse(JSON.parse(await readFile(join(dir, one.name), "utf8")));
      } catch {
        return null;
      }
    },
    drop: (placementId) => dropWhere((one) => one.placementId === placementId),
    projects: async () => [...new Set((await list()).map(({ projectId }) => projectId))],
    dropProject: (projectId) => dropWhere((one) => one.projectId === projectId),
  };
}
