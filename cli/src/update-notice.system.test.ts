import { Readable, Writable } from "node:stream";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { runCli } from "./cli.ts";
import { aUser, startApi } from "./testing/api.ts";
import { aDirectory } from "./testing/svc.ts";
import { isNewer } from "./update-notice.ts";
import { version } from "./version.ts";

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

/** Runs `svc whoami` as a person at a terminal would, and returns what stands on stderr. */
async function runAtTerminal(cwd: string, env: Record<string, string>, argv = ["whoami"]) {
  let said = "";
  const sink = (take: (text: string) => void) =>
    Object.assign(new Writable({ write: (chunk, _encoding, done) => done(void take(String(chunk))) }), { isTTY: true });
  const status = await runCli(argv, {
    clock: systemClock,
    random: systemRandom,
    env,
    cwd,
    home: cwd,
    stdin: Object.assign(Readable.from([]), { isTTY: true }),
    stdout: sink(() => {}),
    stderr: sink((text) => {
      said += text;
    }),
    signal: new AbortController().signal,
    conclude: () => {},
    takeSignals: () => ({ [Symbol.dispose]: () => {} }),
  });
  expect(status).toBe(0);
  return said;
}

const platformOf = (platformVersion: string) =>
  startApi({
    "GET /api/v1/me": {
      headers: { "svc-version": platformVersion },
      body: { ok: true, user: aUser, scopes: null, projectIds: null },
    },
  });

test("a newer platform is told of once a day; never in a pipeline, with --json or when turned off", async () => {
  await using directory = await aDirectory();
  await using platform = await platformOf("99.0.0");
  const env = { SVC_API_URL: platform.url, SVC_TOKEN: "svc_key" };
  expect(await runAtTerminal(directory.path, { ...env, CI: "true" })).not.toContain("99.0.0");
  expect(await runAtTerminal(directory.path, { ...env, SVC_NO_UPDATE_NOTICE: "1" })).not.toContain("99.0.0");
  expect(await runAtTerminal(directory.path, env, ["whoami", "--json"])).not.toContain("99.0.0");
  expect(await runAtTerminal(directory.path, env)).toContain("The platform runs svc 99.0.0");
  expect(await runAtTerminal(directory.path, env)).not.toContain("99.0.0");
});

test("an older platform, and one that says nothing, are no news", async () => {
  await using directory = await aDirectory();
  for (const said of ["0.0.1", version, "nonsense"]) {
    await using platform = await platformOf(said);
    const env = { SVC_API_URL: platform.url, SVC_TOKEN: "svc_key" };
    expect(await runAtTerminal(directory.path, env)).not.toContain("The platform runs");
  }
});
