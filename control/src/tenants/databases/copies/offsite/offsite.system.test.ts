import { randomBytes, randomUUID } from "node:crypto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../../../http/testing.ts";
import { createLog } from "../../../../log.ts";
import { type Bucket, createBucket } from "../../../../stores/s3/bucket.ts";
import { startS3, type TestS3 } from "../../../../stores/s3/testing.ts";
import { insertBranch } from "../../store.ts";
import { findRestorable } from "../store.ts";
import { fetchWorker } from "./fetch/worker.ts";
import { createOffsiteCopies } from "./round.ts";
import { type TestNode, testNode } from "./testing.ts";

let s3: TestS3;
let bucket: Bucket;
let api: TestApi;
let admin: TestUser;
let node: TestNode;
let databaseId = "";
let copyId = "";
let nodeId = "";
let other = "";
beforeAll(async () => {
  s3 = await startS3("site/");
  bucket = createBucket({ clock: systemClock, random: systemRandom }, s3.settings, { attempts: 1 });
  api = await testApi({ bucket, config: { offsite: s3.settings } });
  admin = await api.newUser({ admin: true });
  [nodeId, other] = [await aNode("machine-1"), await aNode("machine-2")];
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await s3?.[Symbol.asyncDispose]();
});

const aNode = async (name: string): Promise<string> =>
  (
    await api.db
      .insertInto("node")
      .values({ role: "node", name, labels: "{}" })
      .returning("id")
      .executeTakeFirstOrThrow()
  ).id;

beforeEach(async () => {
  await sql`truncate offsite_object, offsite_copy, offsite_key, database_copy, database, work_item cascade`.execute(
    api.db,
  );
  for (const name of await s3.names()) await bucket.remove(name.replace("site/", ""));
  node = testNode();
  const project = await api.newProject(admin);
  databaseId = randomUUID();
  const of = { id: databaseId, projectId: project.id, channel: "production", engine: "mariadb" } as const;
  await insertBranch(api.db, api.context.secrets, of);
  await api.db.updateTable("database").set({ status: "ready", node_id: nodeId }).where("id", "=", databaseId).execute();
  copyId = randomUUID();
  await api.db
    .insertInto("database_copy")
    .values({
      ...{ id: copyId, database_id: databaseId, project_id: project.id, channel: "production", engine: "mariadb" },
      ...{ generation: 1, node_id: nodeId, state: "following" },
    })
    .execute();
  node.put(copyId, "engine", "mariadb\n");
  node.put(copyId, "reading", "");
  node.put(copyId, dump, content);
  node.put(copyId, "bases/000001/at", "2030-01-01T00:00:00.000000Z\n");
  node.put(copyId, log, "log 1\n");
  await follows("0-1-1", 60);
});

const dump = "bases/000001/dump.sql.zst";
const log = "logs/000001/binlog.000001";
/** Of three objects. */
const content = Buffer.concat([Buffer.from("-- nobody else is to read this\n".repeat(1_000)), randomBytes(17_000_000)]);

/** The copy has everything until so long ago, and tells so. */
async function follows(position: string, secondsAgo: number): Promise<void> {
  node.put(copyId, "status", `svc-copy 1\nstate following\nposition ${position}\n`);
  const at = new Date(Date.now() - secondsAgo * 1_000);
  await api.db
    .updateTable("database_copy")
    .set({ covered_at: at, position, bases: JSON.stringify([{ number: 1, at: at.toISOString(), bytes: 9 }]) })
    .where("id", "=", copyId)
    .execute();
}

const copies = (changes: { bucket?: Bucket } = {}) =>
  createOffsiteCopies({
    ...{ clock: systemClock, random: systemRandom, db: api.db, secrets: api.context.secrets, bucket },
    ...{ openCopyFiles: (target, signal) => node.open(target, signal), log: createLog("silent") },
    ...changes,
  });
