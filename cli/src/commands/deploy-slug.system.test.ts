import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  deploymentId,
  ok,
  projectId,
  type Routes,
  startApi,
} from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";
import { runAtTerminal } from "../testing/terminal.ts";

const manifest = "# Ours\nversion: 2 # the form\n\napp: { name: Shop, type: static }\n";
const named = "# Ours\nversion: 2 # the form\nslug: shop\n\napp: { name: Shop, type: static }\n";
const image = "version: 2\nname: Shop\ntype: ociimage\nport: 80\nimage: { reference: nginx:stable }\n";
const link = JSON.stringify({ project: { id: projectId, slug: "shop" } });

/** A platform that has no project yet. */
const routes: Routes = {
  "POST /api/v1/projects": ok({ project: aProject() }, 201),
  [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [aDeployment({ status: "failed" })] }),
  [`POST /api/v1/projects/${projectId}/deployments`]: ok(anAccepted(), 202),
  [`GET /api/v1/deployments/${deploymentId}`]: ok({ deployment: aDeployment() }),
  [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
};

/** Deploys a directory with `files`; at a terminal where somebody types `typed`, or without one. */
async function deploy(options: {
  files?: Record<string, string>;
  answers?: Routes;
  args?: string[];
  env?: Record<string, string>;
  typed?: string;
  columns?: number;
}) {
  await using api = await startApi({ ...routes, ...options.answers });
  await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "<h1>", ...options.files });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, ...options.env };
  const argv = ["deploy", ...(options.args ?? [])];
  const where = { cwd: directory.path, env };
  const { typed, columns = 200 } = options;
  const ended = await (typed === undefined
    ? svc(argv, where).then((each) => ({ ...each, screen: "" }))
    : runAtTerminal(argv, { ...where, typed, columns, asked: "so that other checkouts" }));
  return { ended, written: await readFile(join(directory.path, "svc.yml"), "utf8") };
}

describe.concurrent("after a first deploy at a terminal", () => {
  test("the manifest names the project, if the person likes, and keeps all else", async () => {
    const { ended, written } = await deploy({ typed: "\r" });
    expect(ended.status).toBe(0);
    expect(written).toBe(named);
  });

  test.each([[[]], [["--no-wait"]]])("the result is there before anything is asked (%s)", async (args) => {
    const { ended } = await deploy({ typed: "\r", args });
    const [result, question] = ["shop to", "so that other checkouts"].map((text) => ended.screen.indexOf(text));
    expect(result).toBeGreaterThan(-1);
    expect(question).toBeGreaterThan(result ?? -1);
  });

  test("nothing is asked where the result goes elsewhere than to the terminal", async () => {
    const { ended, written } = await deploy({ typed: "", columns: 0 });
    expect(ended.status).toBe(0);
    expect(ended.stderr).toContain("add the line `slug: shop` to svc.yml");
    expect(ended.stderr).not.toContain("so that other checkouts");
    expect(written).toBe(manifest);
  });

  test("a no is a no, with the line for later", async () => {
    const { ended, written } = await deploy({ typed: "n" });
    expect(ended.status).toBe(0);
    expect(written).toBe(manifest);
    expect(ended.stderr).toContain("add the line `slug: shop` to svc.yml");
  });

  test.each([
    ["Escape leaves it alone", { typed: "\u001b" }, manifest],
    ["--yes writes it without a question", { typed: "", args: ["--yes"] }, named],
    ["--no-wait asks as well", { typed: "\r", args: ["--no-wait"] }, named],
    ["the deploy that follows one that failed asks", { typed: "\r", files: { ".svc/state.json": link } }, named],
  ])("%s", async (_, options, expected) => {
    const { ended, written } = await deploy(options);
    expect(ended.status).toBe(0);
    expect(written).toBe(expected);
  });

  test("one that failed changes nothing", async () => {
    const failed = ok({ deployment: aDeployment({ status: "failed", error: "exit 1" }) });
    const { ended, written } = await deploy({
      typed: "\r",
      answers: { [`GET /api/v1/deployments/${deploymentId}`]: failed },
    });
    expect(ended.status).toBe(4);
    expect(written).toBe(manifest);
  });

  test("an image's manifest, which has no slug, is told another way", async () => {
    const { ended, written } = await deploy({ typed: "\r", files: { "svc.yml": image } });
    expect(ended.stderr).toContain("svc deploy --project shop");
    expect(written).toBe(image);
  });
});

test.each([
  ["a slug of auto stays what it is", { files: { "svc.yml": `slug: auto\n${manifest}` } }],
  [
    "a project that has run is known by now",
    {
      files: { ".svc/state.json": link },
      answers: { [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [aDeployment()] }) },
    },
  ],
])("%s, and nobody is asked", async (_, options) => {
  const { ended, written } = await deploy({ ...options, typed: "\r" });
  expect(ended.status).toBe(0);
  expect(ended.stderr).not.toContain("checkout");
  expect(written).not.toContain("slug: shop");
});

describe.concurrent("where nobody can be asked", () => {
  test.each([
    ["in a pipeline", { CI: "true" }],
    ["in a script", {}],
  ])("%s nothing is written, and the line is told with the project", async (_, env: Record<string, string>) => {
    const { ended, written } = await deploy({ args: ["--json"], env });
    const { warnings } = envelopeOf(ended);
    expect(warnings).toEqual([expect.stringMatching(/project than shop: .*`slug: shop` to svc\.yml/)]);
    expect(ended.stderr).toContain("`slug: shop`");
    expect(written).toBe(manifest);
  });

  test("it is told before the deploy can fail", async () => {
    const failed = ok({ deployment: aDeployment({ status: "failed" }) });
    const { ended } = await deploy({ answers: { [`GET /api/v1/deployments/${deploymentId}`]: failed } });
    expect(ended.status).toBe(4);
    expect(ended.stderr).toContain("`slug: shop`");
  });

  test.each([
    ["of a linked directory", { ".svc/state.json": link }],
    ["of a manifest that wants a new one each time", { "svc.yml": `slug: auto\n${manifest}` }],
  ])("there is no warning %s", async (_, files) => {
    expect(envelopeOf(await deploy({ args: ["--json"], files }).then(({ ended }) => ended))["warnings"]).toEqual([]);
  });

  test("an image's manifest is told another way", async () => {
    const { ended } = await deploy({ args: ["--json"], files: { "svc.yml": image } });
    expect(envelopeOf(ended)["warnings"]).toEqual([expect.stringContaining("svc deploy --project shop")]);
  });
});
