import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { waitFor } from "../support/wait-for.ts";
import { type DatabaseApp, deployDatabaseApp, serverOf, serversOf, setApart } from "./support/databases.ts";
import { fillDisk } from "./support/fill-disk.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { recordFault } from "./support/results.ts";
import { becomes, viewOf } from "./support/sites.ts";
import { healMs } from "./support/times.ts";
import { startWriter } from "./support/writer.ts";

const diskMb = 3_000;
const floorMb = 300;
const noticedMs = 120_000;
/** What servers do that wait for room, such as MariaDB's, they do once a minute. */
const backMs = 300_000;
const rows = 200;
/** Some room comes back by itself, such as that of old log, and is used at once: so it is not refused once. */
const refusals = 50;
/** What the engines say to whoever writes then. */
const saysFull = /No_space_left_on_device|is_full/;
/**
 * What whoever is not answered says. It is chance whether rows or the log of MariaDB need room first, and that server waits for room
 * for its log for as long as there is none, and so does its writer.
 */
const saysUnanswered = /timeout/i;

const finding = z.looseObject({ status: z.string(), detail: z.string() });
const doctor = z.looseObject({ checks: z.array(z.looseObject({ name: z.string() }).and(finding)) });

describe.each(databaseEngines)("a database on %s whose machine's disk is full to the last byte", (engine) => {
  let fleet: Fleet;
  let app: DatabaseApp;
  beforeAll(async () => {
    fleet = await startFleet({
      ...{ machines: 2, databases: true, diskMb },
      agent: { SVC_AGENT_DISK_FLOOR_MB: String(floorMb) },
    });
    app = await deployDatabaseApp(fleet, engine);
    await setApart(fleet, app);
  });
  afterAll(async () => {
    await app?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
  });

  test("refuses writes, is told of, and is written again once there is room", { timeout: 900_000 }, async () => {
    const { node: full } = await serverOf(fleet, app);
    await using writer = await startWriter(fleet, app);
    await writer.writes(rows);

    const makeRoom = await fillDisk(full.machine);
    await waitFor(`${refusals} writes to be refused, or one to be left waiting`, noticedMs, async () => {
      const found = Object.entries(await writer.problems());
      const count = (why: RegExp) => found.reduce((sum, [what, times]) => sum + (why.test(what) ? times : 0), 0);
      if (count(saysFull) >= refusals || count(saysUnanswered) > 0) return true;
      throw new Error(JSON.stringify(found));
    });
    await waitFor("the node to say that it is full", noticedMs, async () => (await viewOf(fleet, full.name)).diskFull);
    const { body } = await fleet.api("GET", "/admin/doctor");
    const found = doctor.parse(body).checks.filter(({ detail }) => detail.includes(`${full.name}: too little disk`));
    expect(found).toMatchObject([{ status: "warn" }]);
    const problems = await writer.problems();

    const freedAt = performance.now();
    await makeRoom();
    await writer.goesOn(backMs);
    const writtenMs = performance.now() - freedAt;
    await waitFor("the node to have room", noticedMs, async () => !(await viewOf(fleet, full.name)).diskFull);
    for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
    await writer.writes(rows);
    const verdict = await writer.verdict();
    await recordFault({
      fault: `disk of a database on ${engine} full`,
      observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost; while it was full: ${JSON.stringify(problems)}`,
      timesMs: { "written again after room was made": writtenMs, "longest pause": verdict.longestPauseMs },
      visits: {},
    });
    expect(verdict).toMatchObject(innocent);
    expect(await serversOf(fleet, app)).toHaveLength(1);
  });
});
