import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { unconstrainedWords } from "../columns.ts";
import { testDatabase } from "../testing.ts";
import { readColumns } from "./catalogue.ts";
import { renderTables } from "./render.ts";

// Writes the types of all tables into the file that is named: those that the migrations make, on a Postgres of its own.
const [file] = process.argv.slice(2);
if (file === undefined) throw new Error("usage: main.ts <file>");
await using database = await testDatabase();
await mkdir(dirname(file), { recursive: true });
await writeFile(file, renderTables(await readColumns(database.db), unconstrainedWords));
