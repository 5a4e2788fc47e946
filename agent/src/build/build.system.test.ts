import { type AddressInfo, createServer } from "node:net";
import { buffer } from "node:stream/consumers";
import { getCACertificates } from "node:tls";
import { gunzipSync } from "node:zlib";
import { Desired, Observed, type PlacementStatus } from "@svc/proto/node";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { extract } from "tar-stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { startRegistry } from "../testing/registry.ts";
import { packSource, pushSource } from "../testing/source.ts";
import { waitFor } from "../testing/wait.ts";

const baseImage = "node:24-slim";
const server = `
const http = require("node:http");
console.log("hello from the app");
http.createServer((_, reply) => reply.end("built")).listen(process.env.PORT, "0.0.0.0");
`;

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: Agent;
let count = 0;

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode();
  control = createTestControl({ registryHost: registry.host });
  agent = await start(node.config, { openLink: control.openLink });
  await agent.ready;
});

afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

type Recipe =
  | { case: "static"; value: { command: string; output: string } }
  | { case: "image"; value: { dockerfile?: string; buildCommand?: string; startCommand?: string; port: number } };

/** Assigns a build of `files` and returns its id. */
async function build(
  files: Record<string, string>,
  recipe: Recipe,
  spec: { maxImageMb?: number; timeoutSeconds?: number; caBundle?: string } = {},
): Promise<string> {
  count += 1;
  const placementId = `build-${count}`;
  const sourceDigest = await pushSource(registry.host, "svc/p1/source", await packSource(files));
  await control.assign({
    upserts: [
      {
        placementId,
        epoch: 1n,
        desired: Desired.RUNNING,
        specHash: "h",
        projectId: "p1",
        channel: "production",
        spec: {
          case: "build",
          value: {
            sourceRepository: "svc/p1/source",
            sourceDigest,
            targetRepository: recipe.case === "static" ? "svc/p1/bundle" : "svc/p1/app",
            rootDirectory: ".",
            recipe,
            baseImage: baseImage,
            timeoutSeconds: 600,
            maxImageMb: 1_000,
            maxUnpackedMb: 50,
            // Steps of an earlier run of these tests must not come from the cache.
            cacheNamespace: node.owner.nodeId,
            ...spec,
          },
        },
      },
    ],
  });
  return placementId;
}

const isOver = (status: PlacementStatus): boolean => status.observed >= Observed.COMPLETED;
const outcome = (placementId: string) => control.status(placementId, isOver, 120_000);
const log = (placementId: string): string => control.logs.get(placementId) ?? "";

async function bundleFiles(digest: string): Promise<Map<string, Buffer>> {
  await using client = createRegistry(systemClock, { url: `http://${registry.host}` });
  const stream = await client.pullArtifact("svc/p1/bundle", digest, { maxSizeBytes: 10_000_000 });
  const files = new Map<string, Buffer>();
  const reader = extract();
  reader.end(gunzipSync(await buffer(stream)));
  for await (const entry of reader) files.set(entry.header.name, await buffer(entry as AsyncIterable<Uint8Array>));
  return files;
}

