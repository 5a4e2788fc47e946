import type { Table } from "@svc/router/table";
import { Check } from "./seen.ts";

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

  onServed(edgeId: string, generation: bigint): void {
    this.world.kernel.note(() => `${edgeId} serves table ${generation}`);
  }
}
