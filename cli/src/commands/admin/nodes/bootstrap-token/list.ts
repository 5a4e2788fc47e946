import { bootstrapTokensReply } from "@svc/proto";
import { command } from "../../../../command.ts";
import { formatAge, formatDuration } from "../../../../format.ts";
import { listing } from "../../../../listing.ts";

export const adminNodesBootstrapTokenList = command({
  name: "admin nodes bootstrap-token list",
  summary: "List the tokens with which machines join, and what joined with them",
  details: "What a token is was shown once, when it was made.",
  examples: ["svc admin nodes bootstrap-token list"],
  run: async (context) => {
    const { bootstrapTokens } = await (await context.api()).get("/admin/nodes/bootstrap-tokens", bootstrapTokensReply);
    return { bootstrapTokens };
  },
  render: ({ bootstrapTokens }, screen) => {
    const { paint, now } = screen;
    if (bootstrapTokens.length === 0)
      return "There is no token. Make one with `svc admin nodes bootstrap-token create --file <path>`";
    const header = ["ID", "ROLE", "STATUS", "CREATED", "EXPIRES", "MACHINE"];
    const rows = bootstrapTokens.map(({ id, role, status, createdAt, expiresAt, node }) => [
      id,
      role,
      paint(status === "open" ? "green" : "dim", status),
      formatAge(createdAt, now),
      status === "open"
        ? `in ${formatDuration(Date.parse(expiresAt) - now.getTime())}`
        : status === "expired"
          ? formatAge(expiresAt, now)
          : "-",
      node?.name ?? "-",
    ]);
    return listing(header, rows, screen);
  },
});
