import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { type Deployed, deploy } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";
import { waitFor } from "../../support/wait-for.ts";

let cluster: Cluster;
let server: Deployed;
let pages: Deployed;
let serverDir = "";
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  serverDir = await cluster.exampleDir("ssr");
  server = await deploy(cluster, serverDir);
  pages = await deploy(cluster, await cluster.exampleDir("static"));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const act = (action: "suspend" | "resume") =>
  Promise.all([server, pages].map(({ project }) => cluster.api("POST", `/admin/projects/${project.id}/${action}`)));
/** What visitors of both sites get. */
const statuses = () => Promise.all([server, pages].map(async ({ url }) => (await edgeFetch(url)).status));
const restartControl = async () => {
  const control = cluster.platform.program("control");
  await control.stop("SIGKILL");
  await control.start();
};

test("visitors get the platform's page, and nothing of the project runs, though control is killed in between", async () => {
  expect(await statuses()).toEqual([200, 200]);
  expect((await act("suspend")).map(({ status }) => status)).toEqual([202, 202]);
  await restartControl();
  await waitFor("the page on both sites", 30_000, async () => (await statuses()).join() === "503,503");
  const reply = await edgeFetch(server.url);
  expect(reply.headers.get("retry-after")).toBe("3600");
  expect(await reply.text()).toContain("<title>This site is suspended</title>");
  await waitFor("no container of the suspended site", 60_000, async () =>
    (await cluster.containers()).every(({ labels }) => labels["svc.project"] !== server.project.id),
  );
});

test("its owner is told, and cannot deploy", async () => {
  const list = await cluster.cli(["projects", "list", "--json"]);
  expect(list.json()["projects"]).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ slug: server.slug, suspendedAt: expect.any(String), suspendReason: "admin" }),
    ]),
  );
  const refused = await cluster.cli(["deploy", "--prod", "--json"], { cwd: serverDir });
  expect(refused.exitCode).not.toBe(0);
  expect(refused.json()["error"]).toMatchObject({
    code: "CLOUD_REQUEST_FAILED",
    hint: expect.stringMatching(/resume/),
  });
});

test("both sites serve again once they are resumed, though control is killed in between", async () => {
  expect((await act("resume")).map(({ status }) => status)).toEqual([202, 202]);
  await restartControl();
  await waitFor("both sites", 60_000, async () => (await statuses()).join() === "200,200");
  const { body } = await cluster.api("GET", `/projects/${server.project.id}`);
  expect(body["project"]).toMatchObject({ suspendedAt: null, suspendReason: null });
});
