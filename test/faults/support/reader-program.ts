import { writeFileSync } from "node:fs";
import { connect } from "./session.ts";

/** Writes all rows of a table into a file, as JSON: its arguments. The database is told as to a writer. */
const [file = "", table = ""] = process.argv.slice(2);
const answerMs = 60_000;

const target = { url: process.env["DATABASE_URL"] ?? "", host: process.env["DATABASE_AT"] ?? "", table };
const session = await connect(target, answerMs);
writeFileSync(file, JSON.stringify(await session.rows()));
session.destroy();
process.exit(0);
