import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { environmentOf } from "@svc/deploy/environment";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { argv } from "@svc/runtime/programs";
import { z } from "zod";
import { waitFor } from "../../support/wait-for.ts";
import { appOf, type DatabaseApp } from "./databases.ts";
import type { Fleet } from "./fleet.ts";
import type { Inside } from "./inside.ts";
import { type Acknowledged, judge, type Verdict } from "./judge.ts";

const programOf = (name: string) => join(repositoryRoot, "test", "faults", "support", `${name}.ts`);
const perSecond = 200;
const resumeMs = 120_000;
const readMs = 120_000;
const graceMs = 20_000;

const written = z.array(z.object({ id: z.number(), seq: z.number() }));

/** A program in the network of an app that writes into its database, by the address that the app was told. */
export interface Writer extends AsyncDisposable {
  /** What it was refused, or failed with, and how often, so far. */
  problems(): Promise<Record<string, number>>;
  /** Resolves with how long it took until something was acknowledged that was not yet when this was called. */
  goesOn(timeoutMs?: number): Promise<number>;
  /** Resolves once so many more rows were acknowledged. */
  writes(count: number): Promise<void>;
  /** Ends it, reads all that the database has, and holds it against what it was told. */
  verdict(coveredAtMs?: number | null): Promise<Verdict>;
}

let writers = 0;

export async function startWriter(fleet: Fleet, app: DatabaseApp): Promise<Writer> {
  writers += 1;
  const table = `written_${writers}`;
  const file = join(app.dir, table);
  const inApp = async (name: string, ...args: string[]): Promise<Inside> => {
    const { node, pid, url, databaseAt } = await appOf(fleet, app);
    const enter = argv("nsenter", `--net=/proc/${pid}/ns/net`, "--");
    const env = environmentOf(process.env, { DATABASE_URL: url, DATABASE_AT: databaseAt });
    return node.machine.start(name, [...enter, nodeBinary(), programOf(name), ...args], env);
  };
  const program = await inApp("writer-program", file, table, "1", String(perSecond));
  const lines = async (): Promise<string[][]> => {
    const text = await readFile(file, "utf8").catch(() => "");
    // A line that is being written has no end yet.
    return text
      .split("\n")
      .slice(0, -1)
      .map((line) => line.split(" "));
  };
  const heard = async (): Promise<Acknowledged[]> =>
    (await lines()).flatMap(([what, id, at]) => (what === "heard" ? [{ id: Number(id), atMs: Number(at) }] : []));
  const goesOn = async (timeoutMs = resumeMs) => {
    const startedAt = performance.now();
    const before = (await heard()).at(-1)?.id ?? 0;
    await waitFor("the writer to go on", timeoutMs, async () => {
      if (((await heard()).at(-1)?.id ?? 0) > before) return true;
      throw new Error(`${JSON.stringify((await lines()).slice(-2))}${program.running ? "" : ", and it has ended"}`);
    });
    return performance.now() - startedAt;
  };
  await goesOn();
  return {
    goesOn,
    async problems() {
      const found: Record<string, number> = {};
      for (const [what, why = ""] of await lines()) {
        if (what !== "heard") found[`${what} ${why}`] = (found[`${what} ${why}`] ?? 0) + 1;
      }
      return found;
    },
    async writes(count) {
      const before = (await heard()).length;
      await waitFor(`${count} more rows`, resumeMs, async () => (await heard()).length >= before + count);
    },
    async verdict(coveredAtMs = null) {
      await program.stop(graceMs);
      const rowsFile = `${file}.rows`;
      await rm(rowsFile, { force: true });
      const rows = await waitFor("the rows to be read", readMs, async () => {
        const reader = await inApp("reader-program", rowsFile, table);
        await reader.ended;
        return written.parse(JSON.parse(await readFile(rowsFile, "utf8")));
      });
      return judge(await heard(), rows, coveredAtMs);
    },
    async [Symbol.asyncDispose]() {
      await program.stop(graceMs);
    },
  };
}
