import { rm } from "node:fs/promises";
import type { Clock } from "@svc/runtime/clock";
import { readState } from "./administration.ts";
import { removeClusterObjects, removeDatabaseVolumes, removeRegistryImages } from "./cluster-objects.ts";
import { findEngine } from "./engine.ts";
import { layoutOf } from "./layout.ts";
import { endLeftovers } from "./leftovers.ts";
import { runtimeRoot } from "./paths.ts";

export interface PlatformPlace {
  dir: string;
  dockerSocket: string;
  env: NodeJS.ProcessEnv;
}

/** Ends what a supervisor that was killed left behind in this directory: programs, containers, networks. */
export async function cleanUp(clock: Clock, { dir, dockerSocket, env }: PlatformPlace): Promise<void> {
  const layout = layoutOf(dir, runtimeRoot(env));
  await endLeftovers(clock, layout.runRecords);
  await rm(layout.runtime, { recursive: true, force: true });
  const state = await readState(layout);
  const docker = await findEngine(clock, dockerSocket);
  if (state !== null && docker !== null) await removeClusterObjects(docker, state.clusterId);
}

/** How long an engine that is busy with others may take to answer. */
const engineMs = 30_000;

/**
 * Removes every trace of a platform that does not run: the directory, and what the engine has of it, images included.
 * Throws when the engine does not answer: only the directory tells what there is to remove, so it stays.
 */
export async function discard(clock: Clock, place: PlatformPlace): Promise<void> {
  await cleanUp(clock, place);
  const state = await readState(layoutOf(place.dir, runtimeRoot(place.env)));
  if (state?.registryHost !== undefined) {
    const docker = await findEngine(clock, place.dockerSocket, engineMs);
    if (docker === null) throw new Error(`no engine answers on ${place.dockerSocket}: ${place.dir} is kept`);
    await removeClusterObjects(docker, state.clusterId);
    await removeDatabaseVolumes(docker, state.clusterId);
    // Without its registry nobody can name these images any more.
    await removeRegistryImages(docker, state.registryHost);
  }
  await rm(place.dir, { recursive: true, force: true });
}
