import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../../../http/testing.ts";
import { createLog } from "../../../../log.ts";
import type { Channel } from "../../../../stores/db/tables.ts";
import { newBranch } from "../../testing/branch.ts";
import { beginNightlyBackups } from "./nightly.ts";
import { nightRows } from "./rows.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser({ plan: { max_backups: 4 } });
});
afterAll(() => api?.[Symbol.asyncDispose]());

const round = () =>
  beginNightlyBackups({ rows: nightRows(api.db), random: api.context.random, log: createLog("silent") });
const settings = (id: string) => `/projects/${id}/database/settings`;
const put = (id: string, backups: unknown, session = user.session) =>
  api.call("PUT", settings(id), { session, body: { backups } });
const backupsOf = (id: string) =>
  api.db.selectFrom("database_backup").selectAll().where("project_id", "=", id).orderBy("created_at").execute();
const listed = async (id: string) =>
  (await api.call("GET", `/projects/${id}/database/backups?allChannels=true`, { session: user.session })).body;

/** A project whose databases were there in the night before. */
async function aProject(channels: readonly Channel[] = ["production"]): Promise<string> {
  const project = await api.newProject(user);
  for (const channel of channels) {
    const id = await newBranch(api, project, { channel });
    const created_at = new Date(Date.now() - 9 * 86_400_000);
    await api.db.updateTable("database").set({ created_at }).where("id", "=", id).execute();
  }
  return project.id;
}
/** As if the newest night that had its turn was so many nights ago. */
const letNightsPass = (id: string, nights = 1) =>
  api.db
    .updateTable("database_backup_schedule")
    .set({ night: new Date(Date.now() - nights * 86_400_000 - 86_400_000) })
    .where("project_id", "=", id)
    .execute();
const end = (id: string) =>
  api.db
    .updateTable("database_backup")
    .set({
      ...{ status: "complete", repository: "svc/x/backup", digest: "sha256:x", size_bytes: 7, dump_bytes: 9 },
      ended_at: new Date(),
    })
    .where("project_id", "=", id)
    .where("status", "!=", "complete")
    .execute();
const persons = async (id: string, count: number) => {
  for (let at = 0; at < count; at += 1) {
    const backup = { id: randomUUID(), project_id: id, database_id: randomUUID(), channel: "production" } as const;
    await api.db
      .insertInto("database_backup")
      .values({ ...backup, engine: "postgres" })
      .execute();
    await end(id);
  }
};

describe("the setting", () => {
  test("is off at first, and is what was put", async () => {
    const id = await aProject();
    const none = { ok: true, backups: null, backupProblems: [] };
    expect((await api.call("GET", settings(id), { session: user.session })).body).toEqual(none);
    const backups = { channels: ["dev", "production"], keep: 2 };
    const said = { ok: true, backups: { channels: ["production", "dev"], keep: 2 }, backupProblems: [] };
    expect(await put(id, backups)).toMatchObject({ status: 200, body: said });
    expect((await api.call("GET", settings(id), { session: user.session })).body).toEqual(said);
    expect((await put(id, null)).body).toEqual(none);
  });

  test.each([
    { when: "it names no channel", backups: { channels: [], keep: 1 }, told: "422 VALIDATION" },
    { when: "it names one twice", backups: { channels: ["dev", "dev"], keep: 1 }, told: "422 VALIDATION" },
    { when: "it keeps none", backups: { channels: ["dev"], keep: 0 }, told: "422 VALIDATION" },
    { when: "it says more", backups: { channels: ["dev"], keep: 1, at: "3:00" }, told: "422 VALIDATION" },
    { when: "it is left out", backups: undefined, told: "422 VALIDATION" },
    { when: "the plan keeps fewer", backups: { channels: ["dev"], keep: 5 }, told: "403 QUOTA_EXCEEDED" },
  ])("is refused when $when", async ({ backups, told }) => {
    const { status, body } = await put(await aProject(), backups);
    expect(`${status} ${body.error.code}`).toBe(told);
  });

  test("is ended without a plan that has it, and not made", async () => {
    const poor = await api.newUser({ plan: { max_databases: 0 } });
    const { id } = await api.newProject(poor);
    const refused = await put(id, { channels: ["dev"], keep: 1 }, poor.session);
    expect(refused).toMatchObject({ status: 403, body: { error: { code: "PLAN_FEATURE_UNAVAILABLE" } } });
    expect((await put(id, null, poor.session)).status).toBe(200);
    expect((await put(id, null)).status).toBe(404);
  });
});