const never = new AbortController().signal;
const ship = (changes: { bucket?: Bucket } = {}) => copies(changes).ship(never);
const tidy = () => copies().tidy(never);
const offsite = () => api.db.selectFrom("offsite_copy").selectAll().executeTakeFirstOrThrow();
const later = () => sql`update offsite_copy set touched_at = now() - interval '1 hour'`.execute(api.db);
const muchLater = () => sql`update offsite_object set useless_at = useless_at - interval '1 hour'`.execute(api.db);

async function beginFetch(to = other): Promise<{ status: number; id: string; message: string }> {
  const path = `/admin/databases/${databaseId}/fetch`;
  const { status, body } = await api.call("POST", path, { session: admin.session, body: { node: to } });
  return { status, id: body.copyId ?? "", message: body.error?.message ?? "" };
}
async function work(id: string, attempt = 1) {
  const { db } = api;
  const handler = fetchWorker({
    ...{ clock: systemClock, random: systemRandom, db, secrets: api.context.secrets, bucket, log: createLog("silent") },
    openCopyFiles: (target, signal) => node.open(target, signal),
  });
  const item = { id: 1, kind: "offsite-fetch", key: "k", attempt, maxAttempts: 20, ageMs: 0, payload: { copyId: id } };
  return handler(item, never);
}
const fetched = (id: string) =>
  api.db.selectFrom("database_copy").selectAll().where("id", "=", id).executeTakeFirstOrThrow();

test("a copy whose log has a gap comes back with what is known of that", async () => {
  const at = new Date(Date.now() - 60_000).toISOString();
  const bases = [{ number: 1, at, bytes: 9, until: at }];
  await api.db
    .updateTable("database_copy")
    .set({ bases: JSON.stringify(bases) })
    .where("id", "=", copyId)
    .execute();
  await ship();
  const { id } = await beginFetch();
  expect(await work(id)).toEqual({ state: "done" });
  expect(await fetched(id)).toMatchObject({ problem: null, bases });
});

test("a copy is put off-site, sealed, and comes back on another node as it was", async () => {
  await ship();
  expect(await offsite()).toMatchObject({ position: "0-1-1", problem: null, covered_at: expect.any(Date) });
  const names = await s3.names();
  expect(names).toHaveLength(4);
  for (const name of names) expect((await s3.read(name)).includes("nobody else")).toBe(false);
  const { status, id } = await beginFetch();
  expect(status).toBe(202);
  expect(await findRestorable(api.db, databaseId)).toMatchObject({ id: copyId });
  expect(await work(id)).toEqual({ state: "done" });
  expect(node.filesOf(id)).toEqual(node.filesOf(copyId));
  expect(await fetched(id)).toMatchObject({
    ...{ state: "ended", node_id: other, generation: 1, position: "0-1-1", problem: null },
    ...{ covered_at: (await fetched(copyId)).covered_at, bases: [{ number: 1 }] },
  });
  await api.db.updateTable("database_copy").set({ gone_at: new Date() }).where("id", "=", copyId).execute();
  expect(await findRestorable(api.db, databaseId)).toMatchObject({ id, node_id: other });
});

test("what is added is put there alone, and a log that was begun anew as a whole", async () => {
  await ship();
  const before = new Set(await s3.names());
  node.append(copyId, log, "log 2\n");
  node.put(copyId, "logs/000001/binlog.000002", "more\n");
  await follows("0-1-5", 0);
  await ship();
  expect((await offsite()).position).toBe("0-1-1");
  await later();
  await ship();
  expect((await offsite()).position).toBe("0-1-5");
  expect((await s3.names()).filter((name) => !before.has(name))).toHaveLength(1);
  node.put(copyId, log, "log 1\nlog 2\nlog 3\n");
  await follows("0-1-7", 0);
  await later();
  await ship();
  const { id } = await beginFetch();
  await work(id);
  expect(node.filesOf(id)).toEqual(node.filesOf(copyId));
});

