import { readFile, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import { z } from "zod";
import { type CgroupTrees, rootsOf } from "./cgroups.ts";
import { processesOf } from "./groups.ts";
import type { StepPlaces } from "./step-storage.ts";

/**
 * A build step as the low-level runtime keeps it: whose it is, its control group in each tree of `rootsOf`, and what its
 * description says of it.
 */
export type EngineStep = StepFacts & { mark: string; groups: readonly string[] };
interface StepFacts {
  /** What it writes to. */
  places: StepPlaces;
  /** Whether it may send packets of any kind in any name. */
  hasRawSockets: boolean;
}

const appearsWithinMs = 10_000;
const usualLookMs = 2;

/** What is read of the description that a container is started from. */
const bundleFile = z.object({
  root: z.object({ path: z.string() }),
  mounts: z.array(
    z.object({
      destination: z.string(),
      type: z.string().optional(),
      source: z.string().optional(),
      options: z.array(z.string()).nullish(),
    }),
  ),
  linux: z.object({ cgroupsPath: z.string().optional() }).optional(),
  process: z.object({ capabilities: z.object({ bounding: z.array(z.string()).nullish() }).optional() }).optional(),
});
interface Bundle {
  mark: string | null;
  cgroupsPath: string | undefined;
  facts: StepFacts;
}
/** What is read of the runtime's state file, which is written just before the process of the container begins. */
const stateFile = z.object({
  init_process_pid: z.int().positive(),
  cgroup_paths: z.record(z.string(), z.string()),
  config: z.object({ labels: z.array(z.string()) }),
});

/**
 * Waits until the container of `directory`, a directory of runc's state, has a process in its control groups.
 * Null when it is no step with one of `marks`, or is gone. Identity comes from the hosts file that the engine
 * wrote for it: a Dockerfile has no say in that.
 *
 * The engine's builder keeps the description of a step at a known place before it is started, so its groups are
 * known while the step is still being set up. Everything else is found through the state file.
 *
 * @param engineDir where the engine keeps its data
 */
export async function findStep(
  clock: Clock,
  directory: string,
  marks: readonly string[],
  trees: CgroupTrees,
  engineDir: string,
): Promise<EngineStep | null> {
  const early = await readBundle(join(engineDir, "buildkit/executor", basename(directory)), marks);
  const expected = early?.cgroupsPath === undefined ? null : groupsAt(trees, early.cgroupsPath);
  if (early !== null && early.mark === null) return null;
  const endsAtMs = clock.now().getTime() + appearsWithinMs;
  while (clock.now().getTime() < endsAtMs) {
    if (early?.mark && expected !== null && (await processesOf(expected[0] ?? "")).length > 0) {
      return { mark: early.mark, groups: expected, ...early.facts };
    }
    const state = await readState(directory);
    if (state !== null) return await fromState(state, marks);
    if (!(await exists(directory))) return null;
    await sleep(clock, usualLookMs);
  }
  return null;
}

async function fromState(state: z.infer<typeof stateFile>, marks: readonly string[]): Promise<EngineStep | null> {
  const bundle = state.config.labels.find((label) => label.startsWith("bundle="))?.slice("bundle=".length);
  const described = bundle === undefined ? null : await readBundle(bundle, marks);
  if (!described?.mark) return null;
  const { mark, facts } = described;
  const { pids, memory, cpu, "": unified } = state.cgroup_paths;
  if (pids !== undefined && memory !== undefined && cpu !== undefined) {
    return { mark, groups: [pids, memory, cpu], ...facts };
  }
  return unified === undefined ? null : { mark, groups: [unified], ...facts };
}

async function readState(directory: string): Promise<z.infer<typeof stateFile> | null> {
  try {
    return stateFile.parse(JSON.parse(await readFile(join(directory, "state.json"), "utf8")));
  } catch {
    return null;
  }
}

/** The mark of a container's description, null when it has none of `marks`; null in whole when there is none. */
async function readBundle(bundle: string, marks: readonly string[]): Promise<Bundle | null> {
  try {
    const { root, mounts, linux, process } = bundleFile.parse(
      JSON.parse(await readFile(join(bundle, "config.json"), "utf8")),
    );
    const source = mounts.find(({ destination }) => destination === "/etc/hosts")?.source;
    const names = new Set(source === undefined ? [] : (await readFile(source, "utf8")).split(/\s+/));
    const bound = mounts.filter(({ type, options }) => type === "bind" && !(options ?? []).includes("ro"));
    return {
      mark: marks.find((mark) => names.has(mark)) ?? null,
      cgroupsPath: linux?.cgroupsPath,
      facts: {
        places: { root: resolve(bundle, root.path), bound: bound.flatMap(({ source }) => source ?? []) },
        hasRawSockets: process?.capabilities?.bounding?.includes("CAP_NET_RAW") === true,
      },
    };
  } catch {
    return null;
  }
}

/** Where the runtime puts `cgroupsPath`: a path, or `slice:prefix:name` where systemd keeps the groups. */
export function groupsAt(trees: CgroupTrees, cgroupsPath: string): string[] {
  const [slice = "", prefix, name] = cgroupsPath.split(":");
  if (prefix === undefined || name === undefined) return rootsOf(trees).map((root) => join(root, cgroupsPath));
  const scope = `${prefix === "" ? "" : `${prefix}-`}${name}.scope`;
  return rootsOf(trees).map((root) => join(root, ...slicesOf(slice), scope));
}

/** `a-b.slice` lies in `a.slice`. */
function slicesOf(slice: string): string[] {
  const parts = slice
    .replace(/\.slice$/, "")
    .split("-")
    .filter((part) => part !== "");
  return parts.map((_, index) => `${parts.slice(0, index + 1).join("-")}.slice`);
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
