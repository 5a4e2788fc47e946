import { create } from "@bufbuild/protobuf";
import { Desired, PlacementSchema, type PlacementStatus } from "@svc/proto/node";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { expect, test } from "vitest";
import type { Engine } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import type { Journal } from "../journal/journal.ts";
import { createLog } from "../log.ts";
import { createActor } from "./actor.ts";
import type { Runner } from "./executors/executor.ts";
import { createTask, newRecord } from "./task.ts";

test("an engine that does not answer while the disk is full is waited for, and told of once there is room", async () => {
  const clock = createManualClock();
  const stop = new AbortController();
  const told: PlacementStatus[] = [];
  let isFull = true;
  const placement = create(PlacementSchema, {
    ...{ placementId: "t1", desired: Desired.RUNNING },
    spec: { case: "serve", value: { port: 80 } },
  });
  const saveProgress = (): void => {
    if (isFull) throw new Error("disk I/O error");
  };
  const task = createTask({
    ...{ clock, record: newRecord(placement, clock.now()), journal: { saveProgress } as unknown as Journal },
    onChange: ({ status }) => void told.push(status),
  });
  const findContainer = async (): Promise<never> => {
    throw new EngineError("unreachable", "nobody is there");
  };
  const actor = createActor({
    ...{ clock, task, engine: { findContainer } as unknown as Engine, runner: {} as Runner },
    machine: { bootId: "boot", tcpTables: async () => null },
    ...{ signal: stop.signal, log: createLog("silent") },
  });
  await clock.advance(120_000);
  isFull = false;
  await clock.advance(120_000);
  stop.abort();
  await actor.done;
  expect(told.map(({ failure }) => failure?.code)).toEqual(["NODE_UNAVAILABLE"]);
});
