import { create } from "@bufbuild/protobuf";
import { DatabaseTableSchema } from "@svc/proto/node";
import type { DatabaseTables } from "./databases/table-writer.ts";
import type { Engine } from "./engine/engine.ts";
import type { Placements } from "./placements/placements.ts";

/** Stops and removes everything that this identity runs here: control counts on none of it any more. */
export async function clearNode(
  {
    placements,
    databases,
    engine,
  }: {
    placements: Pick<Placements, "clear">;
    databases: Pick<DatabaseTables, "take">;
    engine: Pick<Engine, "listContainers" | "removeContainer">;
  },
  signal: AbortSignal,
): Promise<void> {
  databases.take(create(DatabaseTableSchema));
  await placements.clear(signal);
  for (const container of await engine.listContainers()) await engine.removeContainer(container.name);
}
