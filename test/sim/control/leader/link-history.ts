import { linkEvent } from "@svc/control/fleet/nodes/events/links";
import type { Work } from "../../kernel/kernel.ts";
import type { Replica } from "../replica.ts";

/** Keeps the last line of the history of every link: mirrors `control/src/fleet/nodes/events/links.ts`. */
export function* noteLinks(replica: Replica): Work {
  const { fleet } = replica;
  yield* replica.transact((tables) => {
    for (const row of tables.nodes.values()) {
      if (row.lifecycle !== "active" || row.quarantinedAt !== null) continue;
      const { link, since } = fleet.nodeLink(row.id);
      const kind = linkEvent(row.lastLink?.kind ?? null, link);
      if (kind !== null) row.lastLink = { kind, at: since };
    }
  });
}
