import { cancelDatabaseChangeReply } from "@svc/proto";
import { branchArguments, branchName, findDatabase } from "../../../admin-databases/branches.ts";
import { command } from "../../../command.ts";
import { postOnce } from "../../../post-once.ts";

export const adminDbCancel = command({
  name: "admin db cancel",
  summary: "End the move or restore of a database, as long as it has not its next volume",
  arguments: branchArguments,
  examples: ["svc admin db cancel shop/production"],
  async run(context, { branch: named }) {
    const api = await context.api();
    const found = await findDatabase(api, named);
    const path = `/admin/databases/${found.id}/cancel`;
    const { change } = await postOnce(context, api, path, cancelDatabaseChangeReply);
    return { branch: branchName(found), change };
  },
  render: ({ branch, change }, { paint }) =>
    `${paint("green", "✓")} The ${change.kind} of ${branch} is being ended; it stays where it is`,
});
