import { plural } from "@svc/proto";
import { listAccounts } from "../../../admin-pages.ts";
import { command } from "../../../command.ts";
import { formatAge, formatBytes } from "../../../format.ts";
import { listing } from "../../../listing.ts";

export const adminUsersList = command({
  name: "admin users list",
  summary: "List every account with its plan and what it uses",
  examples: ["svc admin users list"],
  run: async (context) => {
    const { rows: users, complete } = await listAccounts(await context.api());
    if (!complete) context.warn(`There are more; these are the newest ${users.length}`);
    return { users };
  },
  render: ({ users }, screen) => {
    const { paint, now } = screen;
    const header = ["EMAIL", "ROLE", "PLAN", "PROJECTS", "REQUESTS 30 D", "DISK", "JOINED", "STATE", "ID"];
    const rows = users.map((user) => [
      user.email,
      user.role,
      user.plan,
      String(user.projects),
      String(user.requests30d),
      formatBytes(user.diskBytes),
      formatAge(user.createdAt, now),
      user.banned ? paint("red", "banned") : user.emailVerified ? "active" : paint("yellow", "unverified"),
      user.id,
    ]);
    const list = listing(header, rows, screen, { alignRight: [3, 4, 5] });
    return `${list}\n\n${paint("dim", plural(users.length, "account"))}`;
  },
});
