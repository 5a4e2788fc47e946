import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DatabaseApp, deployDatabaseApp, serverSince, setApart } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { outage } from "./support/outage.ts";
import { recordFault } from "./support/results.ts";
import { startWriter } from "./support/writer.ts";

/** Nothing that ends by itself takes longer, but for certificates and leases of hours. */
const downMinutes = Number(process.env["SVC_FAULTS_DOWN_MINUTES"] ?? "10");

let fleet: Fleet;
const apps: DatabaseApp[] = [];
beforeAll(async () => {
  fleet = await startFleet({ machines: 2, databases: true });
  for (const engine of databaseEngines) {
    const app = await deployDatabaseApp(fleet, engine);
    apps.push(app);
    await setApart(fleet, app);
  }
});
afterAll(async () => {
  for (const app of apps) await app[Symbol.asyncDispose]();
  await fleet?.[Symbol.asyncDispose]();
});

test(`databases of both engines do not notice that control, etcd and Postgres are down for ${downMinutes} min`, {
  timeout: downMinutes * 60_000 + 600_000,
}, async () => {
  await using writers = new AsyncDisposableStack();
  const watched = await Promise.all(
    apps.map(async (app) => ({
      app,
      before: await serverSince(fleet, app),
      writer: writers.use(await startWriter(fleet, app)),
    })),
  );
  await outage(fleet, downMinutes * 60_000);
  for (const { app, before, writer } of watched) {
    await writer.goesOn();
    const verdict = await writer.verdict();
    await recordFault({
      fault: `control, etcd and Postgres down for ${downMinutes} min, database on ${app.engine}`,
      observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost; the server is the same one`,
      timesMs: { "longest pause": verdict.longestPauseMs },
      visits: {},
    });
    expect(await writer.problems()).toEqual({});
    expect(verdict).toMatchObject(innocent);
    expect(await serverSince(fleet, app)).toBe(before);
  }
});
