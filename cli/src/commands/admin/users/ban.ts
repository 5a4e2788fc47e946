import { banUserReply } from "@svc/proto";
import { accountFacts, getAccount } from "../../../accounts.ts";
import { argument, command, flag } from "../../../command.ts";
import { CliError } from "../../../errors.ts";
import { parseSpan } from "../../../span.ts";

export const adminUsersBan = command({
  name: "admin users ban",
  summary: "Shut an account out: its sessions end and its keys stop working",
  details: "Its sites go on serving; suspend them with `svc admin projects suspend`.",
  arguments: { user: argument.required("user", "Its email address or id") },
  flags: {
    reason: flag.text("--reason <text>", "Why, for other administrators"),
    span: flag.text("--for <span>", "How long, as 12h or 7d; default: until it is lifted"),
  },
  examples: ["svc admin users ban eve@example.test --reason spam --for 7d"],
  async run(context, { user: named, reason, span }) {
    const expiresInSeconds = span === undefined ? null : secondsOf(span);
    const api = await context.api();
    const user = await getAccount(api, named);
    const body = { ...(reason !== undefined && { reason }), ...(expiresInSeconds !== null && { expiresInSeconds }) };
    const { banned } = await api.post(`/admin/users/${user.id}/ban`, banUserReply, { body });
    return { user: accountFacts(user), banned };
  },
  render: ({ user }, { paint }) => `${paint("green", "✓")} Banned ${user.email}`,
});

function secondsOf(span: string): number {
  const spanMs = parseSpan(span);
  if (spanMs !== null && spanMs >= 1000 && spanMs % 1000 === 0) return spanMs / 1000;
  throw new CliError(
    "CLI_INVALID_USAGE",
    `--for <span> is a time like 30s, 12h or 7d in whole seconds, not "${span}"`,
    {
      hint: "Leave it out for a ban without an end",
    },
  );
}
