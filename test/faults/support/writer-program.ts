import { appendFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { connect, type Session } from "./session.ts";

/**
 * Writes one row after the other over one session, at most so many a second, and dials again when it is cut off. An id is
 * tried once: what became of one whose answer was lost is for the judge. What it hears goes to a file of its own before the
 * next row, so that the end of this process takes none of it along.
 *
 * Its arguments: the file, the table, the first id, rows per second. The database is in DATABASE_URL; DATABASE_AT is its
 * address.
 */
const [file = "", table = "", first = "1", perSecond = "200"] = process.argv.slice(2);
const everyMs = 1_000 / Number(perSecond);
/** Longer than anything that ends by itself; a session that was cut without a word is given up then. */
const answerMs = 8_000;
/** The proxy takes some twenty connections of a database in a second. */
const redialMs = 250;

const note = (line: string): void => appendFileSync(file, `${line} ${Date.now()}\n`);
const target = { url: process.env["DATABASE_URL"] ?? "", host: process.env["DATABASE_AT"] ?? "", table };

let isAsked = false;
process.on("SIGTERM", () => {
  isAsked = true;
});

async function dial(): Promise<Session | null> {
  try {
    return await connect(target, answerMs);
  } catch (error) {
    note(`refused ${said(error)}`);
    await delay(redialMs);
    return null;
  }
}

/** On one line, for the file. */
const said = (error: unknown): string =>
  (error instanceof Error ? error.message || error.name : String(error)).replaceAll(/\s+/g, "_").slice(0, 200);

let session: Session | null = null;
let due = performance.now();
for (let id = Number(first); !isAsked; ) {
  session ??= await dial();
  if (session === null) continue;
  try {
    await session.write(id);
    note(`heard ${id}`);
  } catch (error) {
    note(`failed ${said(error)}`);
    // A session whose statement failed is kept when it still answers: a full disk refuses writes and nothing else.
    if (!(await session.answers())) {
      session.destroy();
      session = null;
    }
    await delay(redialMs);
  }
  id += 1;
  due = Math.max(due + everyMs, performance.now() - 1_000);
  await delay(Math.max(0, due - performance.now()));
}
session?.destroy();
process.exit(0);
