import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DatabaseApp, deployDatabaseApp, serverOf, serversOf, signalServer } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { outlive } from "./support/outage.ts";
import { recordFault } from "./support/results.ts";
import { startWriter } from "./support/writer.ts";

const kills = 5;
/** Each server has written a while before it is killed. */
const rowsBetween = 200;
const downMs = 30_000;

let fleet: Fleet;
const apps: DatabaseApp[] = [];
beforeAll(async () => {
  fleet = await startFleet({ machines: 1, databases: true });
});
for (const engine of databaseEngines) {
  beforeAll(async () => {
    apps.push(await deployDatabaseApp(fleet, engine));
  });
}
afterAll(async () => {
  for (const app of apps) await app[Symbol.asyncDispose]();
  await fleet?.[Symbol.asyncDispose]();
});

test.each(databaseEngines)(
  `a database on %s whose server is killed ${kills} times under writes loses none that it acknowledged`,
  async (engine) => {
    const app = apps.find((each) => each.engine === engine);
    if (app === undefined) throw new Error("unreachable");
    await using writer = await startWriter(fleet, app);
    let longestMs = 0;
    for (let killed = 0; killed < kills; killed += 1) {
      await writer.writes(rowsBetween);
      await signalServer(await serverOf(fleet, app), "SIGKILL");
      longestMs = Math.max(longestMs, await writer.goesOn());
    }
    const verdict = await writer.verdict();
    await recordFault({
      fault: `server of a database on ${engine} killed ${kills} times under writes`,
      observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost, ${verdict.unheard} written but unheard of`,
      timesMs: { "longest until it was written again": longestMs, "longest pause": verdict.longestPauseMs },
      visits: {},
    });
    expect(verdict).toMatchObject(innocent);
    expect(await serversOf(fleet, app)).toHaveLength(1);
  },
);

test("databases of both engines do not notice that control, etcd and Postgres are down", async () => {
  const outlived = await outlive(fleet, apps, downMs);
  expect(outlived).toHaveLength(databaseEngines.length);
  for (const { verdict, ...rest } of outlived) {
    expect(verdict).toMatchObject(innocent);
    expect(rest).toEqual({ problems: {}, isSameServer: true });
  }
});
