import { writeFileSync } from "node:fs";
import { connect } from "./session.ts";

/** Writes every row that writers wrote into the file of its argument, as JSON. The database is told as to a writer. */
const answerMs = 60_000;
const session = await connect(
  { url: process.env["DATABASE_URL"] ?? "", host: process.env["DATABASE_AT"] ?? "" },
  answerMs,
);
writeFileSync(process.argv[2] ?? "", JSON.stringify(await session.rows()));
session.destroy();
process.exit(0);
