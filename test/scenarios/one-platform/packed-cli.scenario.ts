import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { nodeBinary } from "@svc/deploy/paths";
import { run } from "@svc/runtime/command";
import { ownProgram } from "@svc/runtime/programs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Installed, installPackage } from "../../../cli/src/testing/package.ts";
import { type Cluster, startCluster } from "../../cluster.ts";
import { edgeFetch } from "../../support/edge.ts";
import { installNode } from "../../support/node-release.ts";

/** The command line as npm packs it and users install it, on each Node that they may have, with a whole platform. */

let dir: string;
let cluster: Cluster;
let installed: Installed;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-packed-"));
  installed = await installPackage(join(dir, "prefix"));
  cluster = await startCluster({ agents: 1 });
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

/** The oldest Node that the package says it runs on. */
function oldestNode(): string {
  const { engines } = z.object({ engines: z.object({ node: z.string() }) }).parse(installed.manifest);
  return `${engines.node.replace(/^>=/, "")}.0`;
}

const page = (major: string) => `<h1>packed ${major}</h1>`;
const server = (major: string) => `
console.log("packed ${major} listens");
require("node:http").createServer((_, response) => response.end(${JSON.stringify(page(major))})).listen(process.env.PORT);
process.on("SIGTERM", () => process.exit(0));
`;

describe.each(["22", "24"])("on Node %s", (major) => {
  const site = () => join(dir, `site-${major}`);
  let node: string;
  beforeAll(async () => {
    node = major === "24" ? nodeBinary() : await installNode(oldestNode(), join(dir, `node-${major}`));
    const manifest = {
      ...{ version: 2, slug: `packed-${major}`, app: { name: `Packed ${major}`, type: "ssr" } },
      start: { command: "node index.js" },
      jobs: [{ name: "nightly", schedule: "0 3 1 1 *", command: "echo night" }],
    };
    await mkdir(site());
    // JSON is YAML.
    await writeFile(join(site(), "svc.yml"), JSON.stringify(manifest));
    await writeFile(join(site(), "package.json"), "{}");
    await writeFile(join(site(), "index.js"), server(major));
  });

  /** Started by its name, as a shell does it: the launcher's first line finds this Node on the PATH. */
  const svc = async (...args: string[]): Promise<string> => {
    const env = {
      PATH: [dirname(node), process.env["PATH"]].join(":"),
      HOME: join(dir, `home-${major}`),
      SVC_API_URL: cluster.platform.apiUrl,
      SVC_TOKEN: cluster.key,
    };
    return (await run([ownProgram(installed.program), ...args], { cwd: site(), env, timeoutMs: 16 * 60_000 })).stdout;
  };
  const json = async (...args: string[]): Promise<unknown> => JSON.parse(await svc(...args, "--json"));

  test("says who it is, deploys, and reads logs and jobs", async () => {
    expect((await run([ownProgram(node), "--version"])).stdout).toMatch(new RegExp(`^v${major}\\.`));

    expect(await json("whoami")).toMatchObject({ ok: true, user: { email: cluster.platform.admin.email } });
    const deployed = z
      .looseObject({ ok: z.literal(true), deployment: z.looseObject({ status: z.string() }), url: z.string() })
      .parse(await json("deploy"));
    expect(deployed).toMatchObject({ operation: "deploy", deployment: { status: "running" } });
    expect(await (await edgeFetch(deployed.url)).text()).toBe(page(major));
    expect(await svc("logs")).not.toBe("");
    expect(await svc("logs", "--runtime")).toContain(`packed ${major} listens`);
    expect(await json("jobs", "ls")).toMatchObject({
      operation: "jobs.ls",
      jobs: [{ name: "nightly", enabled: true }],
    });
    expect(await json("status")).toMatchObject({ ok: true, project: { slug: `packed-${major}` } });
  });
});
