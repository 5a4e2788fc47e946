import { create } from "@bufbuild/protobuf";
import { DatabaseTableSchema } from "@svc/proto/node";
import type { DatabaseTables } from "./databases/table-writer.ts";
import type { Engine } from "./engine/engine.ts";
import type { Networks } from "./network/networks.ts";
import type { Placements } from "./placements/placements.ts";
import type { Runs } from "./runs/runs.ts";

/** Stops and removes everything that this identity runs here: control counts on none of it any more. */
export async function clearNode(
  {
    placements,
    runs,
    databases,
    engine,
    networks,
  }: {
    placements: Pick<Placements, "clear">;
    runs: Runs;
    databases: Pick<DatabaseTables, "take">;
    engine: Pick<Engine, "listContainers" | "removeContainer">;
    networks: Pick<Networks, "list" | "release">;
  },
  signal: AbortSignal,
): Promise<void> {
  databases.take(create(DatabaseTableSchema));
  // A command that is on its way to its start would start after everything was removed, and be nobody's.
  await runs[Symbol.asyncDispose]();
  await placements.clear(signal);
  for (const container of await engine.listContainers()) await engine.removeContainer(container.name);
  for (const { projectId, channel } of await networks.list()) await networks.release(projectId, channel, () => false);
}
