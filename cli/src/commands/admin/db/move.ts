import { changeDatabaseReply, nodeListReply } from "@svc/proto";
import { branchArguments, branchName, findDatabase } from "../../../admin-databases/branches.ts";
import { blockedText, watchChange } from "../../../admin-databases/watch.ts";
import { command, flag } from "../../../command.ts";
import { pickNode } from "../../../nodes.ts";
import { postOnce } from "../../../post-once.ts";

export const adminDbMove = command({
  name: "admin db move",
  summary: "Move a database to another machine; nobody can write for a moment at the end",
  details:
    "It is copied while it serves. Then everybody is kept out until the copy has everything, and its server comes up there. Its address stays, and nothing is lost but the rows of Postgres's unlogged tables. If the copy does not get there in time, everybody is let in again and it is tried later.",
  flags: {
    to: flag.text("--to <machine>", "Where; default: where a copy is, or the one that suits best"),
    wait: flag.toggle("--no-wait", "Return once the move is queued"),
  },
  arguments: branchArguments,
  examples: ["svc admin db move shop/production", "svc admin db move shop/production --to node-2"],
  async run(context, { branch: named, to, wait }) {
    const api = await context.api();
    const found = await findDatabase(api, named);
    const name = branchName(found);
    const nodes = to === undefined ? [] : (await api.get("/admin/nodes", nodeListReply)).nodes;
    const body = to === undefined ? {} : { to: pickNode(nodes, to).id };
    const { change } = await postOnce(context, api, `/admin/databases/${found.id}/move`, changeDatabaseReply, { body });
    if (!wait) return { branch: name, change, queued: true };
    const done = await watchChange(context, api, { databaseId: found.id, changeId: change.id, name });
    return { branch: name, change: done, queued: false };
  },
  render: ({ branch, change, queued }, { paint }) =>
    queued
      ? `${paint("green", "✓")} Queued. See how it goes with \`svc admin db show ${branch}\``
      : `${paint("green", "✓")} ${branch} is on ${change.to?.name ?? "another machine"}\n  ${blockedText(change)}`,
});
