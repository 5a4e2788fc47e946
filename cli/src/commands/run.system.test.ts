import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { aProject, ok, projectId, type Routes, refusal, startApi } from "../testing/api.ts";
import { startSvc } from "../testing/running.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const env = `GET /api/v1/projects/${projectId}/env`;
const layers = (overlay: Record<string, Record<string, string>>): Routes => ({
  "GET /api/v1/projects": ok({ projects: [aProject()] }),
  [env]: ({ path }) => {
    const channel = new URL(path, "http://api.test").searchParams.get("channel");
    return ok({ vars: channel === null ? { A: "own", B: "own" } : (overlay[channel] ?? {}) });
  },
});
const overlays = { dev: { B: "dev" }, production: { B: "production", C: "it's" } };
const envOf = (api: { url: string }) => ({ SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, A: "shell", D: "shell" });
const args = ["--project", projectId];
const show = [
  "node",
  "-e",
  "console.log(...['A', 'B', 'C', 'D'].map((name) => process.env[name]), ...process.argv.slice(1))",
];

test("a command has the variables of the project and the dev channel, and nothing is said or written", async () => {
  await using api = await startApi(layers(overlays));
  await using directory = await aDirectory();
  const ended = await svc(["run", ...args, "--", ...show, "--", "--json", "x y"], {
    cwd: directory.path,
    env: envOf(api),
  });
  expect(ended).toEqual({ status: 0, stdout: "own dev undefined shell --json x y\n", stderr: "" });
  expect((await readdir(directory.path)).filter((name) => name !== ".home")).toEqual([]);
});

test("those of another channel are asked for by its name", async () => {
  await using api = await startApi(layers(overlays));
  await using directory = await aDirectory();
  const ended = await svc(["run", ...args, "--channel", "production", "--", ...show], {
    cwd: directory.path,
    env: envOf(api),
  });
  expect(ended.stdout).toBe("own production it's shell\n");
});

test("its status is the command's, also with --json", async () => {
  await using api = await startApi(layers({}));
  await using directory = await aDirectory();
  const options = { cwd: directory.path, env: envOf(api) };
  const exits = ["node", "-e", "console.log('hello'); process.exit(42)"];
  expect(await svc(["run", ...args, "--", ...exits], options)).toMatchObject({ status: 42, stdout: "hello\n" });
  const ended = await svc(["run", "--json", ...args, "--", ...exits], options);
  expect(ended).toMatchObject({ status: 42, stderr: "hello\n" });
  expect(envelopeOf(ended)).toMatchObject({ ok: true, operation: "run", channel: "dev", exitCode: 42 });
  const killed = await svc(["run", ...args, "--", "node", "-e", "process.kill(process.pid, 'SIGKILL')"], options);
  expect(killed.status).toBe(137);
});

test("a signal goes to the command, as often as it comes", async () => {
  await using api = await startApi(layers({}));
  await using directory = await aDirectory({
    "wait.js":
      "let times = 0; process.on('SIGINT', () => { console.error('heard', ++times); if (times === 3) process.exit(5); }); setInterval(() => {}, 1000); console.error('it runs');",
  });
  await using running = startSvc(["run", ...args, "--", "node", join(directory.path, "wait.js")], {
    cwd: directory.path,
    env: envOf(api),
  });
  await running.says("it runs");
  for (const times of [1, 2, 3]) {
    running.kill("SIGINT");
    await running.says(`heard ${times}`);
  }
  expect((await running.ended).status).toBe(5);
});

test.each<[string, string[], Routes, string, number]>([
  ["a program that is not there", ["no-such-program"], {}, "CLI_INVALID_USAGE", 2],
  ["a line in one word", ["npm start"], {}, "CLI_INVALID_USAGE", 2],
  ["a key that may not read them", ["node"], { [env]: refusal(403, "FORBIDDEN_SCOPE") }, "CLOUD_FORBIDDEN_SCOPE", 1],
  ["no command", [], {}, "CLI_INVALID_USAGE", 2],
])("%s is told", async (_what, line, other, code, status) => {
  await using api = await startApi({ ...layers({}), ...other });
  await using directory = await aDirectory();
  const ended = await svc(["run", "--json", ...args, "--", ...line], { cwd: directory.path, env: envOf(api) });
  expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code } });
  expect(ended.status).toBe(status);
});
