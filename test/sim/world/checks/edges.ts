import { placeOf } from "@svc/control/fleet/nodes/place";
import type { EdgeState } from "@svc/proto/edge";
import type { Table } from "@svc/router/table";
import { placeRow } from "../../control/rows.ts";
import { Check } from "./seen.ts";

/** What every check of whether visitors come to edges is about, by its number. */
export const edgeInvariants: Readonly<Record<number, string>> = {
  59: "no visitor comes to an edge for which no deployment has ever waited",
  60: "visitors come to the edges that operators have in rotation, and to no other",
};

/** What edges serve, and say of it. */
export class EdgeChecks extends Check {
  onTableBack(edgeId: string, before: Table, after: Table): void {
    this.fail(8, `${edgeId} goes back from table ${before.generation} to ${after.generation}`);
  }

  onTableLost(edgeId: string, found: Table, reported: Table): void {
    this.fail(
      34,
      `${edgeId} begins with table ${found.generation}, and has said that it serves ${reported.generation}`,
    );
  }

  onOtherServed(edgeId: string, what: string, is: string | null, wanted: string | null): void {
    this.fail(35, `${edgeId} sends visitors of ${what}, to ${is}, and says that it is ${wanted}`);
  }

  /** No deployment has waited for an edge that never came in. */
  onStanding({ id }: { id: string }, { unready }: EdgeState): void {
    this.world.kernel.note(() => `${id}: ${unready === "" ? "visitors may come" : unready}`);
    if (unready === "" && this.world.postgres.tables.nodes.get(id)?.entering === true)
      this.fail(59, `visitors may come to ${id}, which never came in`);
  }

  /** Two minutes after the last fault. */
  checkSettled(): void {
    for (const edge of this.world.edges) {
      const row = this.world.postgres.tables.nodes.get(edge.id);
      if (row?.lifecycle !== "active" || !edge.process.alive) continue;
      const { inRotation, leave } = placeOf(placeRow(row));
      if (edge.isLeaving !== leave)
        this.fail(
          60,
          `${edge.id} ${edge.isLeaving ? "sends" : "does not send"} its visitors away, and is to do otherwise`,
        );
      if (row.entering) this.fail(60, `${edge.id} does not come in`);
      if (edge.isReady !== inRotation)
        this.fail(60, `visitors may ${edge.isReady ? "" : "not "}come to ${edge.id}, and are to do otherwise`);
    }
  }

  onServed(edgeId: string, generation: bigint): void {
    this.world.kernel.note(() => `${edgeId} serves table ${generation}`);
  }
}
