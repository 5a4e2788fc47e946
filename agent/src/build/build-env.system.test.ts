import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { getCACertificates } from "node:tls";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { limits } from "@svc/proto/limits";
import type { PlacementStatus } from "@svc/proto/node";
import Docker from "dockerode";
import fc from "fast-check";
import { extract } from "tar-stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type BuildBench,
  baseImage,
  createBuildBench,
  openRegistry,
  type TestBuild,
  type TestRecipe,
} from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";

// What reaches a build of the variables of its channel, and where none of it is to be found afterwards.

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

type Env = Record<string, string>;
const site = (command: string): TestRecipe => ({ case: "static", value: { command, output: "dist" } });
const image = (value: { buildCommand?: string; startCommand?: string } = {}): TestRecipe => ({
  case: "image",
  value: { port: 3000, ...value },
});

/** A build that succeeds, and its log; all values are to be redacted, as control asks for it. */
async function succeed(files: Record<string, string>, recipe: TestRecipe, env: Env, more: TestBuild = {}) {
  const id = await bench.build(files, recipe, { env, redact: Object.values(env), ...more });
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  await waitFor("the log", () => bench.log(id).includes("Stored sha256:"));
  return { status, log: bench.log(id) };
}

/** The text of a file of a bundle. */
async function siteFile(status: PlacementStatus, name: RegExp): Promise<string> {
  await using client = openRegistry(bench.registryHost);
  const digest = status.build?.digest ?? "";
  const stream = await client.pullArtifact("svc/p1/bundle", digest, { maxSizeBytes: 10_000_000 });
  const reader = extract();
  reader.end(gunzipSync(await buffer(stream)));
  let found = "";
  for await (const entry of reader) {
    const text = (await buffer(entry as AsyncIterable<Uint8Array>)).toString();
    if (name.test(entry.header.name)) found = text;
  }
  return found;
}

/** How the step with this command ended. */
const endOf = (log: string, command: string): string | undefined =>
  new RegExp(`^#(\\d+) RUN ${command}$[\\s\\S]*?^#\\1 (cached|done)$`, "m").exec(log)?.[2];

async function filesBelow(directory: URL): Promise<Record<string, string>> {
  const root = fileURLToPath(directory);
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const texts = files.map(async (path) => [path.slice(root.length), await readFile(path, "utf8")] as const);
  return Object.fromEntries(await Promise.all(texts));
}

const page = `
  const fs = require("node:fs");
  console.log("the token is " + process.env.API_TOKEN);
  fs.mkdirSync("dist", { recursive: true });
  fs.writeFileSync("dist/index.html", "greeting: " + process.env.VITE_GREETING);
`;
const pageFiles = {
  "package.json": JSON.stringify({ name: "site", scripts: { build: "node build.js" } }),
  "build.js": page,
};

