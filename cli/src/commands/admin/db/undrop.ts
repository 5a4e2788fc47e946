import { undropDatabaseReply } from "@svc/proto";
import { droppedArguments, droppedName, findDropped } from "../../../admin-databases/volumes.ts";
import { watchChange, watchReady } from "../../../admin-databases/watch.ts";
import { command, flag } from "../../../command.ts";
import { postOnce } from "../../../post-once.ts";

export const adminDbUndrop = command({
  name: "admin db undrop",
  summary: "Bring a database back that was dropped, with its data, its passwords and its address",
  details:
    "For 72 hours after the drop, and for as long as its volume is kept. It comes from its volume; when the machine of that is lost, from its newest copy. A database that its channel has by now has to be dropped first. What runs there works again with the address it was told.",
  flags: { wait: flag.toggle("--no-wait", "Return once it is on its way") },
  arguments: droppedArguments,
  examples: ["svc admin db undrop shop/production"],
  async run(context, { branch: named, wait }) {
    const api = await context.api();
    const found = await findDropped(api, named);
    const name = droppedName(found) ?? found.id;
    const path = `/admin/databases/${found.id}/undrop`;
    const { databaseId, from, change, coveredAt } = await postOnce(context, api, path, undropDatabaseReply);
    const told = { branch: name, databaseId, from, coveredAt, queued: !wait };
    if (!wait) return told;
    if (change === null) await watchReady(context, api, { databaseId, name });
    else await watchChange(context, api, { databaseId, changeId: change.id, name });
    return told;
  },
  render: ({ branch, from, coveredAt, queued }, { paint }) => {
    const lacks = from === "volume" || coveredAt === null ? "" : `\n  What was written after ${coveredAt} is lost`;
    return queued
      ? `${paint("green", "✓")} ${branch} is on its way back from its ${from}. See how it goes with \`svc admin db show ${branch}\`${lacks}`
      : `${paint("green", "✓")} ${branch} is back, from its ${from}${lacks}`;
  },
});
