import { chmod, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseDotenv } from "@svc/proto";
import { runProgramSync } from "@svc/runtime/programs";
import { expect, test } from "vitest";
import { aProject, ok, projectId, type Routes, startApi } from "../testing/api.ts";
import { postgresDatabase } from "../testing/database-servers.ts";
import { aPort } from "../testing/running.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const database = `/api/v1/projects/${projectId}/database`;
const branch = { channel: "dev", engine: "postgres" };
const ready = {
  ...{ ...branch, enabled: true, status: "ready", sizeBytes: 1, sizeLimitMb: 512, connectionLimit: 20, reason: null },
  ...{ readOnly: false, protection: null },
};

const routesFor = (url: string): Routes => ({
  [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject({ type: "ssr" }), deployments: [] }),
  "GET /api/v1/projects": ok({ projects: [aProject({ type: "ssr" })] }),
  [`GET ${database}`]: ok(ready),
  [`POST ${database}/dev-credentials`]: ok({ ...branch, databaseUrl: url, expiresAt: null, note: "" }),
});

/** Asks the server at DATABASE_URL whether it speaks TLS, as any client of Postgres does first. */
const app = `
const url = new URL(process.env.DATABASE_URL);
const socket = require("node:net").connect(Number(url.port), url.hostname);
socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
socket.on("data", (bytes) => { console.log("the database says", bytes.toString(), "to", url.username); socket.destroy(); });
socket.on("error", (error) => console.log(error.message));
`;
const files = {
  "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: ssr }\n",
  "package.json": "{}",
  "index.js": app,
};
const envOf = (api: { url: string }) => ({ SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url });
const variableIn = (text: string) => {
  const read = parseDotenv(text);
  return "variables" in read ? read.variables.find(({ name }) => name === "DATABASE_URL")?.value : undefined;
};

test("the app reaches the Dev database by a tunnel whose port stays, and .env.local keeps all else", async () => {
  await using held = await postgresDatabase();
  await using api = await startApi(routesFor(held.url), held);
  const before = '# mine\r\nexport DATABASE_URL="old"\r\nOTHER=1\r\n';
  await using directory = await aDirectory({ ...files, ".env.local": before });
  const path = join(directory.path, ".env.local");
  await chmod(path, 0o644);
  const run = async () => {
    const ended = await svc(["dev", "--db", "--json", "--port", String(await aPort())], {
      cwd: directory.path,
      env: envOf(api),
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, exitCode: 0 });
    expect(ended.stderr).toMatch(/the database says [NS] to cli_/);
    expect(ended.stderr + ended.stdout).not.toContain("clear-password");
    return readFile(path, "utf8");
  };
  const text = await run();
  const address = new URL(variableIn(text) ?? "");
  expect(address).toMatchObject({ protocol: "postgres:", hostname: "127.0.0.1", password: "clear-password" });
  expect(text).toMatch(/^# mine\r\nexport DATABASE_URL=\S+\r\nOTHER=1\r\n$/);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await run()).toBe(text);
});

test("an address that this machine reaches is taken as it is", async () => {
  const { createServer } = await import("node:net");
  const near = createServer((socket) => socket.on("data", () => socket.end("N")).on("error", () => {}));
  await new Promise<void>((resolve) => near.listen(0, "127.0.0.1", resolve));
  const address = near.address();
  const url = `postgres://cli_1:p@127.0.0.1:${typeof address === "object" ? address?.port : 0}/d?sslmode=disable`;
  try {
    await using api = await startApi(routesFor(url));
    await using directory = await aDirectory(files);
    const ended = await svc(["dev", "--db", "--json", "--port", String(await aPort())], {
      cwd: directory.path,
      env: envOf(api),
    });
    expect(ended.stderr).toContain("the database says N to cli_1");
    expect(variableIn(await readFile(join(directory.path, ".env.local"), "utf8"))).toBe(url);
    expect(api.seen.filter(({ method }) => method === "UPGRADE")).toEqual([]);
  } finally {
    await new Promise((resolve) => near.close(resolve));
  }
});

test("a Dev branch that is not there is made first, with the manifest's engine", async () => {
  await using held = await postgresDatabase();
  const none = { ...ready, engine: null, enabled: false, status: null, sizeBytes: 0 };
  await using api = await startApi(
    {
      ...routesFor(held.url),
      [`GET ${database}`]: [ok(none), ok(ready)],
      [`POST ${database}`]: ok(
        { ...branch, databaseId: "33333333-3333-4333-8333-333333333333", status: "provisioning" },
        202,
      ),
    },
    held,
  );
  await using directory = await aDirectory(files);
  const ended = await svc(["dev", "--db", "--json", "--port", String(await aPort())], {
    cwd: directory.path,
    env: envOf(api),
  });
  expect(envelopeOf(ended)).toMatchObject({ ok: true, exitCode: 0 });
  const made = api.seen.find(({ method, path }) => method === "POST" && path === `${database}?channel=dev`);
  expect(JSON.parse(made?.body.toString() ?? "")).toEqual({ engine: "postgres" });
});

test("who would commit .env.local is told how not to", async () => {
  await using held = await postgresDatabase();
  await using api = await startApi(routesFor(held.url), held);
  await using directory = await aDirectory(files);
  const git = (...args: string[]) =>
    runProgramSync(["git", ...args], {
      cwd: directory.path,
      stdio: "ignore",
      env: { PATH: process.env["PATH"], HOME: directory.path },
    });
  const warnings = async () =>
    envelopeOf(
      await svc(["dev", "--db", "--json", "--port", String(await aPort())], { cwd: directory.path, env: envOf(api) }),
    )["warnings"];
  git("init");
  expect(await warnings()).toEqual([expect.stringContaining("add the line .env.local to .gitignore")]);
  git("add", "-f", ".env.local");
  expect(await warnings()).toEqual([expect.stringContaining("git rm --cached .env.local")]);
  git("rm", "--cached", ".env.local");
  await writeFile(join(directory.path, ".gitignore"), ".env.local\n");
  expect(await warnings()).toEqual([]);
});
