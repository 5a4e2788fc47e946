import { expect, test } from "vitest";
import type { BuildTrace } from "../engine/engine.ts";
import { boundOutput } from "./output-bound.ts";
import { createBuildProgress } from "./progress.ts";

const says = (bytes: number): BuildTrace => ({ vertexes: [], logs: [{ vertex: "d1", text: Buffer.alloc(bytes) }] });

test("steps that together write more than the engine should remember are ended, and the one that runs is named", () => {
  const progress = createBuildProgress([]);
  const step = { digest: "d1", cached: false, started: true, completed: false, error: "" };
  progress.add({ vertexes: [{ ...step, name: "RUN yes" }], logs: [] });
  const bound = boundOutput(progress, 1);
  bound.add(says(1024 * 1024));
  expect(bound.ended.aborted).toBe(false);
  bound.add(says(1));
  expect(bound.ended.reason).toMatchObject({
    code: "BUILD_FAILED",
    message: expect.stringContaining('wrote more than 1 MB of output and was stopped in the step "RUN yes"'),
  });
});