test("of a branch that nobody wrote to nothing is put anywhere, and it covers as much as its copy", async () => {
  await ship();
  await follows("0-1-1", 0);
  await later();
  node.before = () => {
    throw new Error("nobody asks");
  };
  await ship();
  expect((await offsite()).covered_at).toEqual((await fetched(copyId)).covered_at);
  // What comes back covers as much, but for a few minutes.
  node.before = () => {};
  await follows("0-1-1", -660);
  await later();
  await ship();
  const { id } = await beginFetch();
  await work(id);
  expect((await fetched(id)).covered_at).toEqual((await offsite()).covered_at);
});

test("whoever is killed between two objects, or before the manifest, has the next go on with what is missing", async () => {
  let puts = 0;
  const put: string[] = [];
  const dyingAt = (count: number): Bucket => ({
    ...bucket,
    async put(name, object, signal) {
      puts += 1;
      if (puts === count) throw new Error("killed");
      put.push(name);
      await bucket.put(name, object, signal);
    },
  });
  await expect(ship({ bucket: dyingAt(2) })).rejects.toThrow("killed");
  expect((await beginFetch()).message).toMatch(/no copy of this database off-site/);
  await later();
  await expect(ship({ bucket: dyingAt(5) })).rejects.toThrow("killed");
  expect((await offsite()).covered_at).toBeNull();
  await later();
  await ship({ bucket: dyingAt(0) });
  expect((await offsite()).covered_at).not.toBeNull();
  // Three objects, and the manifest: each was put once.
  expect(put).toHaveLength(4);
  expect(new Set(put).size).toBe(4);
  const { id } = await beginFetch();
  await work(id);
  expect(node.filesOf(id)).toEqual(node.filesOf(copyId));
  // What was begun and never put is of no use.
  await muchLater();
  await tidy();
  const left = await api.db.selectFrom("offsite_object").select("id").execute();
  expect(left).toHaveLength(3);
});

test("a bucket that is away, and a node that is, leave it as it was, with a reason", async () => {
  await ship();
  const { covered_at } = await offsite();
  await follows("0-1-9", 0);
  node.append(copyId, log, "more");
  await later();
  await s3.stop();
  await ship();
  await s3.start();
  expect(await offsite()).toMatchObject({ covered_at, problem: expect.stringMatching(/does not answer/) });
  await later();
  node.before = () => {
    throw new Error("The copy is not on this node.");
  };
  await ship();
  expect(await offsite()).toMatchObject({ covered_at, problem: expect.stringMatching(/its node did not list/) });
  await later();
  node.before = () => {};
  await ship();
  expect(await offsite()).toMatchObject({ position: "0-1-9", problem: null });
});

describe("files that go while the copy is read", () => {
  const partial = "logs/000001/000000010000000000000007.partial";
  const whole = partial.replace(".partial", "");

  test("the newest of the log may have got its name meanwhile, and the next one is not waited for", async () => {
    node.put(copyId, partial, "seven, so far");
    let reads = 0;
    node.before = ({ do: asked, parts = [] }) => {
      if (asked !== "read" || !parts.some(({ path }) => path.endsWith(".partial"))) return;
      reads += 1;
      if (reads > 2) throw new Error("that is enough");
      const [from, to] = reads === 1 ? [partial, whole] : [partial.replace("7.", "8."), whole.replace(/7$/, "8")];
      node.remove(copyId, from);
      node.put(copyId, to, "all of it");
      if (reads === 1) node.put(copyId, partial.replace("7.", "8."), "eight, so far");
    };
    await ship();
    expect((await offsite()).covered_at).not.toBeNull();
    const { id } = await beginFetch();
    await work(id);
    expect(node.filesOf(id)[whole]).toBe("all of it");
  });

  test("without a whole copy there is nothing to tell of, but a reason", async () => {
    node.before = ({ do: asked }) => {
      if (asked !== "read") return;
      node.remove(copyId, dump);
      node.remove(copyId, "bases/000001/at");
    };
    await ship();
    expect(await offsite()).toMatchObject({ covered_at: null, problem: expect.stringMatching(/changed/) });
    expect((await beginFetch()).status).toBe(409);
  });
});

