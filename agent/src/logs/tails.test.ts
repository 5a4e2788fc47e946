import { mkdtemp, readdir, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openTails, type Tail, tailBytesMax } from "./tails.ts";

let base = "";
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "svc-tails-"));
});
afterEach(() => rm(base, { recursive: true, force: true }));

const aTail = (text = "last words\n"): Tail => ({
  exit: { code: 7, oomKilled: false, reason: "The app exited with code 7.", at: "2030-01-01T00:00:00Z" },
  text,
});
const of = (placementId: string, projectId = "p1") => ({ placementId, projectId });

test("a tail outlives the agent, privately", async () => {
  const dir = join(base, "n1.1");
  await (await openTails(systemClock, dir)).keep(of("a"), aTail());
  await writeFile(join(dir, "p1@b.json.new"), "half of it");
  const again = await openTails(systemClock, dir);
  expect(await again.find("a")).toEqual(aTail());
  expect(await readdir(dir)).toEqual(["p1@a.json"]);
  expect((await stat(join(dir, "p1@a.json"))).mode & 0o777).toBe(0o600);
});

test("only the end of a long one is kept", async () => {
  const tails = await openTails(systemClock, join(base, "n1.1"));
  await tails.keep(of("a"), aTail(Array.from({ length: 3_000 }, (_, index) => `line ${index}\n`).join("")));
  const lines = (await tails.find("a"))?.text.trimEnd().split("\n");
  expect(lines).toHaveLength(2_000);
  expect(lines?.at(-1)).toBe("line 2999");
  await tails.keep(of("a"), aTail(`${"x".repeat(tailBytesMax)}\nthe end\n`));
  expect((await tails.find("a"))?.text).toBe("the end\n");
});

test("a tail goes with its placement, with its project, and with its identity", async () => {
  const tails = await openTails(systemClock, join(base, "n1.1"));
  for (const [placementId, projectId] of [
    ["a", "p1"],
    ["b", "p1"],
    ["c", "p2"],
  ] as const)
    await tails.keep(of(placementId, projectId), aTail());
  await tails.drop("a");
  expect(await tails.find("a")).toBeNull();
  expect((await tails.projects()).sort()).toEqual(["p1", "p2"]);
  await tails.dropProject("p1");
  expect(await tails.projects()).toEqual(["p2"]);
  expect(await (await openTails(systemClock, join(base, "n1.2"))).projects()).toEqual([]);
  expect(await readdir(base)).toEqual(["n1.2"]);
});

test("one project keeps its newest few, and nothing for ever", async () => {
  const dir = join(base, "n1.1");
  const tails = await openTails(systemClock, dir);
  for (let index = 0; index < 6; index += 1) {
    await tails.keep(of(`a${index}`), aTail());
    const at = new Date(Date.now() - (10 - index) * 1000);
    await utimes(join(dir, `p1@a${index}.json`), at, at);
  }
  await tails.keep(of("other", "p2"), aTail());
  expect(await tails.find("a0")).toBeNull();
  expect(await tails.find("a5")).not.toBeNull();
  const longAgo = new Date("2020-01-01");
  await utimes(join(dir, "p2@other.json"), longAgo, longAgo);
  expect(await tails.find("other")).toBeNull();
  await tails.keep(of("a5"), aTail());
  expect(await tails.projects()).toEqual(["p1"]);
});

test("an id that is no file name is not one here", async () => {
  const tails = await openTails(systemClock, join(base, "n1.1"));
  await tails.keep(of("../../escape"), aTail());
  expect(await readdir(join(base, "n1.1"))).toEqual([]);
});