describe("a static site", () => {
  test("without a command is its files, with smaller copies and without secrets", async () => {
    const page = `<!doctype html>${"<p>hello</p>".repeat(500)}`;
    const ofItsAuthor = { ".env": "SECRET=1", "svc.yml": "version: 2", "package.json": "{}" };
    const files = { "index.html": page, "img/a.png": "x".repeat(3_000), ...ofItsAuthor };
    const id = await build(files, { case: "static", value: { command: "", output: "." } });
    const status = await outcome(id);
    expect(status).toMatchObject({ observed: Observed.COMPLETED });
    const bundle = await bundleFiles(status.build?.digest ?? "");
    expect([...bundle.keys()]).toEqual([
      ...["img/a.png", "index.html", "index.html.br", "index.html.gz"],
      "package.json",
    ]);
    expect(bundle.get("index.html")?.toString()).toBe(page);
    expect(gunzipSync(bundle.get("index.html.gz") ?? Buffer.alloc(0)).toString()).toBe(page);
    await waitFor("the log", () => log(id).includes("Stored sha256:"));
    expect(status.build?.warnings).toEqual([]);
    expect(log(id)).not.toContain("Warning:");
  });

  test("that cannot be right is served all the same, and said", async () => {
    const files = { "docs/index.html": "<p>", id_rsa: "x", "package.json": "{}" };
    const id = await build(files, { case: "static", value: { command: "", output: "." } });
    const status = await outcome(id);
    expect(status).toMatchObject({ observed: Observed.COMPLETED });
    expect(status.build?.warnings).toEqual([
      expect.stringMatching(/^There is no index\.html .* in docs:/),
      expect.stringMatching(/^id_rsa may hold secrets/),
      expect.stringMatching(/^package\.json is served/),
    ]);
    await waitFor("the log", () => log(id).includes("Stored sha256:"));
    for (const warning of status.build?.warnings ?? []) expect(log(id)).toContain(`Warning: ${warning}\n`);
  });

  test("gives the same digest for the same files", async () => {
    const recipe = { case: "static", value: { command: "", output: "public" } } as const;
    const files = { "public/b.txt": "b".repeat(5_000), "public/a.txt": "a" };
    const [one, two] = [await outcome(await build(files, recipe)), await outcome(await build(files, recipe))];
    expect(one.build?.digest).toMatch(/^sha256:/);
    expect(two.build?.digest).toBe(one.build?.digest);
  });

  test("with a command is what the command makes", async () => {
    const files = {
      "package.json": JSON.stringify({ name: "site", scripts: { build: "node build.js" } }),
      "build.js": `require("node:fs").mkdirSync("dist"); require("node:fs").writeFileSync("dist/index.html", "made by the command");`,
    };
    const id = await build(files, { case: "static", value: { command: "npm run build", output: "dist" } });
    const status = await outcome(id);
    expect(status.failure).toBeUndefined();
    const bundle = await bundleFiles(status.build?.digest ?? "");
    expect(bundle.get("index.html")?.toString()).toBe("made by the command");
    await waitFor("the log", () => log(id).includes("Stored sha256:"));
    expect(log(id)).toContain("RUN npm run build");
    expect(log(id)).toContain("> node build.js");
    expect(log(id)).toContain("Storing the site (1 file)\n");
  });

  test("of which a command makes everything but the first page is doubted", async () => {
    const files = {
      "build.js": `require("node:fs").mkdirSync("dist/client", { recursive: true }); require("node:fs").writeFileSync("dist/client/index.html", "deep");`,
    };
    const id = await build(files, { case: "static", value: { command: "node build.js", output: "dist" } });
    const status = await outcome(id);
    expect(status.failure).toBeUndefined();
    expect(status.build?.warnings).toEqual([expect.stringMatching(/^There is no index\.html .* in client:/)]);
  });

  test("whose command makes nothing fails and says where it looked", async () => {
    const status = await outcome(
      await build({ "a.txt": "a" }, { case: "static", value: { command: "true", output: "dist" } }),
    );
    expect(status.failure).toMatchObject({ code: "BUILD_OUTPUT_MISSING" });
    expect(status.failure?.message).toContain('"dist"');
  });
});

describe("an image", () => {
  test("is generated for a Node server, and is what the registry has", async () => {
    const files = {
      "package.json": JSON.stringify({ name: "app", scripts: { start: "node server.js" } }),
      "server.js": server,
    };
    const id = await build(files, { case: "image", value: { port: 3000 } });
    const status = await outcome(id);
    expect(status.failure).toBeUndefined();
    expect(status.build?.packages).toEqual([]);
    expect(status.build?.platform).toMatchObject({
      os: "linux",
      architecture: process.arch === "x64" ? "amd64" : process.arch,
    });
    const image = await node.engine.findImage(`${registry.host}/svc/p1/app@${status.build?.digest}`);
    expect(image?.hasCommand).toBe(true);
    await node.engine.removeImage(image?.id ?? "");
  });

  test("is built from a Dockerfile of the project", async () => {
    const files = {
      "deploy/Dockerfile": `FROM ${baseImage}\nCOPY server.js /\nCMD ["node", "/server.js"]\n`,
      "server.js": server,
      "package.json": JSON.stringify({ dependencies: { "@svc/realtime": "file:x.tgz", express: "5" } }),
    };
    const id = await build(files, { case: "image", value: { dockerfile: "deploy/Dockerfile", port: 3000 } });
    const status = await outcome(id);
    expect(status.failure).toBeUndefined();
    // Of all that it depends on, what control may have to say something of.
    expect(status.build?.packages).toEqual(["@svc/realtime"]);
    const image = await node.engine.findImage(`${registry.host}/svc/p1/app@${status.build?.digest}`);
    await node.engine.removeImage(image?.id ?? "");
  });

  test("that is too large is not stored", async () => {
    const files = { "server.js": server };
    const status = await outcome(
      await build(files, { case: "image", value: { startCommand: "node server.js", port: 3000 } }, { maxImageMb: 10 }),
    );
    expect(status.failure).toMatchObject({ code: "IMAGE_TOO_LARGE" });
  });

  test("installs its packages, trusting the CA bundle during the build only", async () => {
    const files = {
      "package.json": JSON.stringify({
        name: "app",
        dependencies: { "is-number": "7.0.0" },
        scripts: { start: "node server.js" },
      }),
      "server.js": server,
    };
    const caBundle = getCACertificates().join("\n");
    const id = await build(files, { case: "image", value: { port: 3000 } }, { caBundle });
    const status = await outcome(id);
    expect(status.failure).toBeUndefined();
    await waitFor("the log", () => /added \d+ package/.test(log(id)));
    const reference = `${registry.host}/svc/p1/app@${status.build?.digest}`;
    const names: string[] = [];
    await node.engine.exportFiles(
      reference,
      "/app",
      async (tar) => {
        const reader = extract();
        tar.pipe(reader as unknown as NodeJS.WritableStream);
        for await (const entry of reader) {
          names.push(entry.header.name);
          entry.resume();
        }
      },
      AbortSignal.timeout(30_000),
    );
    expect(names).toContain("app/node_modules/is-number/package.json");
    expect(names.filter((name) => name.includes("ca.pem") || name.includes("Dockerfile"))).toEqual([]);
    const image = await node.engine.findImage(reference);
    await node.engine.removeImage(image?.id ?? "");
  });
});

