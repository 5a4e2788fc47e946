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
  const progress = createBuildProgress(["s3cret-value"]);
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

test.each([
  {
    name: '[build 5/8] RUN ["/bin/sh","-c",". /run/svc-build/env; exec /bin/sh -c "$0"","npm run build"]',
    is: "npm run build",
  },
  { name: '[build 5/8] RUN ["/bin/sh","-c","vite --mode "a b""]', is: 'vite --mode "a b"' },
])("a command is told without what is around it: $is", ({ name, is }) => {
  expect(follow(vertexes({ name, completed: true })).text).toBe(`#1 RUN ${is}\n#1 done\n`);
});

test("internal steps do not show", () => {
  expect(follow(vertexes({ name: "[internal] load build context", completed: true })).text).toBe("");
});

test("a cached step says so", () => {
  expect(follow(vertexes({ completed: true, cached: true })).text).toBe("#1 RUN npm ci\n#1 cached\n");
});

test("terminal codes do not get through", () => {
  const esc = String.fromCharCode(27);
  expect(follow(vertexes({}), says(`${esc}[31mred${esc}[0m\n50%\r100%\n`)).text).toBe(
    "#1 RUN npm ci\n#1 red\n#1 100%\n",
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

test("secret values show nowhere, however they are cut", () => {
  const { text, failed } = follow(
    vertexes({ name: "[2/2] RUN echo s3cret-value" }),
    says("it is s3cr"),
    says("et-value\n"),
    vertexes({ error: 'process "echo s3cret-value" failed: exit code: 1' }),
  );
  expect(text).toBe(
    '#1 RUN echo [redacted]\n#1 it is [redacted]\n#1 ERROR: process "echo [redacted]" failed: exit code: 1\n',
  );
  expect(JSON.stringify(failed)).not.toContain("s3cret-value");
});

test("where the engine keeps files does not show", () => {
  const error = "lstat /var/lib/docker/overlay2/27d73dffbce9/merged/nosuch.txt: no such file or directory";
  expect(follow(vertexes({ error })).failed?.error).toBe("lstat /nosuch.txt: no such file or directory");
});

test("a command that is made to take long stops nobody for long", () => {
  const before = process.cpuUsage();
  follow(
    vertexes({ name: `[2/2] RUN ${"--mount=".repeat(16_000)}` }),
    vertexes({ error: `process "${"/overlay2/fs".repeat(10_000)}" failed` }),
  );
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(5_000);
});

/** Steps of a generated Dockerfile, of which the log is to have the install command alone. */
const generated = (...traces: BuildTrace[]) => {
  const progress = createBuildProgress([]);
  progress.leaveOut((title) => title !== "RUN npm ci");
  return { text: traces.map((trace) => progress.add(trace)).join(""), progress };
};
const own = { digest: "d2", name: '[build 3/3] RUN ["/bin/sh","-c","npm prune"]' };

test("a step that is the platform's own is not in the log", () => {
  const { text } = generated(
    vertexes({ digest: "d0", name: "[build 1/3] FROM base", completed: true }),
    vertexes(own),
    says("removed 3 packages\n", "d2"),
    vertexes({ ...own, completed: true }, {}),
    says("added 3 packages\n"),
    vertexes({ completed: true }),
  );
  expect(text).toBe("#1 RUN npm ci\n#1 added 3 packages\n#1 done\n");
});

test("such a step is in the log when it fails, with what it said, and known while it runs", () => {
  const { text, progress } = generated(vertexes({}), vertexes(own), says("no such package\n", "d2"));
  expect(text).toBe("#1 RUN npm ci\n");
  expect(progress.running()?.step).toBe("RUN npm prune");
  expect(progress.add(vertexes({ ...own, error: "exit code: 1" }))).toBe(
    "#2 RUN npm prune\n#2 no such package\n#2 ERROR: exit code: 1\n",
  );
  expect(progress.failed()?.lastLines).toEqual(["no such package"]);
});

test("the step under way is known", () => {
  const progress = createBuildProgress([]);
  expect(progress.running()).toBeNull();
  progress.add(vertexes({}));
  progress.add(says("working\n"));
  expect(progress.running()).toEqual({ step: "RUN npm ci", lastLines: ["working"] });
  progress.add(vertexes({ completed: true }));
  expect(progress.running()).toBeNull();
});
