import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { createLog } from "../../log.ts";
import type { SessionKey } from "./session-key.ts";
import { createSessionState } from "./session-state.ts";

const base = {
  ...{ serverId: "s1", instanceId: "i1", bootId: "b1", address: "127.0.0.1", capacity: null, platform: "linux/amd64" },
  ...{ version: "1", labels: {}, connectedAt: "2026-01-01T00:00:00.000Z" },
} as unknown as Parameters<typeof createSessionState>[0];

/** A key of a store that does not answer the first `failures` updates, whether or not it takes them. */
function aKey({ failures = 0, takes = false } = {}) {
  const written: { reconciled: boolean; suspect: boolean }[] = [];
  let left = failures;
  const update = async (value: string) => {
    left -= 1;
    if (left < 0 || takes) written.push(JSON.parse(value));
    if (left >= 0) throw new Error("the store does not answer");
  };
  return { written, key: { update } as unknown as SessionKey };
}

const clock = { ...systemClock, now: () => new Date(0) };
const aState = () => createSessionState(base, { clock, log: createLog("silent"), nodeId: "n1" });
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

test("silence and its end are written once each", async () => {
  const state = aState();
  const { key, written } = aKey();
  for (const isSilent of [true, true, false, false]) {
    state.noteSilence(key, isSilent);
    await settle();
  }
  expect(written.map(({ suspect }) => suspect)).toEqual([true, false]);
});

test("a silence that something else has written ends, too", async () => {
  const state = aState();
  const { key, written } = aKey({ failures: 1 });
  state.noteSilence(key, true);
  await settle();
  await state.reconcile(key);
  state.noteSilence(key, false);
  await settle();
  expect(written).toMatchObject([
    { reconciled: true, suspect: true },
    { reconciled: true, suspect: false },
  ]);
});

test("a silence that was written without an answer ends, too", async () => {
  const state = aState();
  const { key, written } = aKey({ failures: 1, takes: true });
  for (const isSilent of [true, false]) {
    state.noteSilence(key, isSilent);
    await settle();
  }
  expect(written.map(({ suspect }) => suspect)).toEqual([true, false]);
});
