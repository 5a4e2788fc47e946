import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { DatabaseEngine } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { afterEach } from "vitest";
import { momentOf } from "../keepers/moment.ts";
import { createTestCopy, type TestCopy } from "./copy.ts";
import { waitFor } from "./wait.ts";

const opened: TestCopy[] = [];
/** A copy that goes with the test. */
export async function aCopy(...made: Parameters<typeof createTestCopy>): Promise<TestCopy> {
  const copy = await createTestCopy(...made);
  opened.push(copy);
  return copy;
}
afterEach(async () => {
  for (const copy of opened.splice(0)) await copy[Symbol.asyncDispose]();
});

export const follows = (copy: TestCopy) => copy.once("a copy that follows", ({ state }) => state === "following");
/** What was acknowledged before this call is in the copy afterwards. */
export async function covers(copy: TestCopy): Promise<void> {
  const now = momentOf(systemClock.now().toISOString()) ?? "";
  await copy.once("a copy of now", ({ state, coveredAt }) => state === "following" && coveredAt > now);
}
/** Where the volume of a copy is. */
export async function pathOf(copy: TestCopy): Promise<string> {
  const volume = (await copy.database.engine.listDatabaseVolumes()).find(({ of }) => of === "copy");
  return volume?.path ?? "";
}
/** Files of the first log of a copy, the oldest first. */
export async function logFiles(copy: TestCopy): Promise<string[]> {
  const directory = join(await pathOf(copy), "logs/000001");
  const names = (await readdir(directory)).filter((name) => /^(?:binlog\.\d+|[0-9A-F]{24}.*)$/.test(name));
  return names.toSorted().map((name) => join(directory, name));
}
export const proofRequest = (copy: TestCopy, engine: DatabaseEngine) => ({
  ...{ placementId: copy.copyId, labels: {}, copyId: copy.copyId, databaseId: copy.database.id, engine },
  image: copy.database.spec().image,
  timeoutSeconds: 300,
  limits: { memoryMb: 256, cpuMillicores: 0, pidsLimit: 100 },
  reserved: { memoryMb: 64, cpuMillicores: 100 },
  onStart: () => {},
});
export const idsOf = async (copy: TestCopy): Promise<Set<number>> => {
  const text = await copy.sql("SELECT id FROM w ORDER BY id");
  return new Set(text.split("\n").filter(Boolean).map(Number));
};

/** A moment of a second in which nothing was written, once it is over. */
export async function aMomentLater(): Promise<string | null> {
  const untilMs = systemClock.now().getTime() + 1_100;
  await waitFor("the next second", () => systemClock.now().getTime() > untilMs);
  const moment = momentOf(systemClock.now().toISOString());
  await waitFor("one more", () => systemClock.now().getTime() > untilMs + 1_100);
  return moment;
}
