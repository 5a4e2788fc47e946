import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";

/** Somebody works on an app: what is saved is on the dev channel soon after, and the Dev database is in reach. */

const patienceMs = 240_000;

let cluster: Cluster;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-dev-loop-"));
  cluster = await startCluster({ agents: 1, control: { SVC_DRAIN_SECONDS: "0.25" } });
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const app = (edition: string) => `
const { createServer } = require("node:http");
createServer((_, response) => response.end(${JSON.stringify(edition)})).listen(process.env.PORT, () => console.log("it listens"));
process.on("SIGTERM", () => process.exit(0));
`;

/** Ends once the file "end" is there, so that the run is over when the test is. */
const command = `node -e "
const { existsSync } = require('node:fs');
const url = new URL(process.env.DATABASE_URL);
const socket = require('node:net').connect(Number(url.port), url.hostname);
socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
socket.on('data', (bytes) => { console.log('the database says', bytes.toString()); socket.destroy(); });
setInterval(() => existsSync('end') && process.exit(0), 200);
"`.replaceAll("\n", " ");

test("several saves later the dev channel has the last of them", async () => {
  const file = (name: string) => join(dir, name);
  const manifest = {
    ...{ version: 2, slug: "loop-app", app: { name: "Loop", type: "ssr" }, start: { command: "node index.js" } },
    ...{ database: { enabled: true }, dev: { command } },
  };
  // JSON is YAML.
  await writeFile(file("svc.yml"), JSON.stringify(manifest));
  await writeFile(file("package.json"), "{}");
  await writeFile(file("index.js"), app("first"));
  const deployed = await cluster.cli(["deploy", "--json"], { cwd: dir });
  expect(`${deployed.exitCode} ${deployed.stderr}${deployed.stdout}`).toMatch(/^0 /);

  let said = "";
  const dev = cluster.cli(["dev", "--db", "--sync", "--json"], {
    cwd: dir,
    onStderr: (text) => {
      said += text;
    },
  });
  await waitFor("the app to reach its database", patienceMs, () => /the database says [NS]/.test(said));
  await waitFor("the first sync", patienceMs, () => /has what was saved/.test(said));
  const [url = ""] = /http\S+(?= has what was saved)/.exec(said) ?? [];
  const shown = async () => (await edgeFetch(url)).text();
  expect(await shown()).toBe("first");
  for (const edition of ["second", "third", "fourth"]) await writeFile(file("index.js"), app(edition));
  await waitFor("the newest of several saves", patienceMs, async () => (await shown()) === "fourth");
  await writeFile(file("index.js"), app("fifth"));
  await waitFor("one more save", patienceMs, async () => (await shown()) === "fifth");
  await writeFile(file("end"), "");
  expect((await dev).json()).toMatchObject({ ok: true, framework: "custom", exitCode: 0 });
  expect(await readFile(file(".env.local"), "utf8")).toMatch(/^DATABASE_URL=postgres:\/\/\S+@127\.0\.0\.1:\d+\/\S+\n$/);
  const { id } = z.looseObject({ id: z.string() }).parse(deployed.json()["project"]);
  const { body } = await cluster.api("GET", `/projects/${id}/deployments?channel=dev`);
  // The first, what was saved together, and the last; the file that ends it all may have been one more.
  const { length } = z.array(z.unknown()).parse(body["deployments"]);
  expect(length).toBeGreaterThanOrEqual(3);
  expect(length).toBeLessThanOrEqual(4);
});