test("a build step does not reach services of the host", async () => {
  const service = createServer((socket) => socket.end());
  await new Promise<void>((resolve) => service.listen(0, "0.0.0.0", resolve));
  const { port } = service.address() as AddressInfo;
  const program = `
    const gateway = require("fs").readFileSync("/proc/net/route", "utf8").split("\\n")[1].split("\\t")[2].match(/../g).reverse().map((hex) => parseInt(hex, 16)).join(".");
    const socket = require("net").connect({ host: gateway, port: ${port}, timeout: 3000 });
    const end = (what) => { console.log("the host is " + what); process.exit(); };
    socket.on("connect", () => end("open")).on("error", (error) => end(error.code)).on("timeout", () => end("silent"));
  `;
  const command = "node probe.js > result.txt && cat result.txt";
  const id = await build({ "probe.js": program }, { case: "static", value: { command, output: "." } });
  expect((await outcome(id)).failure).toBeUndefined();
  await waitFor("the log", () => /the host is (?:ECONNREFUSED|silent)/.test(log(id)));
  service.close();
});

describe("a build that fails", () => {
  test("names the step, its exit code and its last lines", async () => {
    const files = {
      "package.json": JSON.stringify({ name: "app", scripts: { build: "echo about to break && exit 3" } }),
      "server.js": server,
    };
    const id = await build(files, {
      case: "image",
      value: { buildCommand: "npm run build", startCommand: "node server.js", port: 3000 },
    });
    const { failure } = await outcome(id);
    expect(failure).toMatchObject({ code: "BUILD_FAILED", exitCode: 3 });
    expect(failure?.message).toContain('The step "RUN npm run build" failed: exit code 3.');
    expect(failure?.message).toContain("about to break");
    await waitFor("the log", () => log(id).includes("about to break"));
  });

  test("runs out of time", async () => {
    const recipe = { case: "image", value: { buildCommand: "sleep 60", startCommand: "x", port: 3000 } } as const;
    const status = await outcome(await build({ "a.txt": "a" }, recipe, { timeoutSeconds: 5 }));
    expect(status.failure).toMatchObject({ code: "BUILD_TIMEOUT" });
  });

  test("is stopped when control cancels it", async () => {
    const id = await build(
      { "a.txt": "cancel" },
      { case: "image", value: { buildCommand: "echo started; sleep 100", startCommand: "x", port: 3000 } },
    );
    await waitFor("the build to run", () => log(id).includes("started"), 60_000);
    await control.assign({ upserts: [{ placementId: id, epoch: 1n, desired: Desired.STOPPED, specHash: "h" }] });
    const status = await control.status(id, isOver);
    expect(status).toMatchObject({ observed: Observed.STOPPED });
    expect(status.failure).toBeUndefined();
  });

  test("has an archive that breaks the rules", async () => {
    const status = await outcome(
      await build({ "../evil": "x" }, { case: "static", value: { command: "", output: "." } }),
    );
    expect(status.failure).toMatchObject({ code: "SOURCE_INVALID" });
    expect(status.failure?.message).toContain("points out of the archive");
  });
});
