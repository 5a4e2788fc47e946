import pino from "pino";
import { expect, test } from "vitest";
import { createEngineWatch } from "./engine.ts";

const engine = (answers: () => boolean) => ({
  async describe() {
    if (!answers()) throw new Error("no answer");
    return { id: "e", version: "1", rootDir: "/" };
  },
});

/** Lets one look happen at `atMs`. */
async function lookAt(watch: ReturnType<typeof createEngineWatch>) {
  const stop = new AbortController();
  const watching = watch.watch(stop.signal);
  await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  await watching;
}

test("an engine is stalled once it has not answered for 20 s, and not before, and not after it answered again", async () => {
  let [nowMs, answers] = [0, true];
  const watch = createEngineWatch({
    engine: engine(() => answers),
    nowMs: () => nowMs,
    log: pino({ level: "silent" }),
  });
  await lookAt(watch);
  answers = false;
  nowMs = 19_000;
  await lookAt(watch);
  expect(watch.isStalled()).toBe(false);
  nowMs = 20_000;
  await lookAt(watch);
  expect(watch.isStalled()).toBe(true);
  answers = true;
  nowMs = 21_000;
  await lookAt(watch);
  expect(watch.isStalled()).toBe(false);
});

test("an engine that leaves a call hanging is stalled without a further look", () => {
  let nowMs = 0;
  const watch = createEngineWatch({ engine: engine(() => true), nowMs: () => nowMs, log: pino({ level: "silent" }) });
  nowMs = 25_000;
  expect(watch.isStalled()).toBe(true);
});
