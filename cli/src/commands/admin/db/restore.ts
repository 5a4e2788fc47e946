import { changeDatabaseReply, nodeListReply } from "@svc/proto";
import { branchArguments, branchName, findDatabase } from "../../../admin-databases/branches.ts";
import { lossOf } from "../../../admin-databases/loss.ts";
import { blockedText, watchChange } from "../../../admin-databases/watch.ts";
import { command, flag } from "../../../command.ts";
import { confirmLoss, requireAnswerable } from "../../../confirm.ts";
import { CliError } from "../../../errors.ts";
import { pickNode } from "../../../nodes.ts";
import { postOnce } from "../../../post-once.ts";

export const adminDbRestore = command({
  name: "admin db restore",
  summary: "Bring a database back from a copy, to its end or to a moment, or from a volume that it had before",
  details:
    "What was written after that moment is lost. It goes into a volume of its own on the machine that has the copy; the one of before is kept for a week. A database that is in use is stopped for it. With --volume it takes a volume again that it had before, as `svc admin db volumes` lists them.",
  flags: {
    at: flag.text("--at <time>", "To that moment, as 2030-01-31T12:00:00Z; default: all that the copy has"),
    copy: flag.text("--copy <id>", "From that copy; default: the one that covers most"),
    node: flag.text("--node <machine>", "From a copy on that machine"),
    volume: flag.text("--volume <name>", "Instead of a copy, that volume, which it had before, as it is"),
    wait: flag.toggle("--no-wait", "Return once the restore is queued"),
  },
  arguments: branchArguments,
  examples: [
    "svc admin db restore shop/production",
    "svc admin db restore shop/production --at 2030-01-31T12:00:00Z --yes",
    "svc admin db restore shop/production --volume svc-db-0123456789abcdef",
  ],
  async run(context, { branch: named, at: typed, copy: copyId, node, volume, wait }) {
    const at = typed === undefined ? undefined : momentOf(typed);
    if (volume !== undefined && (at ?? copyId ?? node) !== undefined)
      throw new CliError(
        "CLI_INVALID_USAGE",
        "--volume takes a volume as it is, and goes without --at, --copy and --node",
      );
    requireAnswerable(
      context,
      `What was written to ${named} after ${lossAfter(volume, at ?? "the end of its copy")} is lost.`,
    );
    const api = await context.api();
    const found = await findDatabase(api, named);
    const name = branchName(found);
    const nodeId =
      node === undefined ? undefined : pickNode((await api.get("/admin/nodes", nodeListReply)).nodes, node).id;
    const path = `/admin/databases/${found.id}/restore`;
    const asked = {
      ...(at !== undefined && { at }),
      ...(copyId !== undefined && { copyId }),
      ...(nodeId !== undefined && { node: nodeId }),
      ...(volume !== undefined && { volume }),
    };
    await confirmLoss(context, { loss: `${name}: ${await lossOf(api, path, asked)}`, name: found.channel });
    const body = { ...asked, confirm: true };
    const { change, coveredAt } = await postOnce(context, api, path, changeDatabaseReply, { body });
    if (!wait) return { branch: name, coveredAt, change, queued: true };
    const done = await watchChange(context, api, { databaseId: found.id, changeId: change.id, name });
    return { branch: name, coveredAt: done.until ?? done.coveredAt, change: done, queued: false };
  },
  render: ({ branch, change, coveredAt, queued }, { paint }) =>
    queued
      ? `${paint("green", "✓")} Queued. See how it goes with \`svc admin db show ${branch}\``
      : `${paint("green", "✓")} ${branch} is restored${coveredAt === null ? "" : ` to ${coveredAt}`} on ${change.to?.name ?? "its machine"}\n  ${blockedText(change)}`,
});

/** After what nothing is kept: of a volume, what it has. */
const lossAfter = <T extends string | null>(volume: string | undefined, until: T): T | string =>
  volume === undefined ? until : `the end of ${volume}`;

/** The API's form of a moment that was typed. */
function momentOf(text: string): string {
  const at = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(at)) return new Date(at).toISOString();
  throw new CliError("CLI_INVALID_USAGE", `"${text}" is no moment`, { hint: "Write it as 2030-01-31T12:00:00Z" });
}
