import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { systemClock } from "@svc/runtime/system";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type EntranceKeys, openEntranceKeys } from "./keys.ts";

type Given = Parameters<EntranceKeys["use"]>[0];

/** Valid for 30 days, or nearly over where it began as long ago. */
const certificateOf = async (subject: string): Promise<string> => {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null", "-days", "30"];
  const about = ["-subj", "/CN=test", "-addext", `subjectAltName=URI:spiffe://${subject}`];
  return (await run(["openssl", "req", "-x509", ...key, ...about])).stdout;
};
const [first, second, other] = [{}, {}, {}] as [Given, Given, Given];
beforeAll(async () => {
  for (const [given, subject] of [
    [first, "edge"],
    [second, "edge"],
    [other, "other"],
  ] as const)
    Object.assign(given, {
      certificatePem: await certificateOf(subject),
      privateKeyPem: `key of ${subject}`,
      caPem: "ca",
    });
});

let dir: string;
beforeEach(async () => {
  dir = join(await mkdtemp(join(tmpdir(), "svc-keys-")), "entrances");
});
afterEach(() => rm(join(dir, ".."), { recursive: true, force: true }));

const open = () => openEntranceKeys(systemClock, dir);
const shownBy = async (keys: EntranceKeys) => readFile(keys.current()?.certificate ?? "", "utf8");
const sets = async () => (await readdir(dir)).filter((name) => /^[0-9a-f]{16}$/.test(name));

test("there is nothing to show before there is an identity, nor before a route leads to an entrance", async () => {
  const keys = await open();
  expect(keys.current()).toBeNull();
  await keys.use(first);
  expect(keys.current()).toBeNull();
  await keys.need();
  expect(await shownBy(keys)).toBe(first.certificatePem);
  // A later life of the router knows it before it hears of any route.
  expect((await open()).current()).toEqual(keys.current());
});

test("a renewal waits until the certificate that is shown is nearly over, over a restart", async () => {
  const keys = await open();
  await keys.need();
  await keys.use(first);
  await keys.settle(keys.current());
  await keys.use(second);
  expect(await shownBy(keys)).toBe(first.certificatePem);
  const again = await open();
  await again.use(second);
  expect(await shownBy(again)).toBe(first.certificatePem);
  await again.settle(again.current());
  expect(await sets()).toHaveLength(2);
});

test("while nobody needs any, only the newest is kept", async () => {
  const keys = await open();
  await keys.use(first);
  await keys.use(second);
  expect(await sets()).toHaveLength(1);
  await keys.need();
  expect(await shownBy(keys)).toBe(second.certificatePem);
});

test("what goes with other authorities, or is another edge's, is shown at once, and the files before go once Caddy has it", async () => {
  const keys = await open();
  await keys.need();
  await keys.use(first);
  const before = keys.current();
  const rotated = { ...second, caPem: "ca and another" };
  await keys.use(rotated);
  expect(await shownBy(keys)).toBe(second.certificatePem);
  // Told of the first while the second came.
  await keys.settle(before);
  expect(await sets()).toHaveLength(2);
  await keys.settle(keys.current());
  expect(await sets()).toHaveLength(1);
  await keys.use(other);
  expect(await shownBy(keys)).toBe(other.certificatePem);
});

test("Caddy's group may read what is shown, and nobody else", async () => {
  const keys = await open();
  await keys.need();
  await keys.use(first);
  for (const path of [dir, keys.current()?.key ?? ""]) expect((await stat(path)).mode & 0o007).toBe(0);
});

test("what comes while Caddy has a configuration without it is there afterwards", async () => {
  const keys = await open();
  await keys.need();
  for (let round = 0; round < 20; round += 1) {
    const before = keys.current();
    const coming = keys.use({ ...first, caPem: `ca ${round}` });
    await Promise.all(Array.from({ length: 10 }, () => keys.settle(before)));
    await coming;
    expect(await readFile(keys.current()?.ca ?? "", "utf8")).toBe(`ca ${round}`);
    expect(await shownBy(keys)).toBe(first.certificatePem);
  }
});
