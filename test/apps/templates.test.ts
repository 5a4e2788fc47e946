import { appendFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { performance } from "node:perf_hooks";
import { run } from "@svc/runtime/command";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { aligned, writeMeasured } from "./report.ts";
import { type Template, templates } from "./templates.ts";

/** A build has 15 minutes; everything around it is quick. */
const deployMs = 17 * 60_000;
const toolMs = 10 * 60_000;

/** What came of a template. Seconds are those of `svc deploy`, from its start to its end. */
interface Tried {
  template: string;
  tool: string;
  result: string;
  firstSeconds: number | null;
  secondSeconds: number | null;
  /** What a path gets that no file has. */
  deepLink: number | null;
}

let cluster: Cluster;
let dir = "";
const tried: Tried[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-templates-"));
  await mkdir(join(dir, "home"));
  cluster = await startCluster({ agents: 1 });
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
  if (tried.length === 0) return;
  console.error(`\n${render(tried)}\n\nalso in ${await writeMeasured(tried, "templates")}`);
});

function render(all: readonly Tried[]): string {
  const seconds = (value: number | null) => (value === null ? "-" : `${value.toFixed(1)} s`);
  const rows = all.map(({ template, result, firstSeconds, secondSeconds, deepLink }) => [
    ...[template, result, seconds(firstSeconds), seconds(secondSeconds)],
    deepLink === null ? "-" : String(deepLink),
  ]);
  return aligned(["template", "result", "first deploy", "second deploy", "deep link"], rows);
}

/** Runs npm as the person would who makes the project, with a home of the test's own. */
const npm = (words: readonly string[], cwd: string) =>
  run(["npm", ...words], {
    cwd,
    timeoutMs: toolMs,
    env: {
      ...process.env,
      // Tools hold the Node that runs them against what their templates need.
      PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
      HOME: join(dir, "home"),
      npm_config_cache: process.env["npm_config_cache"] ?? join(homedir(), ".npm"),
      npm_config_audit: "false",
      npm_config_fund: "false",
      npm_config_update_notifier: "false",
      CI: "1",
      DO_NOT_TRACK: "1",
      NG_CLI_ANALYTICS: "false",
      NEXT_TELEMETRY_DISABLED: "1",
    },
  });

/** Makes the project and returns its directory. */
async function make({ name, create }: Template): Promise<string> {
  const [tool = "", ...words] = create.map((word) => word.replace("{dir}", name));
  await npm(["exec", "--yes", `--package=${tool}`, "--", ...words], dir);
  return join(dir, name);
}

async function timedDeploy(cwd: string): Promise<{ site: Deployed; seconds: number }> {
  const from = performance.now();
  const site = await deploy(cluster, cwd);
  return { site, seconds: (performance.now() - from) / 1000 };
}

async function page(url: string): Promise<{ status: number; text: string }> {
  const reply = await edgeFetch(url, { headers: { accept: "text/html, */*" } });
  return { status: reply.status, text: await reply.text() };
}

const assetLink = /(?:src|href)="\.?(\/[^"?#]+\.(?:m?js|css))["?#]/;

describe.each(templates)("$name", (template: Template) => {
  const { name, outcome, create } = template;
  const row: Tried = {
    ...{ template: name, tool: create[0] ?? "", result: "failed" },
    ...{ firstSeconds: null, secondSeconds: null, deepLink: null },
  };

  // The whole takes long: who waits sees how far it is.
  afterEach(() => console.error(render([row])));

  test("comes to what it should at the first try", { timeout: 2 * deployMs + 2 * toolMs }, async () => {
    tried.push(row);
    const cwd = await make(template);
    const init = await cluster.cli(["init", "--name", name, "--json"], { cwd });
    if ("refused" in outcome) {
      expect(init.json()).toMatchObject({ ok: false });
      const { message, hint } = init.json()["error"] as { message: string; hint: string };
      expect(`${message} ${hint}`).toMatch(outcome.refused);
      row.result = "refused with the cure";
      return;
    }
    expect(init.json()).toMatchObject({ ok: true });
    const first = await timedDeploy(cwd);
    row.firstSeconds = first.seconds;
    const { url, slug } = first.site;
    try {
      const start = await page(url);
      expect(start.status).toBe(200);
      expect(start.text).toContain(outcome.has);
      const [, asset] = assetLink.exec(start.text) ?? [];
      if (asset !== undefined) expect([asset, (await page(`${url}${asset}`)).status]).toEqual([asset, 200]);
      row.deepLink = (await page(`${url}/no/such/page`)).status;

      await appendFile(join(cwd, "README.md"), "\nSecond edition.\n");
      row.secondSeconds = (await timedDeploy(cwd)).seconds;
      expect(await page(url)).toMatchObject({ status: 200, text: expect.stringContaining(outcome.has) });
      row.result = outcome.type;
    } finally {
      // Nodes have room for a few apps at a time.
      if (outcome.type === "ssr") await cluster.cli(["stop", "--project", slug, "--json"]);
      await rm(cwd, { recursive: true, force: true });
    }
  });
});
