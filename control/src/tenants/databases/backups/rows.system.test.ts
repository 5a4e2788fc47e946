import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { repositories } from "../../../fleet/artifacts/repositories.ts";
import { type BackupStage, memoryBackupStage, postgresBackupStage } from "../testing/memory/backup-stage.ts";

/* What work on backups may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

describe.each([
  { store: "Postgres", open: postgresBackupStage },
  { store: "memory", open: memoryBackupStage },
])("rows of backups in $store", ({ open }) => {
  let stage: BackupStage;
  let nodeId = "";
  beforeAll(async () => {
    stage = await open();
    nodeId = await stage.newNode();
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  let branch: { id: string; projectId: string; serverId: string };
  beforeEach(async () => {
    branch = await stage.newBranch(nodeId);
  });

  const must = <T>(value: T | null | undefined): T => {
    if (value == null) throw new Error("there is none");
    return value;
  };
  const begin = async (...how: [keep?: number]) => must(await stage.begin(branch, "production", ...how));
  const read = async (id: string) => must(await stage.backup(branch.projectId, id));
  const place = () => ({ nodeId, image: "svc/postgres" });
  const file = { digest: `sha256:${"a".repeat(64)}`, sizeBytes: 7, dumpBytes: 9 };
  /** One that is complete, with what was made for it. */
  async function complete(...how: [keep?: number]): Promise<string> {
    const id = await begin(...how);
    await stage.rows.startTask(await read(id), place());
    const taskId = must((await stage.tasks(id))[0]).id;
    expect(await stage.rows.complete(await read(id), { taskId, file })).toBe(true);
    return id;
  }

  test("one that was asked for is found with its branch and the server of that, and not once it is no more", async () => {
    const id = await begin();
    expect(await stage.works(id)).toBe(1);
    const row = must(await stage.rows.find(id));
    expect(row).toMatchObject({
      backup: {
        id,
        project_id: branch.projectId,
        database_id: branch.id,
        status: "pending",
        error: null,
        digest: null,
      },
      ...{ branch: "ready", projectGone: false, suspended: false, task: null },
      server: { id: branch.serverId, kind: "database", node_id: nodeId, spec: { kind: "database" } },
    });
    expect(row.ageMs).toBeLessThan(60_000);
    await stage.setBranch(branch.id, { status: "dropping" });
    await stage.suspend(branch.projectId);
    await stage.removeTask(branch.serverId);
    expect(await stage.rows.find(id)).toMatchObject({ branch: "dropping", suspended: true, server: null });
    expect(await stage.rows.find("7f9ad1a4-6f5b-4f2c-8f43-0d6f9c1f2b11")).toBeNull();
  });

  test("of a project one is under way, of whichever channel and whoever asks at the same moment", async () => {
    const begun = await Promise.all(
      (["production", "preview", "production", "dev"] as const).map((channel) => stage.begin(branch, channel)),
    );
    const ids = begun.filter((id) => id !== null);
    expect(ids).toHaveLength(1);
    const id = must(ids[0]);
    await stage.rows.markRunning(id);
    expect(await stage.begin(branch, "preview")).toBeNull();
    await stage.rows.fail(await read(id), "its disk broke");
    expect(await stage.begin(branch, "preview")).not.toBeNull();
    expect(await stage.begin(await stage.newBranch(nodeId))).not.toBeNull();
  });

  test("it gets one task, where its server is, however many ask at the same moment", async () => {
    const id = await begin();
    const backup = await read(id);
    await Promise.all([1, 2, 3].map(() => stage.rows.startTask(backup, place())));
    const [task, ...more] = await stage.tasks(id);
    expect(more).toEqual([]);
    expect(task).toMatchObject({
      ...{ desired: "running", pinnedTo: nodeId },
      spec: { kind: "backup", databaseId: branch.id, targetRepository: repositories.backup(branch.projectId) },
    });
    expect(await stage.rows.find(id)).toMatchObject({ task: { id: task?.id, desired: "running", node_id: null } });
    await stage.rows.removeTask(must(task).id);
    await stage.rows.startTask(backup, place());
    expect(await stage.tasks(id)).toMatchObject([{ desired: "removed" }]);
  });

  test("none is made of a branch that a change has in its hands, or that is somewhere else by now", async () => {
    const end = await stage.hold(branch.id);
    const id = await begin();
    const backup = await read(id);
    await stage.rows.startTask(backup, place());
    await stage.rows.startTask(backup, { ...place(), nodeId: await stage.newNode() });
    expect(await stage.tasks(id)).toEqual([]);
    await end();
    await stage.rows.startTask(backup, { ...place(), nodeId: await stage.newNode() });
    expect(await stage.tasks(id)).toEqual([]);
    await stage.rows.startTask(backup, place());
    expect(await stage.tasks(id)).toHaveLength(1);
  });

  test("it is running once, and its file is noted when it is complete", async () => {
    const id = await begin();
    await stage.rows.markRunning(id);
    expect(await read(id)).toMatchObject({ status: "running", ended_at: null });
    expect(await stage.rows.complete(await read(id), { taskId: branch.serverId, file })).toBe(true);
    const noted = { repository: repositories.backup(branch.projectId), digest: file.digest };
    const ended = { status: "complete", error: null, ended_at: expect.any(Date) };
    expect(await read(id)).toMatchObject({ ...ended, ...noted, size_bytes: 7, dump_bytes: 9 });
    await stage.rows.markRunning(id);
    expect(await read(id)).toMatchObject(ended);
  });

  test.each(["complete", "fail"] as const)(
    "what made it is asked to go in the moment in which it ends: %s",
    async (how) => {
      const id = await begin();
      await stage.rows.startTask(await read(id), place());
      const [{ id: taskId } = { id: "" }] = await stage.tasks(id);
      if (how === "fail") await stage.rows.fail(await read(id), "its disk broke");
      else await stage.rows.complete(await read(id), { taskId, file });
      expect(await stage.tasks(id)).toMatchObject([{ id: taskId, desired: "removed" }]);
    },
  );

  test("what has ended stays as it is, whatever was read before", async () => {
    const id = await begin();
    const before = await read(id);
    const over = await Promise.all([
      stage.rows.fail(before, "its disk broke"),
      stage.rows.complete(before, { taskId: branch.serverId, file }),
      stage.rows.fail(before, "its disk broke as well"),
    ]);
    expect(over.filter((isDone) => isDone)).toHaveLength(1);
    const ended = await read(id);
    expect(await stage.rows.complete(before, { taskId: branch.serverId, file })).toBe(false);
    expect(await stage.rows.fail(before, "late")).toBe(false);
    await stage.rows.startTask(before, place());
    expect(await read(id)).toEqual(ended);
    expect(await stage.tasks(id)).toEqual([]);
    expect(before.status).toBe("pending");
  });

  test("one that is under way is not deleted, and of one that was nothing is written any more", async () => {
    const id = await begin();
    const before = await read(id);
    expect(await stage.remove(id)).toBe(false);
    await stage.rows.fail(before, "its disk broke");
    expect(await stage.remove(id)).toBe(true);
    expect(await stage.remove(id)).toBe(false);
    expect(await stage.rows.find(id)).toBeNull();
    await stage.rows.markRunning(id);
    await stage.rows.startTask(before, place());
    expect(await stage.rows.complete(before, { taskId: branch.serverId, file })).toBe(false);
    expect(await stage.backup(branch.projectId, id)).toBeNull();
    expect(await stage.tasks(id)).toEqual([]);
  });

  test("it outlives its branch's end", async () => {
    const id = await complete();
    await stage.setBranch(branch.id, { status: "error", reason: "its disk broke" });
    expect(await stage.rows.find(id)).toMatchObject({ branch: "error", backup: { status: "complete" } });
  });

  test("what the schedule made takes the place of its own older ones, of those that ended alike; a person's replaces none", async () => {
    await stage.schedule(branch.projectId, 2);
    const [person, first, second] = [await complete(), await complete(2), await complete(2)];
    const left = async (...ids: string[]) =>
      (await Promise.all(ids.map((id) => stage.backup(branch.projectId, id)))).map((row) => row !== null);
    expect(await left(person, first, second)).toEqual([true, true, true]);
    const third = await complete(2);
    expect(await left(person, first, second, third)).toEqual([true, false, true, true]);
    await stage.schedule(branch.projectId, 1);
    const failed = await begin(1);
    await stage.rows.fail(await read(failed), "its disk broke");
    expect(await left(person, second, third, failed)).toEqual([true, false, true, true]);
    await complete();
    expect(await left(person, third, failed)).toEqual([true, true, true]);
  });

  test("what its owner says of the schedule while it is made counts, as far as the plan has room", async () => {
    const left = async (ids: readonly string[]) =>
      (await Promise.all(ids.map((id) => stage.backup(branch.projectId, id)))).filter((row) => row !== null).length;
    await stage.schedule(branch.projectId, 2);
    const own = [await complete(2), await complete(2)];
    await stage.schedule(branch.projectId, 1);
    const more = await begin(1);
    await stage.schedule(branch.projectId, 3);
    await stage.rows.complete(await read(more), { taskId: branch.serverId, file });
    expect(await left([...own, more])).toBe(3);
    const last = await begin(1);
    await stage.schedule(branch.projectId, null);
    await stage.rows.complete(await read(last), { taskId: branch.serverId, file });
    expect(await left([...own, more, last])).toBe(Math.min(4, stage.maxBackups));
    const persons: string[] = [];
    while (persons.length < stage.maxBackups - 1) persons.push(await complete());
    const night = await begin(1);
    await stage.rows.complete(await read(night), { taskId: branch.serverId, file });
    expect(await left([...own, more, last, night])).toBe(1);
    expect(await left(persons)).toBe(persons.length);
  });

  describe("of a night", () => {
    const turn = () => ({ projectId: branch.projectId, channel: "production" as const });
    const isDue = async () => (await stage.nights.due()).some(({ projectId }) => projectId === branch.projectId);
    let ids = 0;
    const take = () => stage.nights.take(turn(), `00000000-0000-4000-8000-${String(++ids).padStart(12, "0")}`);
    /** What ends the backup that begins with it. */
    async function night(): Promise<string> {
      await stage.nightFalls(branch);
      expect(await take()).toEqual({ do: "begin" });
      const id = `00000000-0000-4000-8000-${String(ids).padStart(12, "0")}`;
      await stage.rows.complete(await read(id), { taskId: branch.serverId, file });
      return id;
    }

    test("one begins once, whoever takes the turn, and none without a schedule or before the next night", async () => {
      expect(await take()).toBeNull();
      await stage.schedule(branch.projectId, 2);
      expect([await isDue(), await take()]).toEqual([false, null]);
      await stage.nightFalls(branch);
      expect(await isDue()).toBe(true);
      const taken = await Promise.all([take(), take(), take()]);
      expect(taken.filter((step) => step !== null)).toEqual([{ do: "begin" }]);
      expect(await isDue()).toBe(false);
      await stage.schedule(branch.projectId, null);
      await stage.nightFalls(branch);
      expect([await isDue(), await take()]).toEqual([false, null]);
    });

    test("it waits for one that is under way, and replaces its own when it is complete", async () => {
      await stage.schedule(branch.projectId, 1);
      await stage.nightFalls(branch);
      const id = await begin();
      expect(await take()).toEqual({ do: "wait" });
      expect(await isDue()).toBe(true);
      await stage.rows.fail(await read(id), "its disk broke");
      const first = await night();
      const second = await night();
      expect(await stage.backup(branch.projectId, first)).toBeNull();
      expect(await read(second)).toMatchObject({ status: "complete", scheduled_keep: 1 });
    });

    test("it is left out where the plan keeps no more, and has no turn while the database cannot be used", async () => {
      await stage.schedule(branch.projectId, 1);
      await stage.nightFalls(branch);
      await stage.setBranch(branch.id, { status: "error", reason: "its disk broke" });
      expect([await isDue(), await take()]).toEqual([false, null]);
      await stage.setBranch(branch.id, { status: "ready", reason: null });
      for (let count = 0; count < stage.maxBackups; count += 1) await complete();
      expect(await take()).toEqual({ do: "leaveOut", problem: expect.stringContaining("as many are there") });
      expect([await isDue(), await take()]).toEqual([false, null]);
    });
  });
});
