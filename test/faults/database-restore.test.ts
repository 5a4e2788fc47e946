import { setTimeout as delay } from "node:timers/promises";
import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { covers, type DatabaseApp, deployDatabaseApp, serverOf, setApart } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { recordFault } from "./support/results.ts";
import { act, becomes } from "./support/sites.ts";
import { detectMs } from "./support/times.ts";
import { startWriter } from "./support/writer.ts";

/** A server that took its old data for what counts would be there by then. */
const watchedMs = 20_000;

const restored = z.looseObject({ coveredAt: z.iso.datetime() });

describe.each(databaseEngines)("a database on %s", (engine) => {
  let fleet: Fleet;
  let app: DatabaseApp;
  beforeAll(async () => {
    fleet = await startFleet({ machines: 3, databases: true });
    app = await deployDatabaseApp(fleet, engine);
    await setApart(fleet, app);
  });
  afterAll(async () => {
    await app?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
  });

  test("whose machine is lost comes back from its copy with all that the copy says it covers", async () => {
    const branch = `${app.slug}/production`;
    const { node: lost } = await serverOf(fleet, app);
    await using writer = await startWriter(fleet, app);
    await covers(fleet, app, Date.now());
    await lost.machine.cutPower();
    const lostAt = performance.now();
    await becomes(fleet, lost, ["unreachable"], detectMs + 60_000);
    await act(fleet, lost, "force-fence", { reason: "its disk is gone", confirm: true });
    const reply = await fleet.cli(["admin", "db", "restore", branch, "--yes", "--json"]);
    expect(reply, reply.stderr).toMatchObject({ exitCode: 0 });
    const { coveredAt } = restored.parse(reply.json());
    await writer.goesOn();
    const backMs = performance.now() - lostAt;
    // With its disk, after all: it has the server of before, and an agent that was fenced.
    await lost.bootEngine();
    await lost.startProxy();
    await lost.launchAgent();
    await delay(watchedMs);
    expect((await serverOf(fleet, app)).node).not.toBe(lost);
    await writer.goesOn();
    const verdict = await writer.verdict(Date.parse(coveredAt));
    await recordFault({
      fault: `machine of a database on ${engine} lost, restored from its copy; the machine comes back`,
      observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} that were covered lost, ${verdict.after} later ones gone`,
      timesMs: { "written again after": backMs, "longest pause": verdict.longestPauseMs },
      visits: {},
    });
    // What came after the restore is acknowledged, too, and later than what is gone.
    expect(verdict).toMatchObject({ ...innocent, holes: expect.anything() });
  });
});
