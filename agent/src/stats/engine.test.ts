import { createManualClock } from "@svc/runtime/testing/manual-clock";
import pino from "pino";
import { expect, test } from "vitest";
import { createEngineWatch } from "./engine.ts";

const mended = { version: "28.2.2", containerd: "1.7.28", runc: "1.3.3", isRemapped: false };
const engine = (answers: () => boolean, versions = () => mended) => ({
  async describe() {
    if (!answers()) throw new Error("no answer");
    return { id: "e", rootDir: "/", ...versions() };
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
  const clock = createManualClock();
  let answers = true;
  const watch = createEngineWatch({
    engine: engine(() => answers),
    clock,
    log: pino({ level: "silent" }),
  });
  await lookAt(watch);
  answers = false;
  await clock.advance(19_000);
  await lookAt(watch);
  expect(watch.isStalled()).toBe(false);
  await clock.advance(1_000);
  await lookAt(watch);
  expect(watch.isStalled()).toBe(true);
  answers = true;
  await clock.advance(1_000);
  await lookAt(watch);
  expect(watch.isStalled()).toBe(false);
});

test("an engine that leaves a call hanging is stalled without a further look", async () => {
  const clock = createManualClock();
  const watch = createEngineWatch({ engine: engine(() => true), clock, log: pino({ level: "silent" }) });
  await clock.advance(25_000);
  expect(watch.isStalled()).toBe(true);
});

test("an engine of which nothing is known yet builds no Dockerfiles, and one that is looked at and mended does", async () => {
  const watch = createEngineWatch({
    engine: engine(() => true),
    clock: createManualClock(),
    log: pino({ level: "silent" }),
  });
  expect(watch.dockerfileProblem()).toContain("not said yet");
  await lookAt(watch);
  expect(watch.dockerfileProblem()).toBeNull();
});

test("what an engine is made of is looked at again: it may be another one after its restart", async () => {
  let versions = { ...mended, version: "20.10.24+dfsg1" };
  const watch = createEngineWatch({
    engine: engine(
      () => true,
      () => versions,
    ),
    clock: createManualClock(),
    log: pino({ level: "silent" }),
  });
  await lookAt(watch);
  expect(watch.dockerfileProblem()).toContain("Docker 20.10.24");
  versions = { ...versions, isRemapped: true };
  await lookAt(watch);
  expect(watch.dockerfileProblem()).toBeNull();
});
