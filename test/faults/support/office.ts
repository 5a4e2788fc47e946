import { join } from "node:path";
import { newestEpoch } from "../../support/leaders.ts";
import type { Fleet, Replica } from "./fleet.ts";

/** The replica of control that took office last, with the number of that office, and the others. */
export async function inOffice(fleet: Fleet): Promise<{ leader: Replica; others: Replica[]; epoch: number }> {
  const asked = await Promise.all(
    fleet.replicas.map(async (replica) => ({
      replica,
      epoch: await newestEpoch(join(fleet.layout.logs, `${replica.name}.log`)),
    })),
  );
  const [first, ...rest] = asked.toSorted((a, b) => b.epoch - a.epoch);
  if (first === undefined || first.epoch === 0) throw new Error("no replica has ever led");
  return { leader: first.replica, others: rest.map(({ replica }) => replica), epoch: first.epoch };
}
