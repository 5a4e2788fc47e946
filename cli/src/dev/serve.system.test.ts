import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { expect, test } from "vitest";
import { aPort, isRunning, startSvc } from "../testing/running.ts";
import { aDirectory, envelopeOf, svc, testedProgram } from "../testing/svc.ts";

/** Says when it listens, how it is asked to end, and whose child it has left. Ends with `code`. */
const server = (code: number) => `
const { createServer } = require("node:http");
const { spawn } = require("node:child_process");
const { writeFileSync } = require("node:fs");
const left = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
writeFileSync("left", String(left.pid));
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => { writeFileSync("asked", name); process.exit(${code}); });
createServer((_, response) => response.end(String(process.env.PORT))).listen(process.env.PORT, "127.0.0.1", () =>
  console.log("it listens, at a terminal:", String(process.stdout.isTTY === true)));
`;
const app = (code = 0) => ({ "package.json": "{}", "index.js": server(code) });
const leftBy = async (directory: string) => Number(await readFile(join(directory, "left"), "utf8"));

test.each([
  { signal: "SIGINT", code: 0 },
  { signal: "SIGTERM", code: 0 },
  { signal: "SIGHUP", code: 143 },
  // As package managers end whose script was interrupted.
  { signal: "SIGINT", code: 1 },
] as const)(
  "$signal reaches the server, whose whole group ends, and one envelope says how",
  async ({ signal, code }) => {
    await using directory = await aDirectory(app(code));
    const port = await aPort();
    await using dev = startSvc(["dev", "--json", "--port", String(port)], { cwd: directory.path });
    await dev.says("it listens");
    expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe(String(port));
    dev.kill(signal);
    const ended = await dev.ended;
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: "dev", warnings: [], framework: "node", port, exitCode: code, asked: true },
    });
    expect(ended.status).toBe(0);
    expect(await readFile(join(directory.path, "asked"), "utf8")).toBe(signal);
    expect(await isRunning(await leftBy(directory.path))).toBe(false);
  },
);

test("a server that does not end is killed when somebody asks twice", async () => {
  const deaf = `for (const name of ["SIGINT", "SIGTERM"]) process.on(name, () => console.log("heard", name)); setInterval(() => {}, 1000); console.log("it runs")`;
  await using directory = await aDirectory({ "package.json": "{}", "index.js": deaf });
  await using dev = startSvc(["dev", "--json", "--port", String(await aPort())], { cwd: directory.path });
  await dev.says("it runs");
  dev.kill("SIGINT");
  await dev.says("heard SIGINT");
  dev.kill("SIGINT");
  const ended = await dev.ended;
  expect(envelopeOf(ended)).toMatchObject({ ok: true, exitCode: 137, asked: true });
  expect(ended.status).toBe(0);
});

test("and by itself after a while otherwise", async () => {
  const deaf = `for (const name of ["SIGINT", "SIGTERM"]) process.on(name, () => console.log("heard", name)); setInterval(() => {}, 1000); console.log("it runs")`;
  await using directory = await aDirectory({ "package.json": "{}", "index.js": deaf });
  await using dev = startSvc(["dev", "--json", "--port", String(await aPort())], { cwd: directory.path });
  await dev.says("it runs");
  dev.kill("SIGINT");
  const ended = await dev.ended;
  expect(ended.stderr).toMatch(/heard SIGINT[\s\S]*heard SIGTERM/);
  expect(envelopeOf(ended)).toMatchObject({ exitCode: 137 });
});

test("a server that ends by itself says so by its status", async () => {
  await using directory = await aDirectory({ "package.json": "{}", "index.js": "process.exit(7)" });
  const ended = await svc(["dev", "--json", "--port", String(await aPort())], { cwd: directory.path });
  expect(envelopeOf(ended)).toEqual({
    ...{ ok: true, operation: "dev", warnings: [], framework: "node", port: expect.any(Number), exitCode: 7 },
  });
  expect(ended.status).toBe(1);
  const human = await svc(["dev", "--port", String(await aPort())], { cwd: directory.path });
  expect(human.stdout).toContain("The server ended with status 7");
});

test("at a terminal the server has it, Ctrl-C is passed on, and nothing is left", async () => {
  await using directory = await aDirectory(app());
  const port = await aPort();
  const { program } = testedProgram();
  const line = [thisNode, program, "dev", "--port", String(port)].map((word) => `'${word}'`).join(" ");
  const terminal = spawnProgram(["script", "-qefc", `exec ${line}`, "/dev/null"], {
    cwd: directory.path,
    env: { PATH: process.env["PATH"], HOME: join(directory.path, ".home"), TERM: "xterm", SHELL: "/bin/sh" },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let screen = "";
  terminal.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
  });
  const ended = new Promise((resolve) => terminal.once("exit", resolve));
  try {
    await expect.poll(() => screen).toMatch(/it listens, at a terminal: true/);
    terminal.stdin.write("\u0003");
    expect(await ended).toBe(0);
  } finally {
    // Its end is that of the terminal.
    terminal.kill("SIGTERM");
    await ended;
  }
  expect(await readFile(join(directory.path, "asked"), "utf8")).toBe("SIGINT");
  expect(await isRunning(await leftBy(directory.path))).toBe(false);
});

