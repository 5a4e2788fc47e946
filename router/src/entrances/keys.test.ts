import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openEntranceKeys } from "./keys.ts";

let dir: string;
beforeEach(async () => {
  dir = join(await mkdtemp(join(tmpdir(), "svc-keys-")), "entrances");
});
afterEach(() => rm(join(dir, ".."), { recursive: true, force: true }));

const shown = (name: string) => ({ certificatePem: `${name} certificate`, privateKeyPem: `${name} key`, caPem: "ca" });
const sets = async () => (await readdir(dir)).filter((name) => name !== "current");

test("there is nothing to show before there is an identity", async () => {
  expect((await openEntranceKeys(dir)).current()).toBeNull();
});

test("each certificate has files of its own, which are there until Caddy uses others", async () => {
  const keys = await openEntranceKeys(dir);
  await keys.use(shown("first"));
  const first = keys.current();
  await keys.use(shown("second"));
  const second = keys.current();
  // Told of the first while the second came.
  await keys.settle(first);
  expect(await readFile(first?.key ?? "", "utf8")).toBe("first key");
  expect(await readFile(second?.certificate ?? "", "utf8")).toBe("second certificate");
  await keys.settle(second);
  expect(await sets()).toHaveLength(1);
  expect(await readFile(second?.key ?? "", "utf8")).toBe("second key");
});

test("a router that starts anew shows the same, and the same identity again is no other", async () => {
  const keys = await openEntranceKeys(dir);
  await keys.use(shown("first"));
  const again = await openEntranceKeys(dir);
  expect(again.current()).toEqual(keys.current());
  await again.use(shown("first"));
  expect(again.current()).toEqual(keys.current());
});

test("Caddy's group may read what is shown, and nobody else", async () => {
  const keys = await openEntranceKeys(dir);
  await keys.use(shown("first"));
  for (const path of [dir, keys.current()?.key ?? ""]) expect((await stat(path)).mode & 0o007).toBe(0);
});

test("what comes while Caddy has a configuration without any is there afterwards", async () => {
  const keys = await openEntranceKeys(dir);
  for (let round = 0; round < 20; round += 1) {
    const before = keys.current();
    const coming = keys.use(shown(`identity ${round}`));
    await Promise.all(Array.from({ length: 10 }, () => keys.settle(before)));
    await coming;
    expect(await readFile(keys.current()?.key ?? "", "utf8")).toBe(`identity ${round} key`);
    expect(await readFile(keys.current()?.certificate ?? "", "utf8")).toBe(`identity ${round} certificate`);
  }
});
