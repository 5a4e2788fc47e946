import type { Socket } from "node:net";
import type { DatabaseEngine } from "@svc/proto/database";
import { errorPacket } from "../mariadb/packet.ts";
import { errorResponse } from "../postgres/errors.ts";
import type { Refusal } from "../refusals.ts";
import { dismiss, splice } from "../wire/splice.ts";
import type { House } from "./visit.ts";

/** In the words of its engine, so that the engine's own programs say it. */
const words = {
  postgres: errorResponse,
  mariadb: (why) => errorPacket(0, why),
} as const satisfies Record<DatabaseEngine, (why: Refusal) => Buffer>;

/**
 * Serves one connection of a copy's keeper to its end. The door says whose it is, so nothing of what passes is read: who logs in,
 * and by what, is between the keeper and the server. It comes in whatever the state of the branch is.
 */
export async function visitForCopy(house: House, path: string, keeper: Socket, gone: AbortSignal): Promise<void> {
  const { clock, table, sessions, door, metrics, serverMs } = house;
  const kept = table.current().byDoor.get(path);
  if (kept === undefined) return void keeper.destroy();
  const { entry, copyId, nodeId } = kept;
  const { databaseId, epoch, engine } = entry;
  const forget = sessions.add({ databaseId, epoch, of: { copyId, nodeId }, end: () => keeper.destroy() });
  metrics.copySessions.inc();
  try {
    const opened = await door.open(entry, { purpose: "copy", copyId }, gone);
    if ("refused" in opened) {
      metrics.copyRefusals.inc({ engine, why: opened.refused });
      return dismiss(keeper, words[engine](opened.refused), clock.abortAfter(serverMs));
    }
    await splice(keeper, opened.stream);
    metrics.copyBytes.inc({ engine, direction: "in" }, keeper.bytesRead);
    metrics.copyBytes.inc({ engine, direction: "out" }, keeper.bytesWritten);
  } finally {
    metrics.copySessions.dec();
    forget();
  }
}
