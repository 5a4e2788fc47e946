import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { findDeployment, phasesOf, postSource, running, settled } from "../support/source.ts";
import { waitFor } from "../support/wait-for.ts";

/** Canceling a deployment ends what runs for it, whatever that is, and what serves goes on serving. */

let cluster: Cluster;
let projectId: string;
beforeAll(async () => {
  cluster = await startCluster({ agents: 2, control: { SVC_DRAIN_SECONDS: "0.25" } });
  const { body } = await cluster.api("POST", "/projects", { name: "Canceled", type: "ssr" });
  projectId = z.looseObject({ id: z.string() }).parse(body["project"]).id;
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const forever = "console.log('and so on'); setInterval(() => {}, 1000)";
const server = `require("node:http").createServer((_, reply) => reply.end("first")).listen(Number(process.env.PORT))`;

/** An app whose build, release command and server are the given lines of JavaScript. */
function submit({
  build = "0",
  release,
  releaseSeconds = 300,
  serve = server,
}: {
  build?: string;
  release?: string;
  releaseSeconds?: number;
  serve?: string;
}) {
  const dockerfile = [
    `FROM ${cluster.platform.baseImage}`,
    "WORKDIR /app",
    "COPY . .",
    "RUN node build.js",
    'CMD ["node", "server.js"]',
  ];
  return postSource(cluster, {
    projectId,
    manifest: {
      version: 2,
      app: { name: "Canceled", type: "ssr" },
      build: { dockerfile: "Dockerfile" },
      ...(release !== undefined && { release: { command: "node release.js", timeoutSeconds: releaseSeconds } }),
    },
    files: {
      Dockerfile: `${dockerfile.join("\n")}\n`,
      "build.js": build,
      "release.js": release ?? "",
      "server.js": serve,
    },
  });
}

const cancel = async (id: string) => (await cluster.api("POST", `/deployments/${id}/cancel`)).status;
const hasPhase = (id: string, phase: string) => async () =>
  (await phasesOf(cluster, id)).some((event) => event.phase === phase);
const hasWritten = (id: string, text: string) => async () =>
  String((await cluster.api("GET", `/deployments/${id}/logs`)).body["log"]).includes(text);
const deploymentsWithContainers = async () =>
  (await cluster.containers()).map(({ labels }) => labels["svc.project"] ?? "").filter((id) => id === projectId).length;

test("a build, a release command and a start are ended, and the site goes on", { timeout: 600_000 }, async () => {
  const first = await submit({});
  await running(cluster, first.id);
  const serves = async () => expect(await (await edgeFetch(first.url)).text()).toBe("first");
  await serves();
  expect(await cancel(first.id)).toBe(409);

  const building = await submit({ build: forever });
  await waitFor("the build to write", 120_000, hasWritten(building.id, "and so on"));
  // The queue is in order, so this one waits behind the build. Earlier, the two might have waited together, and then the
  // older one gives way.
  const waiting = await submit({});
  expect(await cancel(waiting.id)).toBe(202);
  expect((await findDeployment(cluster, waiting.id)).status).toBe("canceled");
  expect(await cancel(building.id)).toBe(202);
  const canceled = await settled(cluster, building.id, 20_000);
  expect(canceled).toMatchObject({ status: "canceled", error: expect.stringMatching(/^Canceled/) });
  await serves();

  const releasing = await submit({ release: forever });
  await waitFor("the release command to write", 120_000, hasWritten(releasing.id, "and so on"));
  expect(await cancel(releasing.id)).toBe(202);
  const released = await settled(cluster, releasing.id, 30_000);
  expect(released).toMatchObject({ status: "canceled", release: { status: "failed", error: expect.any(String) } });
  await serves();

  const starting = await submit({ serve: forever });
  await waitFor("the container to be started", 120_000, hasPhase(starting.id, "starting"));
  await waitFor("its container", 60_000, async () => (await deploymentsWithContainers()) === 2);
  expect(await cancel(starting.id)).toBe(202);
  expect((await settled(cluster, starting.id, 20_000)).status).toBe("canceled");
  await serves();

  // What is left is what serves.
  await waitFor("everything else to be gone", 60_000, async () => (await deploymentsWithContainers()) === 1);
  expect((await findDeployment(cluster, first.id)).status).toBe("running");
  const phases = (await phasesOf(cluster, building.id)).map(({ phase }) => phase);
  expect(phases.slice(-2)).toEqual(["cancel-requested", "canceled"]);
});

test("a release command that fails, or takes too long, leaves the site as it was", { timeout: 600_000 }, async () => {
  const first = await submit({});
  await running(cluster, first.id);
  const failing = await submit({ release: "console.log('half way'); process.exit(3)" });
  const failed = await settled(cluster, failing.id);
  expect(failed).toMatchObject({ status: "failed", release: { status: "failed", exitCode: 3 } });
  expect(failed.error).toContain("exit code 3");
  const slow = await submit({ release: forever, releaseSeconds: 2 });
  expect(await settled(cluster, slow.id)).toMatchObject({ status: "failed", release: { status: "failed" } });
  expect(await (await edgeFetch(first.url)).text()).toBe("first");
  expect((await findDeployment(cluster, first.id)).status).toBe("running");
});
