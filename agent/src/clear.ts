import type { Engine } from "./engine/engine.ts";
import type { Placements } from "./placements/placements.ts";

/** Stops and removes everything that this identity runs here: control counts on none of it any more. */
export async function clearNode(
  {
    placements,
    engine,
  }: { placements: Pick<Placements, "clear">; engine: Pick<Engine, "listContainers" | "removeContainer"> },
  signal: AbortSignal,
): Promise<void> {
  await placements.clear(signal);
  for (const container of await engine.listContainers()) await engine.removeContainer(container.name);
}
