import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DatabaseApp, deployDatabaseApp, setApart } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { outlive } from "./support/outage.ts";

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
  for (const { verdict, ...rest } of await outlive(fleet, apps, downMinutes * 60_000)) {
    expect(verdict).toMatchObject(innocent);
    expect(rest).toEqual({ problems: {}, isSameServer: true });
  }
});
