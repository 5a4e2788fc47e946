import { routeTopic, taskTopic } from "@svc/control/fleet/cluster/topics";
import type { Transact } from "@svc/control/fleet/testing/tables";
import type { Notify, Tables } from "../stores/postgres.ts";
import type { Replica } from "./replica.ts";

/** The database's topics, as the copies call them. */
const topics: Readonly<Record<string, Parameters<Notify>[0]>> = { [taskTopic]: "task", [routeTopic]: "route" };

/** Transactions for rows in memory. What the work throws reaches the caller: nothing has been changed then. */
export function transactOf(replica: Replica): Transact<Tables> {
  const { postgres } = replica.world;
  return async (work) => {
    const done = await replica.ask((tables, notify) => {
      const tell = (topic: string, about?: string) => {
        const known = topics[topic];
        if (known !== undefined) notify(known, about);
      };
      try {
        return { value: work({ tables, now: postgres.now(), notify: tell }) };
      } catch (error) {
        return { error };
      }
    });
    if ("error" in done) throw done.error;
    return done.value;
  };
}
