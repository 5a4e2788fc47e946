import { adminDatabaseReply, fetchDatabaseReply, nodeListReply } from "@svc/proto";
import { branchArguments, branchName, findDatabase } from "../../../admin-databases/branches.ts";
import type { Api } from "../../../api.ts";
import { command, flag } from "../../../command.ts";
import type { Context } from "../../../context.ts";
import { CliError } from "../../../errors.ts";
import { pickNode } from "../../../nodes.ts";
import { poll } from "../../../poll.ts";
import { postOnce } from "../../../post-once.ts";

const lookMs = 2_000;

export const adminDbFetch = command({
  name: "admin db fetch",
  summary: "Bring what is off-site of a database to a machine, to restore it from there",
  details:
    "For when no machine has a copy any more, or not one that goes back far enough. The database stays as it is; what was fetched is kept for a week.",
  flags: {
    to: flag.text("--to <machine>", "The machine that is to have it; the database is restored there"),
    wait: flag.toggle("--no-wait", "Return once it is on its way"),
  },
  arguments: branchArguments,
  examples: ["svc admin db fetch shop/production --to node-2"],
  async run(context, { branch: named, to, wait }) {
    if (to === undefined)
      throw new CliError("CLI_INVALID_USAGE", "Say which machine is to have it", {
        hint: "Name it with --to <machine>; see `svc admin nodes list`",
      });
    const api = await context.api();
    const found = await findDatabase(api, named);
    const name = branchName(found);
    const node = pickNode((await api.get("/admin/nodes", nodeListReply)).nodes, to);
    const path = `/admin/databases/${found.id}/fetch`;
    const { copyId, coveredAt } = await postOnce(context, api, path, fetchDatabaseReply, { body: { node: node.id } });
    const fetched = { branch: name, copyId, node: node.name };
    if (!wait) return { ...fetched, coveredAt, queued: true };
    return {
      ...fetched,
      coveredAt: await awaitCopy(context, api, { databaseId: found.id, copyId, name }),
      queued: false,
    };
  },
  render: ({ branch, copyId, node, coveredAt, queued }, { paint }) =>
    queued
      ? `${paint("green", "✓")} On its way. See how it goes with \`svc admin db show ${branch}\``
      : `${paint("green", "✓")} ${node} has a copy of ${branch} until ${coveredAt}\n  Restore it with \`svc admin db restore ${branch} --copy ${copyId}\``,
});

/** Until all of the copy is there. Returns until when it covers everything. */
async function awaitCopy(
  context: Context,
  api: Api,
  { databaseId, copyId, name }: { databaseId: string; copyId: string; name: string },
): Promise<string> {
  context.onInterrupt(`It goes on without you. See with \`svc admin db show ${name}\``);
  const activity = context.terminal.activity("Fetching");
  try {
    return await poll(context, async () => {
      const { database } = await api.get(`/admin/databases/${databaseId}`, adminDatabaseReply);
      const copy = database.copies.find(({ id }) => id === copyId);
      if (copy?.coveredAt != null) return { done: copy.coveredAt };
      if (copy === undefined || copy.problem !== null)
        throw new CliError("CLOUD_REQUEST_FAILED", `The copy was not fetched: ${copy?.problem ?? "it is gone"}`, {
          hint: "See `svc admin doctor`, and try again",
        });
      return { delayMs: lookMs };
    });
  } finally {
    activity.stop();
  }
}
