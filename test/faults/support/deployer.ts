import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { CliResult } from "../../cluster.ts";
import type { Fleet } from "./fleet.ts";
import type { Operation } from "./history.ts";

type Deploy = Extract<Operation, { op: "deploy" }>;

/** Somebody who deploys version after version of a site, each as soon as it is known what became of the one before. */
export interface Deployer extends AsyncDisposable {
  readonly done: readonly Deploy[];
  /** Ends with one that is acknowledged. Disposing ends with the one that is under way. */
  stop(): Promise<void>;
}

/** Nobody waits longer than that; what becomes of it then is not known. The first build on a busy machine takes minutes. */
const patienceMs = 1_200_000;

const failure = z.looseObject({ error: z.looseObject({ code: z.string() }) });

/** What somebody knows who asked for it. */
function outcomeOf(result: CliResult): Deploy["outcome"] {
  if (result.exitCode === 0) return "acknowledged";
  try {
    return failure.parse(result.json()).error.code === "DEPLOY_FAILED" ? "refused" : "unknown";
  } catch {
    return "unknown";
  }
}

/** Begins with version 1.0.`first` of the app in `cwd`, by one replica of control after the other. `now`: the clock of the history. */
export function deployAgain(fleet: Fleet, cwd: string, first: number, now: () => number): Deployer {
  const done: Deploy[] = [];
  let isWanted = true;
  let isGivenUp = false;
  const file = join(cwd, "package.json");
  const one = async (version: number): Promise<void> => {
    await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, "utf8")), version: `1.0.${version}` }));
    const { client } = fleet.replicas[version % fleet.replicas.length] ?? { client: fleet };
    const startMs = now();
    const result = await client.cli(["deploy", "--prod", "--json"], { cwd, timeoutMs: patienceMs });
    const deploy: Deploy = { op: "deploy", version, outcome: outcomeOf(result), startMs, endMs: now() };
    done.push(deploy);
    if (deploy.outcome === "acknowledged") return;
    console.error(`  version ${version} is ${deploy.outcome}: ${(result.stdout + result.stderr).slice(-600)}`);
  };
  const going = (async () => {
    for (let version = first; isWanted || done.at(-1)?.outcome !== "acknowledged"; version += 1) {
      if (isGivenUp) return;
      await one(version);
    }
  })();
  // Whoever waits for something else meanwhile is told at the end.
  going.catch(() => {});
  return {
    done,
    stop() {
      isWanted = false;
      return going;
    },
    async [Symbol.asyncDispose]() {
      isGivenUp = true;
      await going.catch(() => {});
    },
  };
}
