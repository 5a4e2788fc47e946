import { setTimeout as delay } from "node:timers/promises";
import { type DatabaseApp, serverSince } from "./databases.ts";
import type { Fleet } from "./fleet.ts";
import type { Verdict } from "./judge.ts";
import { recordFault } from "./results.ts";
import { becomes } from "./sites.ts";
import { healMs } from "./times.ts";
import { startWriter } from "./writer.ts";

/** Control and the stores that it stands on, in the order in which they are killed. */
const programs = ["control", "etcd", "postgres"] as const;

/** Kills control, etcd and Postgres, and starts them again after `downMs`. Resolves when every node is ready again. */
async function outage(fleet: Fleet, downMs: number): Promise<void> {
  for (const name of programs) await fleet.program(name).stop("SIGKILL");
  await delay(downMs);
  for (const name of programs.toReversed()) await fleet.program(name).start();
  for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
}

/** How an outage went for a database that was written to throughout. */
export interface Outlived {
  verdict: Verdict;
  problems: Record<string, number>;
  isSameServer: boolean;
}

/** Writes to the databases while control, etcd and Postgres are down for `downMs`, and afterwards; notes what came of it. */
export async function outlive(fleet: Fleet, apps: readonly DatabaseApp[], downMs: number): Promise<Outlived[]> {
  await using writers = new AsyncDisposableStack();
  const watched = await Promise.all(
    apps.map(async (app) => ({
      app,
      before: await serverSince(fleet, app),
      writer: writers.use(await startWriter(fleet, app)),
    })),
  );
  await outage(fleet, downMs);
  const outlived: Outlived[] = [];
  for (const { app, before, writer } of watched) {
    await writer.goesOn();
    const verdict = await writer.verdict();
    const isSameServer = (await serverSince(fleet, app)) === before;
    outlived.push({ verdict, problems: await writer.problems(), isSameServer });
    await recordFault({
      fault: `control, etcd and Postgres down for ${downMs / 1000} s, database on ${app.engine}`,
      observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost; the server is ${isSameServer ? "the same one" : "another"}`,
      timesMs: { "longest pause": verdict.longestPauseMs },
      visits: {},
    });
  }
  return outlived;
}
