import { tokenListReply } from "@svc/proto";
import { command } from "../../command.ts";
import { formatAge } from "../../format.ts";
import { listing } from "../../listing.ts";

export const tokensList = command({
  name: "tokens list",
  summary: "List the keys of your account",
  details: "Needs a login, or a key with full access. Of a key only its beginning is known, whoever asks.",
  examples: ["svc tokens list", "svc tokens list --json"],
  run: async (context) => {
    const { token } = await context.credentials();
    const { tokens } = await (await context.api()).get("/tokens", tokenListReply);
    return { tokens: tokens.map((each) => ({ ...each, inUse: token.startsWith(each.start) })) };
  },
  render: ({ tokens }, screen) => {
    const { paint, now } = screen;
    const header = ["NAME", "BEGINS", "ACCESS", "PROJECTS", "CREATED", "USED", "EXPIRES", "ID"];
    const rows = tokens.map(({ name, inUse, start, scopes, projectIds, createdAt, lastUsedAt, expiresAt, id }) => [
      inUse ? `${name} ${paint("dim", "(this one)")}` : name,
      start,
      scopes === null ? "full" : scopes.join(", ") || "none",
      projectIds === null ? "all" : String(projectIds.length),
      formatAge(createdAt, now),
      lastUsedAt === null ? "never" : formatAge(lastUsedAt, now),
      expiryOf(expiresAt, now),
      id,
    ]);
    return listing(header, rows, screen);
  },
});

function expiryOf(expiresAt: string | null, now: Date): string {
  if (expiresAt === null) return "never";
  return Date.parse(expiresAt) <= now.getTime() ? "expired" : expiresAt.slice(0, 10);
}
