import { randomBytes, randomUUID } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { afterEach, expect, test } from "vitest";
import { copyDoorOf, layCopyDoor, removeOtherCopyDoors } from "./copy-door.ts";
import { laySocketDir, socketDirOf } from "./socket-dir.ts";

const owner = { clusterId: `test-${randomBytes(4).toString("hex")}`, nodeId: "n1" };
const [kept, other, databaseId] = [randomUUID(), randomUUID(), randomUUID()];
const engine = { isRemapped: false, rootDir: "/var/lib/docker" };
const proxy = { uid: 4_321, gid: 4_322 };
const doorOf = (copyId: string) => copyDoorOf(owner, copyId, "postgres");
const own = dirname(doorOf(kept).dir);

afterEach(() => rm(own, { recursive: true, force: true }));

test("the proxy listens in a door, its keeper connects, and nobody else gets past it", async () => {
  await layCopyDoor(owner, kept, engine, proxy);
  await layCopyDoor(owner, kept, engine, proxy);
  const { uid, gid, mode } = await stat(doorOf(kept).dir);
  expect({ uid, gid, mode: mode & 0o7777 }).toEqual({ uid: proxy.uid, gid: 999, mode: 0o2710 });
  // The proxy makes it under a longer name first, and the kernel takes 107 bytes.
  expect(Buffer.byteLength(`${doorOf(kept).socket}.${2 ** 22}`)).toBeLessThanOrEqual(107);
});

test("doors of other copies go, those of servers stay, and there may be none", async () => {
  await removeOtherCopyDoors(owner, []);
  await laySocketDir(owner, databaseId, engine, proxy.gid);
  for (const copyId of [kept, other]) await layCopyDoor(owner, copyId, engine, proxy);
  await removeOtherCopyDoors(owner, [kept]);
  const left = [doorOf(kept).dir, socketDirOf(owner, databaseId)].map((dir) => dir.slice(own.length + 1));
  expect((await readdir(own)).toSorted()).toEqual(left.toSorted());
});
