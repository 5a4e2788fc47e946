import { run } from "@svc/runtime/command";
import { engineOutput } from "@svc/runtime/engine-output";
import { argv } from "@svc/runtime/programs";
import { startOwnEngine } from "@svc/runtime/testing/own-engine";
import Docker from "dockerode";
import { expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";

const lineCount = 20_000;
/** Some 2 MB at once, in which a cut anywhere is likely to meet a character of several bytes. */
const files = {
  "print.js": `
    const { mkdirSync, writeFileSync } = require("node:fs");
    process.stdout.write(Array.from({ length: ${lineCount} }, (_, at) => "line " + at + " " + "🚲".repeat(25) + "\\n").join(""));
    mkdirSync("dist");
    writeFileSync("dist/index.html", "said");
  `,
};
// Of a site only the result is stored, and no image is packed.
const recipe = { case: "static", value: { command: "node print.js", output: "dist" } } as const;

const endOfLog = async (bench: BuildBench, id: string): Promise<string> =>
  waitFor("the end of the log", () => (bench.log(id).includes("Stored sha256:") ? bench.log(id) : null));
const shown = (log: string): number => [...log.matchAll(/^#\d+ line \d+ /gm)].length;

/** Engines before 23.0 lose themselves when a step says so much at once. */
const { stdout: version } = await run(argv("dockerd", "--version"));
const isOld = Number(/\d+/.exec(version)?.[0]) < 23;

/** The bench on an engine of its own that has this environment and the base image. */
async function benchWith(env: Record<string, string>): Promise<BuildBench> {
  const engine = await startOwnEngine({ env: { ...process.env, ...env } });
  const own = new Docker({ socketPath: engine.socketPath });
  const loading = await own.loadImage(await new Docker().getImage(baseImage).get());
  await new Promise<void>((resolve, reject) => {
    own.modem.followProgress(loading, (error) => (error === null ? resolve() : reject(error)));
  });
  const bench = await createBuildBench({ SVC_DOCKER_SOCKET: engine.socketPath, SVC_AGENT_BUILD_BRIDGE: "" });
  return {
    ...bench,
    async [Symbol.asyncDispose]() {
      await bench[Symbol.asyncDispose]();
      await engine[Symbol.asyncDispose]();
    },
  };
}

test("of a step that says very much at once the first and the last is kept, and what is not is counted", {
  timeout: 600_000,
}, async () => {
  await using bench = await benchWith(engineOutput(version));
  const id = await bench.build(files, recipe);
  expect((await bench.outcome(id)).failure).toBeUndefined();
  const log = await endOfLog(bench, id);
  expect(log).not.toContain("\uFFFD");
  expect(log).toMatch(/^#\d+ line 0 🚲/m);
  // An engine that would lose itself is told to leave out what comes faster, and nobody counts that.
  if (isOld) return expect(log).toContain("left out what came faster");
  expect(log).toMatch(new RegExp(`^#\\d+ line ${lineCount - 1} (?:🚲){25}$`, "m"));
  const leftOut = [...log.matchAll(/^\[(\d+) lines? left out, \d+ bytes?\]$/gm)].map(([, lines]) => Number(lines));
  expect(shown(log) + leftOut.reduce((sum, lines) => sum + lines, 0)).toBe(lineCount);
});

/** What became of the build on an engine that passes on what it likes: a log, or null when the engine lost itself. */
async function logUnlessLost(bench: BuildBench): Promise<string | null> {
  const id = await bench.build(files, recipe);
  const { failure } = await bench.outcome(id);
  if (failure === undefined) return endOfLog(bench, id);
  expect(failure.message).toContain("more than 1 MiB at once");
  expect(isOld).toBe(true);
  return null;
}

test("an engine that was told to pass on more than it can ends the build at worst, and says why", {
  timeout: 600_000,
}, async () => {
  await using bench = await benchWith(engineOutput("26"));
  const log = await logUnlessLost(bench);
  if (log !== null) expect(log).toMatch(/^#\d+ line 0 🚲/m);
});

test("of an engine that leaves output out itself, that is said", { timeout: 300_000 }, async () => {
  await using bench = await createBuildBench();
  // Somebody else's engine passes on what it likes; this machine's may have been told to pass on everything.
  const log = await logUnlessLost(bench);
  if (log === null) return;
  expect(log).not.toContain("\uFFFD");
  expect(log).toMatch(/^#\d+ line 0 🚲/m);
  const isSaid = /left out what came faster|leaves out the rest|lines? left out/.test(log);
  expect(isSaid || shown(log) === lineCount).toBe(true);
});