describe("a site that a command makes", () => {
  const token = "token-of-the-site-0123456789";

  test("has the variables of its channel in it; a change makes another one, no change the same from the cache", async () => {
    const recipe = site("npm run build");
    const first = await succeed(pageFiles, recipe, { VITE_GREETING: "hello there", API_TOKEN: token });
    expect(await siteFile(first.status, /index\.html$/)).toBe("greeting: hello there");
    expect(endOf(first.log, "npm run build")).toBe("done");

    const same = await succeed(pageFiles, recipe, { API_TOKEN: token, VITE_GREETING: "hello there" });
    expect(endOf(same.log, "npm run build")).toBe("cached");
    expect(same.status.build?.digest).toBe(first.status.build?.digest);

    const other = await succeed(pageFiles, recipe, { VITE_GREETING: "good evening", API_TOKEN: token });
    expect(await siteFile(other.status, /index\.html$/)).toBe("greeting: good evening");
    expect(endOf(other.log, "npm run build")).toBe("done");
  });

  test("says its values nowhere in the log", async () => {
    const { log } = await succeed(pageFiles, site("npm run build"), { VITE_GREETING: "good night", API_TOKEN: token });
    expect(log).toContain("the token is [redacted]");
    expect(log).not.toMatch(/token-of-the-site|good night/);
    // The step is called as the person wrote it.
    expect(log).toMatch(/^#\d+ RUN npm run build$/m);
  });

  test("is told which command failed and how, with variables as without", async () => {
    const files = { ...pageFiles, "build.js": `console.log(process.env.API_TOKEN); process.exit(7);` };
    const id = await bench.build(files, site("npm run build"), { env: { API_TOKEN: token }, redact: [token] });
    const { failure } = await bench.outcome(id);
    expect(failure).toMatchObject({ code: "BUILD_FAILED", exitCode: 7 });
    expect(failure?.message).toContain('The step "RUN npm run build" failed: exit code 7.');
    expect(failure?.message).not.toContain(token);
  });
});

test("a real bundler inlines what it is told to, anew when it changed", { timeout: 600_000 }, async () => {
  const caBundle = getCACertificates().join("\n");
  const files = await filesBelow(new URL("../../../test/apps/vite-react/", import.meta.url));
  const app = files["src/app.jsx"] ?? "";
  expect(app).toContain(`"first edition"`);
  files["src/app.jsx"] = app.replace(`"first edition"`, "import.meta.env.VITE_EDITION");
  const build = (edition: string) =>
    succeed(
      files,
      site("npm run build"),
      { VITE_EDITION: edition, SECRET: "never-inlined-secret" },
      { timeoutSeconds: 600, caBundle },
    );
  const first = await build("edition of the morning");
  const script = await siteFile(first.status, /assets\/.*\.js$/);
  expect(script).toContain("edition of the morning");
  expect(script).not.toContain("never-inlined-secret");
  const second = await build("edition of the evening");
  expect(await siteFile(second.status, /assets\/.*\.js$/)).toContain("edition of the evening");
  // Nothing is installed again for it.
  expect([endOf(first.log, "npm ci"), endOf(second.log, "npm ci")]).toEqual(["done", "cached"]);
  expect(endOf(second.log, "npm run build")).toBe("done");
});

/** Which of `texts` are anywhere in an image: in its history, its configuration, or the bytes of its layers. */
async function foundIn(reference: string, texts: readonly string[]): Promise<string[]> {
  const image = new Docker().getImage(reference);
  const facts = JSON.stringify([await image.history(), await image.inspect()]);
  const found = new Set(texts.filter((text) => facts.includes(text)));
  let tail = "";
  for await (const chunk of (await image.get()).setEncoding("latin1")) {
    const text = tail + String(chunk);
    for (const each of texts) if (text.includes(each)) found.add(each);
    tail = text.slice(-200);
  }
  return texts.filter((text) => found.has(text));
}

describe("a server", () => {
  const secret = "secret-that-only-runs-need-42";
  const files = {
    "package.json": JSON.stringify({ name: "app", scripts: { build: "node build.js", start: "node server.js" } }),
    "build.js": `
      require("node:fs").writeFileSync("made.js", "exports.api = " + JSON.stringify(process.env.NEXT_PUBLIC_API));
      if (process.env.DB_PASSWORD !== "${secret.split("").join('" + "')}") throw new Error("not as it was set");`,
    "server.js": `require("node:http").createServer((_, reply) => reply.end(require("./made.js").api)).listen(process.env.PORT);`,
  };

  test("is built with the variables, and its image knows none of them", async () => {
    const env = { NEXT_PUBLIC_API: "https://api.shop.test", DB_PASSWORD: secret, NODE_ENV: "production" };
    const { status } = await succeed(files, image(), env);
    const reference = `${bench.registryHost}/svc/p1/app@${status.build?.digest}`;
    const traces = ["https://api.shop.test", secret, "svc-env", "/run/svc-build"];
    // What the build wrote into the app is there, as it is meant to be.
    expect(await foundIn(reference, traces)).toEqual(["https://api.shop.test"]);
    await bench.removeImage(status);
  });

  test("has a new image when a variable changed, and the same one when none did", async () => {
    const build = (api: string) => succeed(files, image(), { NEXT_PUBLIC_API: api, DB_PASSWORD: secret });
    const [one, same, other] = [
      await build("https://one.test"),
      await build("https://one.test"),
      await build("https://two.test"),
    ];
    expect(endOf(same.log, "npm run build")).toBe("cached");
    expect(same.status.build?.digest).toBe(one.status.build?.digest);
    expect(endOf(other.log, "npm run build")).toBe("done");
    expect(other.status.build?.digest).not.toBe(one.status.build?.digest);
    for (const { status } of [one, other]) await bench.removeImage(status);
  });
});

test("installing has the variables that its settings name, and is repeated when one of these changed", async () => {
  const files = {
    ...pageFiles,
    ".npmrc": `init-author-name=\${REGISTRY_TOKEN}\n`,
    "package-lock.json": JSON.stringify({ name: "site", lockfileVersion: 3, packages: { "": { name: "site" } } }),
  };
  const build = (env: Env) => succeed(files, site("npm run build"), env);
  const first = await build({ REGISTRY_TOKEN: "first-token", VITE_GREETING: "1" });
  expect(endOf(first.log, "npm ci")).toBe("done");
  const other = await build({ REGISTRY_TOKEN: "first-token", VITE_GREETING: "2" });
  expect([endOf(other.log, "npm ci"), endOf(other.log, "npm run build")]).toEqual(["cached", "done"]);
  expect(endOf((await build({ REGISTRY_TOKEN: "second-token", VITE_GREETING: "2" })).log, "npm ci")).toBe("done");
});

test("a Dockerfile of the project reads variables as secrets, and only where it asks for them", async () => {
  const text = [
    `FROM ${baseImage}`,
    "RUN env > /seen.txt; ls -R /run > /run-seen.txt",
    "RUN --mount=type=secret,id=API_TOKEN cat /run/secrets/API_TOKEN && wc -c < /run/secrets/API_TOKEN > /size.txt",
    'RUN --mount=type=secret,id=svc-env . /run/secrets/svc-env && echo "greeting: $GREETING" > /greeting.txt',
    'CMD ["true"]',
  ].join("\n");
  const build = async (env: Env) => {
    const id = await bench.buildDockerfile(text, {}, { env, redact: Object.values(env) });
    const status = await bench.outcome(id);
    expect(status.failure).toBeUndefined();
    await waitFor("the log", () => bench.log(id).includes("Stored sha256:"));
    return { status, log: bench.log(id) };
  };
  const secretStep = (log: string) => /^#(\d+) RUN cat [\s\S]*?^#\1 (cached|done)$/m.exec(log)?.[2];
  const first = await build({ API_TOKEN: "token-of-the-dockerfile", GREETING: "hello" });
  expect(first.log).toContain("[redacted]");
  expect(first.log).not.toContain("token-of-the-dockerfile");
  const reference = `${bench.registryHost}/svc/p1/app@${first.status.build?.digest}`;
  const traces = ["greeting: hello", "token-of-the-dockerfile", "GREETING="];
  expect(await foundIn(reference, traces)).toEqual(["greeting: hello"]);

  const greeting = await build({ API_TOKEN: "token-of-the-dockerfile", GREETING: "good morning" });
  expect(secretStep(greeting.log)).toBe("cached");
  expect(greeting.status.build?.digest).not.toBe(first.status.build?.digest);
  const token = await build({ API_TOKEN: "another-token", GREETING: "good morning" });
  expect(secretStep(token.log)).toBe("done");
  for (const { status } of [first, greeting, token]) await bench.removeImage(status);
});

test("every value reaches the build command byte for byte", async () => {
  const part = fc.constantFrom(
    "'",
    '"',
    "`",
    "\\",
    "\n",
    "\r",
    "$",
    "$(id)",
    "=",
    " ",
    "#",
    "é",
    "\u0081",
    "🎉",
    "\u2028",
  );
  const value = fc
    .oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.array(part).map((parts) => parts.join("")),
    )
    .filter((text) => text.isWellFormed() && !text.includes("\0"));
  const values = [...fc.sample(value, 300), "", " ", "x".repeat(32 * 1024), `'"`.repeat(16 * 1024)];
  const env = Object.fromEntries(values.map((each, at) => [`V${at}_`, each]));
  const dump = `
    const environ = require("node:fs").readFileSync("/proc/self/environ").toString("base64");
    require("node:fs").mkdirSync("dist");
    require("node:fs").writeFileSync("dist/environ.txt", environ);`;
  const files = { ...pageFiles, "build.js": dump };
  // Without redaction: single letters are among the values, and so are parts of the log.
  const id = await bench.build(files, site("node build.js"), { env });
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  const environ = Buffer.from(await siteFile(status, /environ\.txt$/), "base64").toString("utf8");
  const seen = new Map(
    environ.split("\0").map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
  for (const [name, each] of Object.entries(env)) expect([name, seen.get(name)]).toEqual([name, each]);
});

test("the largest environment that control accepts reaches the build command", async () => {
  // The project's, a channel's and that of files, each of the greatest size, of what grows most on its way.
  const count = (3 * limits.envTotalBytesMax) / limits.envValueBytesMax;
  const largest = `'"`.repeat(limits.envValueBytesMax / 2 - 8);
  const env = Object.fromEntries(Array.from({ length: count }, (_, at) => [`V${at}`, largest]));
  const files = {
    ...pageFiles,
    "build.js": `
      const sizes = Object.entries(process.env).filter(([name]) => /^V\\d+$/.test(name)).map(([, value]) => value.length);
      require("node:fs").mkdirSync("dist");
      require("node:fs").writeFileSync("dist/sizes.txt", sizes.join(" "));`,
  };
  const { status } = await succeed(files, site("node build.js"), env);
  expect(await siteFile(status, /sizes\.txt$/)).toBe(Array(count).fill(largest.length).join(" "));
});
