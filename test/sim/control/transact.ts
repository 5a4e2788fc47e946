import {
  jobRunTopic,
  jobTopic,
  nodeTopic,
  replicaTopic,
  routeTopic,
  taskTopic,
} from "@svc/control/fleet/cluster/topics";
import { branchTopic } from "@svc/control/fleet/database-tables/news";
import type { Transact } from "@svc/control/fleet/testing/tables";
import { workTopic } from "@svc/control/stores/work/queue";
import type { Notify, Tables } from "../stores/postgres.ts";
import type { Replica } from "./replica.ts";

/** The database's topics, as the tables of this world call them. */
export const topics = {
  ...{ task: taskTopic, route: routeTopic, node: nodeTopic, replica: replicaTopic, work: workTopic },
  ...{ job: jobTopic, jobRun: jobRunTopic, branch: branchTopic },
} as const;

type Topic = Parameters<Notify>[0];
const named = new Map(Object.entries(topics).map(([name, topic]) => [topic as string, name as Topic]));

/** What rows in memory run their work with. What the work throws reaches the caller: nothing has been changed then. */
export function transactOf(replica: Replica): Transact<Tables> {
  const { postgres } = replica.world;
  return async (work) => {
    const done = await replica.ask((tables, notify) => {
      const tell = (topic: string, about?: string) => {
        const name = named.get(topic);
        if (name !== undefined) notify(name, about);
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