test("what runs a framework is found among the app's packages, and told the port", async () => {
  const json = { dependencies: { next: "1" }, scripts: { dev: "next dev --turbo" } };
  await using directory = await aDirectory({
    "package.json": JSON.stringify(json),
    "node_modules/.bin/next": `#!${process.execPath}\nconsole.log(process.argv.slice(2).join(" "), process.env.PORT)\n`,
  });
  const port = await aPort();
  const missing = await svc(["dev", "--json", "--port", String(port)], { cwd: directory.path });
  expect(envelopeOf(missing)).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
  await chmod(join(directory.path, "node_modules/.bin/next"), 0o755);
  const ended = await svc(["dev", "--json", "--port", String(port)], { cwd: directory.path });
  expect(ended.stderr).toContain(`dev --turbo -p ${port} ${port}`);
  expect(envelopeOf(ended)).toMatchObject({ framework: "next", port, exitCode: 0 });
});

test("the manifest's command goes before all, in its root directory, with its programs", async () => {
  await using directory = await aDirectory({
    ".git/HEAD": "",
    "svc.yml":
      "version: 2\napp: { name: Shop, type: ssr }\nsource: { rootDirectory: web }\ndev: { command: 'tool $PORT && exit 3', port: 4567 }\n",
    "web/package.json": JSON.stringify({ dependencies: { next: "1" } }),
    "web/node_modules/.bin/tool": '#!/bin/sh\necho "$(basename "$PWD") has $1"\n',
  });
  await chmod(join(directory.path, "web/node_modules/.bin/tool"), 0o755);
  const ended = await svc(["dev", "--json"], { cwd: directory.path });
  expect(ended.stderr).toContain("web has 4567");
  expect(envelopeOf(ended)).toMatchObject({ framework: "custom", port: 4567, exitCode: 3 });
});

test("a port that something else uses is refused when it was asked for, and passed over otherwise", async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const address = other.address();
  const held = typeof address === "object" ? (address?.port ?? 0) : 0;
  try {
    await using directory = await aDirectory({ "package.json": "{}", "index.js": "" });
    const asked = await svc(["dev", "--json", "--port", String(held)], { cwd: directory.path });
    expect(asked.status).toBe(2);
    expect(envelopeOf(asked)).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", message: expect.stringMatching(String(held)) },
    });
    await writeFile(join(directory.path, "svc.yml"), `version: 2\napp: { name: Shop, type: ssr, port: ${held} }\n`);
    const usual = await svc(["dev", "--json"], { cwd: directory.path });
    expect(usual.stderr).toContain(`uses port ${held}`);
    expect(envelopeOf(usual)["port"]).toBeGreaterThan(held);
  } finally {
    await new Promise((resolve) => other.close(resolve));
  }
});

test.each([
  {
    by: "the manifest",
    files: { "svc.yml": "version: 2\napp: { name: Shop, type: ssr }\ndev:\n  command: node s.js --port 39481\n" },
  },
  { by: "a script", files: { "package.json": '{"scripts":{"dev":"node s.js --port 39481"}}' } },
])("a port beside the one that the command of $by names is refused", async ({ files }) => {
  await using directory = await aDirectory({ ...files, "s.js": "setInterval(() => {}, 1000)" });
  const ended = await svc(["dev", "--json", "--port", "39485"], { cwd: directory.path });
  expect(envelopeOf(ended)).toMatchObject({
    error: {
      code: "CLI_INVALID_USAGE",
      message: expect.stringContaining("39481"),
      hint: expect.stringContaining("PORT"),
    },
  });
});

test("a bare page is served to this machine, and loaded anew when it was saved", async () => {
  await using directory = await aDirectory({
    "index.html": "<body><h1>Hello</h1></body>",
    "about/index.html": "About",
    "style.css": "h1 {}",
    ".env": "SECRET=1",
  });
  const port = await aPort();
  await using dev = startSvc(["dev", "--port", String(port)], { cwd: directory.path });
  await dev.says("http://localhost");
  const at = (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, init);
  const page = await at("/");
  expect(await page.text()).toMatch(/^<body><h1>Hello<\/h1><script>.*<\/script><\/body>$/);
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect((await at("/style.css")).headers.get("content-type")).toBe("text/css; charset=utf-8");
  expect((await at("/about")).url).toBe(`http://127.0.0.1:${port}/about/`);
  for (const path of ["/.env", "/%2e%2e/x", "/..%2f..%2fetc/passwd", "/nothing", "/%00"])
    expect((await at(path)).status).toBe(404);
  expect((await at("/", { method: "POST" })).status).toBe(405);
  const events = await at("/_svc/reload");
  const reader = events.body?.pipeThrough(new TextDecoderStream()).getReader();
  let heard = "";
  const listening = (async () => {
    for (let each = await reader?.read(); each?.done === false; each = await reader?.read()) {
      heard += each.value;
      if (heard.includes("data: reload")) return;
    }
  })();
  await mkdir(join(directory.path, "new"));
  await expect.poll(() => heard).toContain("data: reload");
  await listening;
  dev.kill("SIGINT");
  expect((await dev.ended).status).toBe(0);
});

test.each([
  [["--port", "0"], /no port/],
  [["--port", "70000"], /no port/],
  [["--sync", "--sync-only"], /exclude/],
  [["--sync-only", "--port", "3000"], /--port is for/],
  [["--sync-only", "--db"], /--db is for/],
  [[], /Nothing in .* says how/],
])("svc dev %j in an empty directory is refused with what to do", async (args, message) => {
  await using directory = await aDirectory();
  const ended = await svc(["dev", "--json", ...args], { cwd: directory.path });
  expect(ended.status).toBe(2);
  expect(envelopeOf(ended)).toMatchObject({
    error: { code: "CLI_INVALID_USAGE", message: expect.stringMatching(message), hint: expect.any(String) },
  });
});