describe("what is not what was put there makes no copy", () => {
  const spoiled: [what: string, spoil: (names: string[]) => Promise<void>][] = [
    [
      "a byte is another",
      async ([first = ""]) => {
        const object = await s3.read(first);
        object[object.length - 1] = (object.at(-1) ?? 0) ^ 1;
        await s3.write(first, object);
      },
    ],
    ["one is cut off", async ([first = ""]) => s3.write(first, (await s3.read(first)).subarray(0, -1))],
    ["one is another", async ([first = "", second = ""]) => s3.write(first, await s3.read(second))],
    ["one is gone", async ([first = ""]) => bucket.remove(first.replace("site/", ""))],
  ];
  test.each(spoiled)("%s", async (_, spoil) => {
    await ship();
    await spoil((await s3.names()).filter((name) => !name.endsWith("manifest")));
    const { id } = await beginFetch();
    expect(await work(id)).toEqual({ state: "done" });
    const copy = await fetched(id);
    expect(copy).toMatchObject({ covered_at: null, problem: expect.any(String) });
    expect(copy.purge_at?.getTime()).toBeLessThan(Date.now() + 60_000);
    expect(node.filesOf(id)).not.toHaveProperty("status");
    expect((await beginFetch()).status).toBe(202);
  });

  test("nor does a manifest of another branch's copy", async () => {
    await ship();
    const [manifest = ""] = (await s3.names()).filter((name) => name.endsWith("manifest"));
    const kept = await s3.read(manifest);
    await s3.write(manifest, Buffer.from(kept).fill(7, 40, 60));
    const { id } = await beginFetch();
    await work(id);
    expect((await fetched(id)).problem).toMatch(/sealed value/);
  });
});

test("a fetch is tried again while somebody is away, is one at a time, and needs a machine that takes it", async () => {
  await ship();
  const { id } = await beginFetch();
  expect((await beginFetch()).message).toMatch(/already/);
  await s3.stop();
  await expect(work(id)).rejects.toThrow(/does not answer/);
  await s3.start();
  node.before = ({ do: asked }) => {
    if (asked === "write") throw new Error("no space left");
  };
  await expect(work(id)).rejects.toThrow(/did not write/);
  expect((await fetched(id)).problem).toBeNull();
  expect(await work(id, 20)).toEqual({ state: "done" });
  expect((await fetched(id)).problem).toMatch(/did not write/);
  const drain = (to: "draining" | "none") =>
    api.db
      .updateTable("node")
      .set({ drain: to, schedulable: to === "none" })
      .where("id", "=", other)
      .execute();
  await drain("draining");
  expect((await beginFetch()).message).toMatch(/machine-2 takes no new work/);
  await drain("none");
  expect((await beginFetch(randomUUID())).message).toMatch(/no such machine/);
});

