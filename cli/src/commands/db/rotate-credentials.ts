import { rotateCredentialsReply } from "@svc/proto";
import { command } from "../../command.ts";
import { confirmLoss, requireAnswerable } from "../../confirm.ts";
import { branchFlags, databasePath, failureOf, findBranch, nameOf } from "../../database/branch.ts";

export const dbRotateCredentials = command({
  name: "db rotate-credentials",
  summary: "Give a database a new password",
  details:
    "The old one stops working at once: what runs on the channel has no database until it is deployed or started again.",
  flags: branchFlags,
  examples: ["svc db rotate-credentials", "svc db rotate-credentials --channel preview --yes"],
  async run(context, { project: named, channel = "production" }) {
    const loss = (what: string) => `This ends the password of ${what} at once: what runs on ${channel} loses it.`;
    requireAnswerable(context, loss(`the ${channel} database`));
    const branch = await findBranch(context, named, channel);
    await confirmLoss(context, { loss: loss(nameOf(branch)), name: channel });
    const { ok: _ok, ...reply } = await branch.api.post(
      databasePath(branch, "/rotate-credentials"),
      rotateCredentialsReply,
      {
        failure: failureOf(branch),
      },
    );
    return { project: branch.project, ...reply };
  },
  render: ({ channel, note }, { paint }) =>
    `${paint("green", "✓")} The password of the ${channel} database is being changed\n  ${note}`,
});
