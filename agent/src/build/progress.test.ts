import { expect, test } from "vitest";
import type { BuildTrace } from "../engine/engine.ts";
import { createBuildProgress } from "./progress.ts";

type Vertex = BuildTrace["vertexes"][number];
const aVertex = (changes: Partial<Vertex>): Vertex => ({
  digest: "d1",
  name: '[build 2/3] RUN --mount=type=cache,id=x ["/bin/sh","-c","npm ci"]',
  cached: false,
  started: true,
  completed: false,
  error: "",
  ...changes,
});
const vertexes = (...all: Partial<Vertex>[]): BuildTrace => ({ vertexes: all.map(aVertex), logs: [] });
const says = (text: string, vertex = "d1"): BuildTrace => ({
  vertexes: [],
  logs: [{ vertex, text: Buffer.from(text) }],
});

const follow = (...traces: BuildTrace[]) => {
  const progress = createBuildProgress();
  return { text: traces.map((trace) => progress.add(trace)).join(""), failed: progress.failed() };
};

test("a step is named once, its lines carry its number", () => {
  const { text } = follow(
    vertexes({}),
    vertexes({}),
    says("added 3"),
    says(" packages\nok\n"),
    vertexes({ completed: true }),
  );
  expect(text).toBe("#1 RUN npm ci\n#1 added 3 packages\n#1 ok\n#1 done\n");
});

test("internal steps do not show", () => {
  expect(follow(vertexes({ name: "[internal] load build context", completed: true })).text).toBe("");
});

test("a cached step says so", () => {
  expect(follow(vertexes({ completed: true, cached: true })).text).toBe("#1 RUN npm ci\n#1 cached\n");
});

test("terminal codes do not get through", () => {
  const esc = String.fromCharCode(27);
  expect(follow(vertexes({}), says(`${esc}[31mred${esc}[0m\r50%\r100%\n`)).text).toBe(
    "#1 RUN npm ci\n#1 red\n#1 50%\n#1 100%\n",
  );
});

test("the first failing step is the cause, with its last lines", () => {
  const { failed, text } = follow(
    vertexes({}),
    says("npm error missing script\n"),
    vertexes({ error: 'process "/bin/sh -c npm ci" did not complete successfully: exit code: 1' }),
    vertexes({ digest: "d2", name: "[build 3/3] COPY . .", error: "context canceled" }),
  );
  expect(failed).toMatchObject({ step: "RUN npm ci", lastLines: ["npm error missing script"] });
  expect(failed?.error).toContain("exit code: 1");
  expect(text).toContain("#1 ERROR: process");
});

test("a line that came without an end is kept when its step fails", () => {
  expect(follow(vertexes({}), says("half"), vertexes({ error: "exit code: 2" })).failed?.lastLines).toEqual(["half"]);
});
