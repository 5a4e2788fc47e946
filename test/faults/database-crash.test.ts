import { setTimeout as delay } from "node:timers/promises";
import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import type { ApiResult } from "../cluster.ts";
import { deploy } from "../support/deploy.ts";
import { waitFor } from "../support/wait-for.ts";
import { covers, type DatabaseApp, databaseIdOf, deployDatabaseApp, serversOf } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { recordFault } from "./support/results.ts";
import { healMs } from "./support/times.ts";
import { startWriter } from "./support/writer.ts";

/** How long control lives each time, counted from when it serves: long enough for another step than the time before. */
const livesMs = [0, 50, 100, 200, 400, 700, 1_000, 1_500];
const doneMs = 300_000;

const begun = z.looseObject({ coveredAt: z.string().nullable(), change: z.looseObject({ id: z.string() }) });
const changed = z.looseObject({
  database: z.looseObject({
    changes: z.array(z.looseObject({ id: z.string(), state: z.string(), endedAt: z.string().nullable() })),
  }),
});

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet({ machines: 2, databases: true });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

/** Asks for something and kills control again and again while it is done. Resolves when control is back for good. */
async function underCrashes(method: string, path: string, body?: unknown): Promise<ApiResult> {
  const control = fleet.program("control");
  const asked = await fleet.api(method, path, body);
  expect(asked.body, path).toMatchObject({ ok: true });
  for (const lifeMs of livesMs) {
    control.kill("SIGKILL");
    await control.waitReady(healMs);
    await delay(lifeMs);
  }
  return asked;
}

describe.each(databaseEngines)("while control is killed again and again, a database on %s", (engine) => {
  let app: DatabaseApp;
  let path: string;
  beforeAll(async () => {
    app = await deployDatabaseApp(fleet, engine);
    path = `/projects/${app.projectId}/database`;
  });
  afterAll(() => app?.[Symbol.asyncDispose]());

  const statusIs = (status: string | null) =>
    waitFor(`the branch to be ${status}`, doneMs, async () => {
      const { body } = await fleet.api("GET", path);
      if ((body["status"] ?? null) === status) return true;
      throw new Error(JSON.stringify(body));
    });
  /** An app that is deployed now is told a password that works, and there is one server. */
  const works = async () => {
    await deploy(fleet, app.source);
    await using writer = await startWriter(fleet, app);
    await writer.writes(100);
    expect(await writer.verdict()).toMatchObject(innocent);
    expect(await serversOf(fleet, app)).toHaveLength(1);
  };
  const record = (what: string, observed: string) =>
    recordFault({
      fault: `control killed ${livesMs.length} times during ${what}, database on ${engine}`,
      ...{ observed, visits: {} },
    });

  test("takes another password", { timeout: 900_000 }, async () => {
    await underCrashes("POST", `${path}/rotate-credentials`);
    await statusIs("ready");
    await works();
    await record("a rotation", "the password works, one server");
  });

  test("has a backup or says that it failed, and takes the next one", { timeout: 900_000 }, async () => {
    const ended = async (reply: ApiResult) => {
      const id = String(reply.body["backupId"]);
      return waitFor("the backup to end", doneMs, async () => {
        const text = JSON.stringify((await fleet.api("GET", `${path}/backups/${id}`)).body);
        return /"status":"(complete|failed)"/.exec(text)?.[1];
      });
    };
    await underCrashes("POST", `${path}/backups`);
    const { body } = await fleet.api("GET", `${path}/backups`);
    const first = /"status":"(\w+)"/.exec(JSON.stringify(body))?.[1];
    const next = await waitFor("another backup to be taken", doneMs, async () => {
      const reply = await fleet.api("POST", `${path}/backups`);
      return reply.body["ok"] === true ? reply : null;
    });
    expect(await ended(next)).toBe("complete");
    await record("a backup", `the backup was ${first} at the last crash; the next one is complete`);
  });

  test.each(["move", "restore"] as const)(
    "has what was acknowledged after a %s",
    { timeout: 900_000 },
    async (kind) => {
      const id = await databaseIdOf(fleet, app);
      await using writer = await startWriter(fleet, app);
      await writer.writes(100);
      await covers(fleet, app, Date.now());
      const path = `/admin/databases/${id}`;
      const body = kind === "restore" ? { confirm: true } : {};
      const { coveredAt, change } = begun.parse((await underCrashes("POST", `${path}/${kind}`, body)).body);
      const state = await waitFor(`the ${kind} to end`, doneMs, async () => {
        const { database } = changed.parse((await fleet.api("GET", path)).body);
        const found = database.changes.find((each) => each.id === change.id);
        return found?.endedAt == null ? null : found.state;
      });
      await writer.goesOn();
      await writer.writes(100);
      const verdict = await writer.verdict(coveredAt === null ? undefined : Date.parse(coveredAt));
      await record(
        `a ${kind}`,
        `it is ${state}; ${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost`,
      );
      expect(state).toBe("done");
      expect(verdict).toMatchObject(kind === "move" ? innocent : { ...innocent, holes: expect.anything() });
      await waitFor("one server", doneMs, async () => (await serversOf(fleet, app)).length === 1);
    },
  );

  test("goes and leaves no server, and comes again", { timeout: 900_000 }, async () => {
    await underCrashes("DELETE", path);
    await statusIs(null);
    await waitFor("its server to be gone", doneMs, async () => (await serversOf(fleet, app)).length === 0);
    await record("a drop", "no server is left");
    await underCrashes("POST", path);
    await statusIs("ready");
    await works();
    await record("provisioning", "one server, the password works");
  });
});
