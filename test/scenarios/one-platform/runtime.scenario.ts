import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../../cluster.ts";
import { edgeFetch } from "../../support/edge.ts";
import { findDeployment, phasesOf, postSource, running, settled } from "../../support/source.ts";
import { waitFor } from "../../support/wait-for.ts";

/** What the owner of an app that does not behave gets to see. */

const server = `import { createServer } from "node:http";
const [port, host] = [Number(process.env.PORT), process.env.LISTEN_ON];
createServer((request, reply) => {
  if (request.url !== "/crash") return reply.end("all is well");
  console.log("the reactor is too hot");
  process.exit(7);
}).listen(port, host, () => console.log("listening"));
`;

let cluster: Cluster;
let slug = "";
let projectId = "";
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  const { body } = await cluster.api("POST", "/projects", { name: "Reactor", type: "ssr" });
  const project = z.looseObject({ id: z.string(), slug: z.string() }).parse(body["project"]);
  [projectId, slug] = [project.id, project.slug];
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

function deploy(listenOn: string): Promise<{ id: string; url: string }> {
  const dockerfile = `FROM ${cluster.platform.baseImage}\nCOPY server.mjs /\nENV LISTEN_ON=${listenOn}\nUSER 1000\nCMD ["node", "/server.mjs"]\n`;
  const manifest = {
    version: 2,
    app: { name: "Reactor", type: "ssr" },
    build: { dockerfile: "Dockerfile" },
    health: { path: "/", timeoutSeconds: 5 },
  };
  return postSource(cluster, { projectId, manifest, files: { "server.mjs": server, Dockerfile: dockerfile } });
}

const readLogs = (query = "") => cluster.api("GET", `/projects/${projectId}/runtime-logs${query}`);

test("an app that listens on 127.0.0.1 fails to deploy and is told why, with its last lines", async () => {
  const { id } = await deploy("127.0.0.1");
  const { status, error } = await settled(cluster, id);
  expect(status).toBe("failed");
  expect(error).toContain("It listens on 127.0.0.1:3000, which only the container itself can reach.");
  expect(error).toContain("Make it listen on 0.0.0.0:3000.");
  expect(error).toMatch(/Last lines:\nlistening$/);

  const refused = await readLogs();
  expect(refused.status).toBe(409);
  expect(JSON.stringify(refused.body)).toContain("did not come up");
  // Its container is removed by now, or soon will be.
  const last = await waitFor("the last words", 30_000, async () => {
    const gone = (await cluster.containers()).length === 0;
    return gone ? readLogs("?exited=true") : null;
  });
  expect(last.body).toMatchObject({ state: "exited", exit: { code: null, oomKilled: false }, lines: 1 });
  expect(last.body["log"]).toMatch(/^\S+Z listening\n$/);
  // What the hint of the failed deploy names, for one that never served and also when another one does.
  const read = await cluster.cli(["logs", "--runtime", "--deployment", id]);
  expect(read.stdout).toMatch(/^\S+ listening\n$/);
  expect(read.stderr).toContain("It listens on 127.0.0.1:3000");
});

test("an app that crashes shows its exit code and last lines until it is back, and in its timeline", async () => {
  const { id } = await deploy("0.0.0.0");
  const { url } = await running(cluster, id);
  const logs = await cluster.cli(["logs", "--runtime", "--project", slug]);
  expect(logs.exitCode).toBe(0);
  expect(logs.stdout).toMatch(/^\S+Z listening\n$/);

  // The first restart comes at once, the next few are quick; the loop is broken off while one of them is waited for.
  const crashed = await waitFor("a crash to be seen", 60_000, async () => {
    await edgeFetch(`${url}/crash`).catch(() => {});
    const { body } = await readLogs("?exited=true");
    const isTold = (await phasesOf(cluster, id)).some(({ phase }) => phase === "crashed");
    return isTold && body["state"] === "exited" ? body : null;
  });
  expect(crashed).toMatchObject({ exit: { code: 7, oomKilled: false } });
  expect(crashed["log"]).toMatch(/the reactor is too hot\n$/);

  const shown = await waitFor("status and list to say so", 60_000, async () => {
    await edgeFetch(`${url}/crash`).catch(() => {});
    const told = [await cluster.cli(["status", "--project", slug]), await cluster.cli(["projects", "list"])];
    const isTold = told.every(({ stdout }) => stdout.includes("crashing") && stdout.includes(" times in "));
    return isTold ? told.map(({ stdout }) => stdout.replaceAll(/\s+/g, " ")) : null;
  });
  for (const text of shown) expect(text).toMatch(/ times in .*: The app exited with code 7 and is started again\./);

  await waitFor("the app to be back", 150_000, async () => {
    const reply = await edgeFetch(url).catch(() => null);
    return reply?.status === 200;
  });
  await waitFor("the timeline to tell it", 30_000, async () => {
    const phases = (await phasesOf(cluster, id)).map(({ phase }) => phase);
    return phases.includes("crashed") && phases.at(-1) === "recovered";
  });
  const { status } = await findDeployment(cluster, id);
  expect(status).toBe("running");
  expect((await readLogs()).body).toMatchObject({ state: "running", exit: null });
});
