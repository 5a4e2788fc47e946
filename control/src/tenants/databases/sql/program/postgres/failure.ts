import pg from "pg";
import type { EngineRefusal } from "../session.ts";

/** Names, passwords and databases that it does not know; that it starts, ends or recovers. */
const notReady = /^(28...|3D000|57P0[123])$/;

/** What the server said, for whoever sent the statement; null when it said nothing. */
export function postgresRefusal(error: unknown, charactersBefore = 0): EngineRefusal | null {
  if (!(error instanceof pg.DatabaseError)) return null;
  const { message, code = "", position, detail, hint } = error;
  const where = position === undefined ? "" : `, character ${Number(position) + charactersBefore}`;
  const more = [detail, hint].filter((text) => text !== undefined && text !== "").map((text) => `\n${text}`);
  return { message: `${message} (${code}${where})${more.join("")}`, isNotReady: notReady.test(code) };
}
