import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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
beforeAll(async () => {
  fleet = await startFleet({ machines: 1, databases: true });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

describe.each(databaseEngines)("a database on %s", (engine) => {
  let app: DatabaseApp;
  beforeAll(async () => {
    app = await deployDatabaseApp(fleet, engine);
  });
  afterAll(() => app?.[Symbol.asyncDispose]());

  test(`whose server is killed ${kills} times under writes loses none that it acknowledged`, async () => {
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
  });

  test("does not notice that control, etcd and Postgres are down", async () => {
    for (const { verdict, ...rest } of await outlive(fleet, [app], downMs)) {
      expect(verdict).toMatchObject(innocent);
      expect(rest).toEqual({ problems: {}, isSameServer: true });
    }
  });
});
