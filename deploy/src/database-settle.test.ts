import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { argv } from "@svc/runtime/programs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { repositoryRoot } from "./paths.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "settle-"));
  // In the place of the engines' clients: keeps what it was started with, and what it read.
  const client = `#!/bin/sh\nprintf '%s\\n' "$@" >>"${directory}/arguments"\ncat >>"${directory}/input"\n`;
  for (const name of ["psql", "mariadb"]) await writeFile(join(directory, name), client, { mode: 0o755 });
});
afterAll(() => rm(directory, { recursive: true }));

test.each([
  { engine: "postgres", verifier: "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy" },
  { engine: "mariadb", verifier: "*0123456789ABCDEF0123456789ABCDEF01234567" },
])("a restored $engine is told the administrator's verifier where no list of processes has it", async (given) => {
  for (const name of ["arguments", "input"]) await writeFile(join(directory, name), "");
  const script = 'set -eu; . "$1"; verifier=$2; settle || exit 1';
  const source = join(repositoryRoot, "deploy", "database", `${given.engine}.sh`);
  await run(argv("sh", "-c", script, "sh", source, given.verifier), {
    env: { PATH: `${directory}:${process.env["PATH"]}` },
  });
  expect(await readFile(join(directory, "arguments"), "utf8")).not.toContain(given.verifier);
  expect(await readFile(join(directory, "input"), "utf8")).toContain(`'${given.verifier}'`);
});
