import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type DatabaseApp, deployDatabaseApp, serverOf, serversOf, setApart } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { recordFault } from "./support/results.ts";
import { startWriter } from "./support/writer.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet({ machines: 3, databases: true });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

describe.each(databaseEngines)("a database on %s", (engine) => {
  let app: DatabaseApp;
  beforeAll(async () => {
    app = await deployDatabaseApp(fleet, engine);
    await setApart(fleet, app);
  });
  afterAll(() => app?.[Symbol.asyncDispose]());

  test("that is moved under writes loses none that it acknowledged", async () => {
    const { node: from } = await serverOf(fleet, app);
    await using writer = await startWriter(fleet, app);
    const startedAt = performance.now();
    const moved = await fleet.cli(["admin", "db", "move", `${app.slug}/production`, "--json"]);
    expect(moved, moved.stderr).toMatchObject({ exitCode: 0 });
    const movedMs = performance.now() - startedAt;
    await writer.goesOn();
    const verdict = await writer.verdict();
    await recordFault({
      fault: `database on ${engine} moved under writes`,
      observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost`,
      timesMs: { "moved in": movedMs, "longest pause": verdict.longestPauseMs },
      visits: {},
    });
    expect(verdict).toMatchObject(innocent);
    expect((await serverOf(fleet, app)).node).not.toBe(from);
    expect(await serversOf(fleet, app)).toHaveLength(1);
  });
});