describe("a night", () => {
  test("has one backup, however many look at once and how often; the next night has another", async () => {
    const id = await aProject();
    await put(id, { channels: ["production"], keep: 3 });
    // The one that it was made in was over.
    expect(await round()).toBe(0);
    await letNightsPass(id);
    await Promise.all([round(), round(), round()]);
    await round();
    expect(await backupsOf(id)).toMatchObject([{ status: "pending", scheduled_keep: 3, channel: "production" }]);
    await end(id);
    expect(await round()).toBe(0);
    await letNightsPass(id);
    expect(await round()).toBe(1);
    expect(await backupsOf(id)).toHaveLength(2);
    expect(await listed(id)).toMatchObject({ backups: [{ scheduled: true }, { scheduled: true }], problems: [] });
  });

  test("that control was down in, and others before it, have one together", async () => {
    const id = await aProject();
    await put(id, { channels: ["production"], keep: 3 });
    await letNightsPass(id, 5);
    await round();
    await end(id);
    await round();
    expect(await backupsOf(id)).toHaveLength(1);
  });

  test("has one of each channel, one after the other", async () => {
    const id = await aProject(["production", "preview"]);
    await put(id, { channels: ["preview", "production"], keep: 1 });
    await letNightsPass(id);
    await round();
    expect(await backupsOf(id)).toMatchObject([{ channel: "production" }]);
    await end(id);
    await round();
    expect(await backupsOf(id)).toMatchObject([{ channel: "production" }, { channel: "preview" }]);
  });

  test("has none when as many are there as the plan keeps: nothing is lost, and it is said", async () => {
    const id = await aProject();
    await put(id, { channels: ["production"], keep: 2 });
    await persons(id, 4);
    await letNightsPass(id);
    expect(await round()).toBe(0);
    expect(await backupsOf(id)).toHaveLength(4);
    const problem = expect.stringContaining("The plan keeps 4 backups");
    expect(await listed(id)).toMatchObject({
      problems: [{ channel: "production", night: expect.any(String), problem }],
    });
    const { body } = await api.call("GET", settings(id), { session: user.session });
    expect(body.backupProblems).toMatchObject([{ channel: "production", problem }]);
    const lines = await api.db.selectFrom("audit").select("action").where("target", "=", id).execute();
    expect(lines.filter(({ action }) => action === "backup.leave-out")).toHaveLength(1);
    // With room again the next night has one, and nothing is said any more.
    await api.db
      .deleteFrom("database_backup")
      .where("id", "=", (await backupsOf(id))[0]?.id ?? "")
      .execute();
    await letNightsPass(id);
    expect(await round()).toBe(1);
    expect((await listed(id)).problems).toEqual([]);
  });

  test.each([
    { when: "the project is suspended", set: { suspended_at: new Date(), suspend_reason: "admin" as const } },
    { when: "the project is being deleted", set: { deleting_at: new Date() } },
  ])("has none when $when", async ({ set }) => {
    const id = await aProject();
    await put(id, { channels: ["production"], keep: 2 });
    await letNightsPass(id);
    await api.db.updateTable("project").set(set).where("id", "=", id).execute();
    await round();
    expect(await backupsOf(id)).toEqual([]);
  });

  test("has none of a database that was made since", async () => {
    const project = await api.newProject(user);
    await put(project.id, { channels: ["production"], keep: 2 });
    await letNightsPass(project.id);
    await newBranch(api, project);
    await round();
    expect(await backupsOf(project.id)).toEqual([]);
  });
});