describe("a fetch over a bad line", () => {
  const isOfDump = ({ do: asked, parts = [] }: { do: string; parts?: readonly { path: string }[] }) =>
    asked === "write" && parts.some(({ path }) => path === dump);
  const breakAfterOneObject = (): void => {
    let writes = 0;
    node.before = (request) => {
      if (isOfDump(request) && ++writes > 1) throw new Error("the line broke");
    };
  };

  test("ends in one turn although every other call is lost", async () => {
    await ship();
    const { id } = await beginFetch();
    let calls = 0;
    node.before = () => {
      calls += 1;
      if (calls % 2 === 1) throw new Error("the line broke");
    };
    expect(await work(id)).toEqual({ state: "done" });
    node.before = () => {};
    expect(node.filesOf(id)).toEqual(node.filesOf(copyId));
  });

  test("goes on with the first object that is not whole, and what has got further is no failure", async () => {
    await ship();
    const { id } = await beginFetch();
    breakAfterOneObject();
    expect(await work(id, 20)).toMatchObject({ refund: true, error: expect.stringMatching(/the line broke/) });
    let writes = 0;
    node.before = (request) => {
      if (isOfDump(request)) writes += 1;
    };
    expect(await work(id)).toEqual({ state: "done" });
    expect(writes).toBe(2);
    expect(node.filesOf(id)).toEqual(node.filesOf(copyId));
  });

  test("begins anew when another copy was put off-site meanwhile", async () => {
    await ship();
    const { id } = await beginFetch();
    breakAfterOneObject();
    await work(id);
    node.before = () => {};
    node.put(copyId, dump, Buffer.from(content).fill("b", 0, 100));
    await follows("0-1-9", 0);
    await later();
    await ship();
    expect(await work(id)).toEqual({ state: "done" });
    expect(node.filesOf(id)).toEqual(node.filesOf(copyId));
  });

  test("ends with what to do once the disk of its machine is full, and is refused there", async () => {
    await ship();
    const { id } = await beginFetch();
    const setFull = (disk_full: boolean) =>
      api.db.updateTable("node").set({ disk_full }).where("id", "=", other).execute();
    await setFull(true);
    expect(await work(id)).toEqual({ state: "done" });
    expect((await fetched(id)).problem).toMatch(/disk of machine-2 .*Make room there/);
    expect((await beginFetch()).message).toMatch(/disk of machine-2 .*Make room there/);
    await setFull(false);
  });

  test("does not begin on a disk that is smaller than the copy", async () => {
    await ship();
    const setDisk = (diskMb: number) => {
      const capacity = JSON.stringify({ memoryMb: 4_096, cpuMillicores: 4_000, pids: 8_192, diskMb });
      return api.db.updateTable("node").set({ capacity }).where("id", "=", other).execute();
    };
    await setDisk(16);
    expect((await beginFetch()).message).toMatch(/17 MiB.*16 MiB/);
    await setDisk(0);
  });
});

test("objects that nothing needs go after a while, but not from under somebody who fetches", async () => {
  await ship();
  node.remove(copyId, dump);
  node.remove(copyId, "bases/000001/at");
  node.put(copyId, "bases/000002/dump.sql.zst", "smaller");
  const at = new Date();
  node.put(copyId, "status", "svc-copy 1\nstate following\n");
  await api.db
    .updateTable("database_copy")
    .set({ covered_at: at, position: "0-1-8", bases: JSON.stringify([{ number: 2, at: at.toISOString(), bytes: 7 }]) })
    .execute();
  const { id } = await beginFetch();
  await later();
  await ship();
  await tidy();
  expect((await s3.names()).length).toBe(5);
  await muchLater();
  expect(await tidy()).toBe(0);
  await work(id);
  expect(await tidy()).toBeGreaterThan(0);
  const { id: again } = await beginFetch();
  await work(again);
  expect(node.filesOf(again)).toEqual(node.filesOf(copyId));
});

test("with its branch the key goes at once, and what is off-site soon; it is never the last that there is", async () => {
  await ship();
  const past = new Date(Date.now() - 1_000);
  await api.db.updateTable("database_copy").set({ state: "ended", ended_at: past, purge_at: past }).execute();
  await tidy();
  expect(await offsite()).toMatchObject({ covered_at: expect.any(Date) });
  expect((await beginFetch()).status).toBe(202);
  await api.db.deleteFrom("database_copy").execute();
  await api.db.deleteFrom("database").where("id", "=", databaseId).execute();
  await tidy();
  expect(await api.db.selectFrom("offsite_key").select("database_id").execute()).toEqual([]);
  expect(await api.db.selectFrom("offsite_copy").select("id").execute()).toEqual([]);
  expect(await s3.names()).toEqual([]);
});
