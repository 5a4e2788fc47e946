import { randomBytes, randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../../registry/src/testing/docker-registry.ts";
import { repositories } from "../../../../fleet/artifacts/repositories.ts";
import { type TestApi, type TestUser, testApi } from "../../../../http/testing.ts";
import { createLog } from "../../../../log.ts";
import { type Bucket, createBucket } from "../../../../stores/s3/bucket.ts";
import { startS3, type TestS3 } from "../../../../stores/s3/testing.ts";
import { setComplete } from "../store.ts";
import { pieceBytes, pieceName } from "./pieces.ts";
import { type OffsiteDeps, offsiteRound } from "./round.ts";

let server: RegistryProcess;
let registry: Registry;
let s3: TestS3;
let bucket: Bucket;
let api: TestApi;
let user: TestUser;
let projectId = "";
beforeAll(async () => {
  [server, s3] = await Promise.all([startDockerRegistry(), startS3("one/")]);
  registry = createRegistry(systemClock, { url: server.url });
  bucket = bucketAt("one/");
  api = await testApi({ registryUrl: server.url, bucket, config: { offsite: s3.settings } });
  user = await api.newUser({ plan: { max_backups: 50 } });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await registry?.close();
  await s3?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await api.db.deleteFrom("offsite_file").execute();
  await api.db.deleteFrom("database_backup").execute();
  for (const name of await s3.names()) await bucketAt("").remove(name);
  projectId = (await api.newProject(user)).id;
});

const bucketAt = (prefix: string) =>
  createBucket({ clock: systemClock, random: systemRandom }, { ...s3.settings, prefix }, { attempts: 1 });
const deps = (changes: Partial<OffsiteDeps> = {}): OffsiteDeps => ({
  ...{ db: api.db, random: systemRandom, registry, secrets: api.context.secrets, bucket, log: createLog("silent") },
  ...changes,
});
const round = (changes: Partial<OffsiteDeps> = {}) => offsiteRound(deps(changes), new AbortController().signal);

/** A complete backup with that file in the registry. */
async function aBackup(content: Buffer): Promise<string> {
  const id = randomUUID();
  const of = { project_id: projectId, database_id: randomUUID(), channel: "production", engine: "postgres" } as const;
  await api.db
    .insertInto("database_backup")
    .values({ id, ...of, status: "running" })
    .execute();
  const repository = repositories.backup(projectId);
  const pushed = await registry.pushArtifact(repository, { kind: "backup", stream: content });
  await setComplete(api.db, id, { repository, ...pushed, dumpBytes: 1 });
  return id;
}

const threePieces = () => randomBytes(2 * pieceBytes + 12_345);
const path = (id: string, below = "") => `/projects/${projectId}/database/backups/${id}${below}`;
const shown = async (id: string) => (await api.call("GET", path(id), { session: user.session })).body.backup;
const file = () => api.db.selectFrom("offsite_file").selectAll().executeTakeFirstOrThrow();
/** What was noted long ago may be tried again. */
const later = () =>
  api.db
    .updateTable("offsite_file")
    .set({ touched_at: new Date(0) })
    .execute();

/** The bytes as far as they came; null: not all did. */
async function download(id: string): Promise<{ status: number; content: Buffer | null }> {
  const { session } = user;
  const response = await fetch(`${api.url}/api/v1${path(id, "/download")}`, {
    headers: { authorization: `Bearer ${session}` },
  });
  const content = await response.arrayBuffer().catch(() => null);
  return { status: response.status, content: content && Buffer.from(content) };
}

async function loseRegistry(): Promise<void> {
  await rm(join(server.directory, "data", "docker/registry/v2/repositories", repositories.backup(projectId)), {
    ...{ recursive: true, force: true },
  });
}

test("a complete backup is put off-site in sealed pieces, and can be had once the registry has lost it", async () => {
  const content = Buffer.concat([Buffer.from("-- a dump that nobody else is to read\n".repeat(30_000)), threePieces()]);
  const id = await aBackup(content);
  expect(await shown(id)).toMatchObject({ status: "complete", offsiteAt: null });
  expect(await round()).toEqual({ shipped: 1, removed: 0 });
  expect(await round()).toEqual({ shipped: 0, removed: 0 });
  const { offsiteAt } = await shown(id);
  expect(Date.parse(offsiteAt)).toBeGreaterThan(Date.now() - 60_000);
  const list = await api.call("GET", `/projects/${projectId}/database/backups`, { session: user.session });
  expect(list.body.backups).toMatchObject([{ id, offsiteAt }]);
  const names = await s3.names();
  const { id: fileId } = await file();
  expect(names).toEqual([0, 1, 2].map((index) => `one/${pieceName(fileId, index)}`));
  for (const name of names) expect((await s3.read(name)).includes("-- a dump")).toBe(false);
  await loseRegistry();
  const got = await download(id);
  expect(got.status).toBe(200);
  expect(got.content?.equals(content)).toBe(true);
});

test("whoever is killed between two pieces has the next go on with the first that is not noted", async () => {
  const content = threePieces();
  const id = await aBackup(content);
  let puts = 0;
  const dying: Bucket = {
    ...bucket,
    async put(name, piece, signal) {
      await bucket.put(name, piece, signal);
      puts += 1;
      if (puts === 2) throw new Error("killed before it was noted");
    },
  };
  await expect(round({ bucket: dying })).rejects.toThrow("killed");
  expect(await file()).toMatchObject({ pieces: 1, complete_at: null, digest: null });
  await loseRegistry();
  expect((await download(id)).status).not.toBe(200);
  // The registry is back, with what it had.
  await registry.pushArtifact(repositories.backup(projectId), { kind: "backup", stream: content });
  const put: string[] = [];
  const counting: Bucket = {
    ...bucket,
    put(name, piece, signal) {
      put.push(name);
      return bucket.put(name, piece, signal);
    },
  };
  expect(await round({ bucket: counting })).toMatchObject({ shipped: 1 });
  expect(put.map((name) => name.slice(-6))).toEqual(["000001", "000002"]);
  await loseRegistry();
  expect((await download(id)).content?.equals(content)).toBe(true);
});

test("while nobody answers there the backups are as they were, and go out when the bucket is back", async () => {
  const id = await aBackup(randomBytes(1_000));
  await s3.stop();
  try {
    expect(await round()).toEqual({ shipped: 0, removed: 0 });
    expect(await file()).toMatchObject({ pieces: 0, problem: expect.stringMatching(/does not answer/) });
    expect(await shown(id)).toMatchObject({ status: "complete", offsiteAt: null });
    expect((await download(id)).status).toBe(200);
  } finally {
    await s3.start();
  }
  // Not at once again.
  expect(await round()).toEqual({ shipped: 0, removed: 0 });
  await later();
  expect(await round()).toEqual({ shipped: 1, removed: 0 });
  expect(await file()).toMatchObject({ problem: null });
  await s3.stop();
  await loseRegistry();
  const refused = await api.call("GET", path(id, "/download"), { session: user.session });
  await s3.start();
  expect([refused.status, refused.body.error.code]).toEqual([503, "UNAVAILABLE"]);
});

describe("what is not what was put there is not given out as a backup", () => {
  test.each<[what: string, spoil: (names: string[]) => Promise<void>]>([
    [
      "a byte is another",
      async ([, second = ""]) => {
        const object = await s3.read(second);
        object[object.length >> 1] = (object[object.length >> 1] ?? 0) ^ 1;
        await s3.write(second, object);
      },
    ],
    ["one is cut off", async ([, , third = ""]) => s3.write(third, (await s3.read(third)).subarray(0, -1))],
    [
      "two have changed places",
      async ([first = "", second = ""]) => {
        const [a, b] = [await s3.read(first), await s3.read(second)];
        await s3.write(first, b);
        await s3.write(second, a);
      },
    ],
    ["the last one is gone", async ([, , third = ""]) => bucketAt("").remove(third)],
    ["one is longer than any", async ([, second = ""]) => s3.write(second, Buffer.alloc(2 * pieceBytes))],
  ])("%s", async (_, spoil) => {
    const id = await aBackup(threePieces());
    await round();
    await loseRegistry();
    await spoil(await s3.names());
    const { status, content } = await download(id);
    expect(status === 200 && content !== null).toBe(false);
  });

  test("a file of another backup", async () => {
    const [one, other] = [await aBackup(randomBytes(5_000)), await aBackup(randomBytes(5_000))];
    await round();
    await loseRegistry();
    const [first = "", second = ""] = await s3.names();
    await s3.write(first, await s3.read(second));
    const answers = await Promise.all([download(one), download(other)]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  });
});

test("with a backup its key goes at once, and its objects soon; with a project, those of all", async () => {
  const id = await aBackup(threePieces());
  await aBackup(randomBytes(10));
  await round();
  expect(await s3.names()).toHaveLength(4);
  await api.call("DELETE", path(id), { session: user.session });
  await s3.stop();
  expect(await round()).toEqual({ shipped: 0, removed: 0 });
  await s3.start();
  expect(await round()).toEqual({ shipped: 0, removed: 1 });
  expect(await s3.names()).toHaveLength(1);
  await api.db.deleteFrom("project").where("id", "=", projectId).execute();
  expect(await round()).toEqual({ shipped: 0, removed: 1 });
  expect(await s3.names()).toEqual([]);
  expect(await api.db.selectFrom("offsite_file").select("id").execute()).toEqual([]);
});

test("a backup that is deleted while it goes out leaves nothing there once whoever ships it must be done", async () => {
  const id = await aBackup(threePieces());
  const deleting: Bucket = {
    ...bucket,
    async put(name, piece, signal) {
      await bucket.put(name, piece, signal);
      await api.call("DELETE", path(id), { session: user.session });
    },
  };
  expect(await round({ bucket: deleting })).toEqual({ shipped: 0, removed: 0 });
  expect(await round()).toEqual({ shipped: 0, removed: 0 });
  await later();
  expect(await round()).toEqual({ shipped: 0, removed: 1 });
  expect(await s3.names()).toEqual([]);
});

test("another bucket is given everything anew, and what is in the one before is told of", async () => {
  const id = await aBackup(randomBytes(1_000));
  await round();
  const other = bucketAt("two/");
  expect(await round({ bucket: other })).toEqual({ shipped: 1, removed: 0 });
  expect((await s3.names()).map((name) => name.split("/")[0])).toEqual(["one", "two"]);
  const files = await api.db.selectFrom("offsite_file").select(["place", "backup_id"]).execute();
  expect(new Set(files.map(({ place }) => place))).toEqual(new Set([bucket.place, other.place]));
  expect(files.map(({ backup_id }) => backup_id)).toEqual([id, id]);
});

test("the doctor tells what is off-site, what waits, and why the bucket is of no use", async () => {
  const admin = await api.newUser({ admin: true });
  const look = async () => {
    const { body } = await api.call("GET", "/admin/doctor", { session: admin.session });
    const { detail, more } = body.checks.find(({ name }: { name: string }) => name === "databases");
    return [detail, ...more].join("\n");
  };
  const id = await aBackup(randomBytes(1_000));
  await round();
  expect(await look()).toContain(`1 backup is off-site, at ${bucket.place}.`);
  await api.db.deleteFrom("offsite_file").execute();
  await api.db
    .updateTable("database_backup")
    .set({ ended_at: new Date(Date.now() - 2.5 * 3_600_000) })
    .where("id", "=", id)
    .execute();
  expect(await look()).toContain("1 backup is not off-site yet, the oldest after 2 hours.");
  const { offsite } = api.context.config;
  if (offsite === null) throw new Error("no bucket is set");
  const right = offsite.secretAccessKey;
  offsite.secretAccessKey = "another";
  const wrong = await look();
  offsite.secretAccessKey = right;
  expect(wrong).toMatch(
    /is of no use: the secret in SVC_S3_SECRET_ACCESS_KEY_FILE is not that of SVC_S3_ACCESS_KEY_ID/,
  );
  expect(wrong).not.toContain("another");
});
