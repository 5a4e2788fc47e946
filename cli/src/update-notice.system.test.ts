import { Readable, Writable } from "node:stream";
import { expect, test } from "vitest";
import { runCli } from "./cli.ts";
import { startApi } from "./testing/api.ts";
import { aDirectory } from "./testing/svc.ts";
import { isNewer } from "./update-notice.ts";

test.each([
  ["0.2.0", "0.1.0", true],
  ["1.0.0", "0.9.9", true],
  ["0.10.0", "0.9.0", true],
  ["0.1.0", "0.1.0", false],
  ["0.0.9", "0.1.0", false],
  ["1.0.0-rc.1", "0.1.0", false],
  ["nonsense", "0.1.0", false],
])("%s comes after %s: %s", (candidate, current, expected) => {
  expect(isNewer(candidate, current)).toBe(expected);
});

/** Runs the program as a person at a terminal would, and returns what stands on stderr. */
async function runAtTerminal(cwd: string, env: Record<string, string>, argv = ["manifest", "validate"]) {
  let said = "";
  const sink = (tty: boolean, take: (text: string) => void) =>
    Object.assign(new Writable({ write: (chunk, _encoding, done) => done(void take(String(chunk))) }), { isTTY: tty });
  const status = await runCli(argv, {
    env,
    cwd,
    home: cwd,
    stdin: Object.assign(Readable.from([]), { isTTY: true }),
    stdout: sink(true, () => {}),
    stderr: sink(true, (text) => {
      said += text;
    }),
    signal: new AbortController().signal,
  });
  expect(status).toBe(0);
  return said;
}

test("a newer version is told once asked for, without asking again the same day; never in a pipeline or when turned off", async () => {
  await using directory = await aDirectory({ "svc.yml": "version: 2\napp: { name: Shop, type: static }\n" });
  await using registry = await startApi({ "GET /svc-cli": { body: { name: "svc-cli", version: "99.0.0" } } });
  const env = { SVC_UPDATE_URL: `${registry.url}/svc-cli` };
  expect(await runAtTerminal(directory.path, { ...env, CI: "true" })).not.toContain("99.0.0");
  expect(await runAtTerminal(directory.path, { ...env, SVC_NO_UPDATE_NOTICE: "1" })).not.toContain("99.0.0");
  expect(await runAtTerminal(directory.path, env, ["manifest", "validate", "--json"])).not.toContain("99.0.0");
  expect(registry.seen).toEqual([]);
  expect(await runAtTerminal(directory.path, env)).toContain("svc 99.0.0 is out");
  expect(await runAtTerminal(directory.path, env)).toContain("svc 99.0.0 is out");
  expect(registry.seen).toHaveLength(1);
});

test("a registry that does not answer is no trouble", async () => {
  await using directory = await aDirectory({ "svc.yml": "version: 2\napp: { name: Shop, type: static }\n" });
  expect(await runAtTerminal(directory.path, { SVC_UPDATE_URL: "http://127.0.0.1:9/svc-cli" })).not.toContain("is out");
});
