import { engineOutput } from "@svc/runtime/engine-output";
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

/** The log of a build that succeeds, as far as its output goes. */
async function logOf(bench: BuildBench): Promise<string> {
  const id = await bench.build(files, recipe);
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  await waitFor("the end of the log", () => bench.log(id).includes("Stored sha256:"));
  return bench.log(id);
}
const shown = (log: string): number => [...log.matchAll(/^#\d+ line \d+ /gm)].length;

test("of a step that says very much at once the first and the last is kept, and what is not is counted", {
  timeout: 600_000,
}, async () => {
  await using engine = await startOwnEngine({ env: { ...process.env, ...engineOutput } });
  const own = new Docker({ socketPath: engine.socketPath });
  const loading = await own.loadImage(await new Docker().getImage(baseImage).get());
  await new Promise<void>((resolve, reject) => {
    own.modem.followProgress(loading, (error) => (error === null ? resolve() : reject(error)));
  });
  await using bench = await createBuildBench({ SVC_DOCKER_SOCKET: engine.socketPath, SVC_AGENT_BUILD_BRIDGE: "" });
  const log = await logOf(bench);
  expect(log).not.toContain("\uFFFD");
  expect(log).toMatch(/^#\d+ line 0 🚲/m);
  expect(log).toMatch(new RegExp(`^#\\d+ line ${lineCount - 1} (?:🚲){25}$`, "m"));
  const leftOut = [...log.matchAll(/^\[(\d+) lines? left out, \d+ bytes?\]$/gm)].map(([, lines]) => Number(lines));
  expect(shown(log) + leftOut.reduce((sum, lines) => sum + lines, 0)).toBe(lineCount);
});

test("of an engine that leaves output out itself, that is said", { timeout: 300_000 }, async () => {
  await using bench = await createBuildBench();
  const log = await logOf(bench);
  expect(log).not.toContain("\uFFFD");
  expect(log).toMatch(/^#\d+ line 0 🚲/m);
  // Somebody else's engine passes on what it likes; this machine's may have been told to pass on everything.
  const isSaid = /left out what came faster|leaves out the rest|lines? left out/.test(log);
  expect(isSaid || shown(log) === lineCount).toBe(true);
});
