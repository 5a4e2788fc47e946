import { rmSync } from "node:fs";
import { readdir, readFile, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  deploymentId,
  hangUp,
  ok,
  projectId,
  type Routes,
  refusal,
  type Seen,
  startApi,
} from "../testing/api.ts";
import { aDirectory, binary, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";
import { runAtTerminal } from "../testing/terminal.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const logs = `GET /api/v1/deployments/${deploymentId}/logs`;
const poll = `GET /api/v1/deployments/${deploymentId}`;
const inState = (status: string, fields: object = {}) => ok({ deployment: aDeployment({ status, ...fields }) });

/** Runs svc in a linked directory with `files`, against a platform with these answers. */
async function run(
  args: string[],
  answers: Routes,
  files: Record<string, string> = {},
  more: Partial<SvcOptions> = {},
) {
  await using api = await startApi({
    [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [aDeployment()] }),
    ...answers,
  });
  await using directory = await aDirectory({ ".svc/state.json": state, ...files });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  const ended = await svc(args, { cwd: directory.path, env, ...more });
  const read = (name: string) => readFile(join(directory.path, name), "utf8").catch(() => null);
  return { ...ended, seen: api.seen, linked: await read(".svc/state.json"), env: await read(".env") };
}

describe.concurrent("svc env", () => {
  const vars = { PLAIN: "1", MULTI: "a\nb", QUOTED: "it's" };
  const env = `GET /api/v1/projects/${projectId}/env`;

  test("pull replaces the file, for its owner only, and names the keys", async () => {
    await using api = await startApi({ [env]: ok({ vars }) });
    await using directory = await aDirectory({ ".svc/state.json": state, ".env": "OLD=1\n" });
    const options = { cwd: directory.path, env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url } };
    const { stdout } = await svc(["env", "pull"], options);
    expect(stdout).toBe("✓ Wrote 3 variables to .env: MULTI, PLAIN, QUOTED\n");
    expect(await readFile(join(directory.path, ".env"), "utf8")).toBe("MULTI='a\nb'\nPLAIN=1\nQUOTED=`it's`\n");
    expect((await stat(join(directory.path, ".env"))).mode & 0o777).toBe(0o600);
  });

  test("pull never writes through a link", async () => {
    await using api = await startApi({ [env]: ok({ vars }) });
    await using directory = await aDirectory({ ".svc/state.json": state, "precious.txt": "untouched" });
    await symlink("precious.txt", join(directory.path, ".env"));
    const options = { cwd: directory.path, env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url } };
    expect(envelopeOf(await svc(["env", "pull", "--json"], options))).toMatchObject({
      error: { code: "CLI_INVALID_USAGE" },
    });
    expect(await readFile(join(directory.path, "precious.txt"), "utf8")).toBe("untouched");
  });

  test("pull leaves the file alone when it cannot hold a value, and names only the key", async () => {
    const {
      stdout,
      stderr,
      env: file,
    } = await run(["env", "pull"], { [env]: ok({ vars: { ODD: "secret'`\"" } }) }, { ".env": "OLD=1\n" });
    expect(stderr).toContain("ODD");
    expect(stdout + stderr).not.toContain("secret");
    expect(file).toBe("OLD=1\n");
  });

  test("push sends what the file says", async () => {
    const path = `/api/v1/projects/${projectId}/env`;
    const { seen, status } = await run(
      ["env", "push"],
      { [`GET ${path}`]: ok({ vars: {} }), [`PUT ${path}`]: ok({ keys: ["A", "B"] }) },
      { ".env": "# x\nA=1\nexport B='two\nlines'\n" },
    );
    expect(status).toBe(0);
    expect(JSON.parse(String(seen[1]?.body))).toEqual({ vars: { A: "1", B: "two\nlines" } });
  });
});

describe.concurrent("svc stop and start", () => {
  const stop = `POST /api/v1/projects/${projectId}/stop`;
  const start = `POST /api/v1/projects/${projectId}/start`;

  test("stop waits until it is stopped", async () => {
    const answers = {
      [stop]: ok({ queued: true, deploymentId, jobId: "j1" }, 202),
      [poll]: [inState("running"), inState("stopped")],
    };
    expect(envelopeOf(await run(["stop", "--json"], answers))).toMatchObject({
      ok: true,
      url: "http://shop.svc.localhost:8080",
      project: { id: projectId, slug: "shop" },
      jobId: "j1",
      deployment: { id: deploymentId, status: "stopped" },
    });
  });

  test("stop passes on what becomes of deployments that are on their way", async () => {
    const warnings = [`Deployment ${deploymentId} is on its way: it will be made ready, and serves after a start.`];
    const answers = { [stop]: ok({ queued: true, deploymentId, warnings }, 202) };
    expect(envelopeOf(await run(["stop", "--no-wait", "--json"], answers))).toMatchObject({ queued: true, warnings });
  });

  test("start fails when another deployment came between", async () => {
    const answers = {
      [start]: ok({ queued: true, deploymentId }, 202),
      [poll]: [inState("stopped"), inState("superseded")],
    };
    const ended = await run(["start", "--json"], answers);
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "DEPLOY_FAILED", message: expect.stringMatching(/newer deployment .*superseded/) },
    });
    expect(ended.status).toBe(4);
  });

  test("what cannot be stopped says so, with a way on", async () => {
    const ended = await run(["stop", "--json"], { [stop]: refusal(409, "STOP_UNAVAILABLE", "Nothing runs.") });
    expect(envelopeOf(ended)).toMatchObject({
      error: {
        code: "CLOUD_REQUEST_FAILED",
        message: "STOP_UNAVAILABLE: Nothing runs.",
        hint: expect.stringContaining("svc status"),
      },
    });
  });
});

describe.concurrent("svc verify", () => {
  /** Verifies a project whose site is the test server itself, with this health setting and these answers. */
  async function verify(health: object, answers: Routes) {
    await using site = await startApi(answers);
    const project = aProject({ url: site.url.replace("127.0.0.1", "shop.svc.localhost") });
    return await run(["verify", "--json"], {
      [`GET /api/v1/projects/${projectId}`]: ok({ project, deployments: [aDeployment()] }),
      [poll]: inState("running", { manifest: { health } }),
    });
  }

  test("asks the health path of what runs, under the site's own name", async () => {
    const ended = await verify({ path: "/healthz", timeoutSeconds: 5 }, { "GET /healthz": ok({}) });
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      health: { status: 200, url: expect.stringMatching(/shop\.svc\.localhost:\d+\/healthz$/) },
    });
  });

  test("asks again until it is well", async () => {
    const ended = await verify({ path: "/", timeoutSeconds: 10 }, { "GET /": [refusal(503, "STARTING"), ok({})] });
    expect(ended.status).toBe(0);
  });

  test.each([
    [{ status: 301, headers: { location: "/login" }, body: {} }, "301", "/login"],
    [{ status: 401, body: {} }, "401", "password"],
    [{ status: 500, body: {} }, "500", "svc logs --runtime"],
  ])("gives up after the time of the manifest, and says what it saw", async (answer, seen, advice) => {
    const ended = await verify({ path: "/", timeoutSeconds: 1 }, { "GET /": answer });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "VERIFY_FAILED", message: expect.stringContaining(seen), hint: expect.stringContaining(advice) },
    });
    expect(ended.status).toBe(5);
  });
});

describe.concurrent("svc logs", () => {
  /** A build log that grows by these parts, one per question. */
  const growing = (parts: readonly string[]): Routes => ({
    [poll]: [...parts.map(() => inState("building")), inState("failed", { error: "exit 1" })],
    [logs]: ({ path }) => {
      const after = Number(new URL(path, "http://x.test").searchParams.get("after"));
      let offset = 0;
      for (const part of parts) {
        if (offset === after) return ok({ log: part, offset: offset + part.length });
        offset += part.length;
      }
      return ok({ log: "", offset });
    },
  });

  test("--follow prints whole lines as they come, and ends with the deployment", async () => {
    const ended = await run(["logs", deploymentId, "--follow"], growing(["first li", "ne\nsecond\nthi", "rd"]));
    expect(ended.stdout).toBe("first line\nsecond\nthird\n");
    expect(ended.stderr).toMatch(/✗ The deployment failed: exit 1\n$/);
    expect(ended.status).toBe(0);
  });

  test.each(["logs --follow", `logs ${deploymentId} --follow`])(
    "%s waits for a platform that is away at first",
    async (line) => {
      const away = refusal(503, "UNAVAILABLE");
      const ended = await run(line.split(" "), {
        ...growing(["a\n"]),
        [`GET /api/v1/projects/${projectId}/deployments`]: [
          hangUp,
          ok({ deployments: [aDeployment()], nextCursor: null }),
        ],
        [poll]: [away, inState("failed")],
      });
      expect([ended.status, ended.stdout]).toEqual([0, "a\n"]);
      expect(ended.stderr).toContain("asking again");
    },
  );

  test("the whole log ends with what became of the deployment, and where its app's words are", async () => {
    const error = "The app exited with code 1 before it answered. Last lines:\nError: boom";
    const failed = {
      [poll]: inState("failed", { error, errorCode: "START_FAILED" }),
      [logs]: ok({ log: "", offset: 0 }),
    };
    const { stderr, status } = await run(["logs", deploymentId], failed);
    expect(stderr).toBe(
      `✗ The deployment failed: The app exited with code 1 before it answered.\n› Read what the app printed with \`svc logs --runtime --deployment ${deploymentId}\`\n`,
    );
    expect(status).toBe(0);
    const json = await run(["logs", deploymentId, "--json"], failed);
    expect(envelopeOf(json)).toMatchObject({ deploymentId, status: "failed", log: "" });
  });

  test("--runtime --deployment reads the app of that one, although it failed to start", async () => {
    const exit = { code: 1, oomKilled: false, reason: "The app exited with code 1.", at: "2020-01-01T00:00:00.000Z" };
    const args = ["logs", "ignored", "--runtime", "--deployment", deploymentId];
    const { stdout, stderr, seen } = await run(args, {
      [poll]: inState("failed"),
      [`GET /api/v1/projects/${projectId}/runtime-logs`]: ok({ log: "boom\n", lines: 1, state: "exited", exit }),
    });
    expect(stdout).toBe("boom\n");
    expect(stderr).toMatch(/^✗ The app exited with code 1, \d+ d ago\n$/);
    expect(seen.at(-1)?.path).toMatch(new RegExp(`\\?lines=200&deployment=${deploymentId}&exited=true$`));
  });

  test("--grep and --since leave lines out, also while following", async () => {
    const log =
      "2020-01-01T00:00:00Z old error\nerror without time\n2999-01-01T00:00:00Z new error\n2999-01-01T00:00:00Z fine\n";
    const args = ["logs", deploymentId, "--grep", "error", "--since", "1h"];
    const expected = "error without time\n2999-01-01T00:00:00Z new error\n";
    expect((await run(args, growing([log]))).stdout).toBe(expected);
    expect((await run([...args, "--follow"], growing([log]))).stdout).toBe(expected);
  });

  test("--runtime --follow prints each line once, until Ctrl-C", async () => {
    const lines = (...names: string[]) => ok({ log: names.map((name) => `${name}\n`).join(""), lines: names.length });
    const ended = await run(
      ["logs", "--runtime", "--follow", "--verbose"],
      {
        [`GET /api/v1/projects/${projectId}/runtime-logs`]: [
          lines("a", "b"),
          lines("a", "b", "c"),
          refusal(409, "RUNTIME_LOGS_UNAVAILABLE"),
          lines("d"),
        ],
      },
      {},
      {
        onStderr: (text, kill) => {
          if (text.split("runtime-logs").length > 5) kill("SIGINT");
        },
      },
    );
    expect(ended.stdout).toBe("a\nb\nc\nd\n");
    expect(ended.status).toBe(130);
  });

  test("--runtime --follow prints each line of a long log once, also after readings that failed", async () => {
    const said = Array.from({ length: 300 }, (_, index) => `line ${index}`);
    let readings = 0;
    const ended = await run(
      ["logs", "--runtime", "--follow", "--lines", "3", "--verbose"],
      {
        [`GET /api/v1/projects/${projectId}/runtime-logs`]: ({ path }) => {
          readings += 1;
          if (readings === 2) return refusal(409, "RUNTIME_LOGS_UNAVAILABLE");
          if (readings === 3) said.push("new");
          const last = said.slice(-Number(new URL(path, "http://api").searchParams.get("lines")));
          return ok({ log: last.map((line) => `${line}\n`).join(""), lines: last.length });
        },
      },
      {},
      {
        onStderr: (text, kill) => {
          if (text.split("runtime-logs").length > 4) kill("SIGINT");
        },
      },
    );
    expect(ended.stdout).toBe("line 297\nline 298\nline 299\nnew\n");
    expect(ended.stderr).not.toContain("lines may be missing");
  });

  test("--runtime with a filter looks through all that there is, and says where that is not everything", async () => {
    const said = Array.from({ length: 3000 }, (_, index) => `line ${index}`);
    const runtime = `GET /api/v1/projects/${projectId}/runtime-logs`;
    const ask = async (...args: string[]) => {
      const ended = await run(["logs", "--runtime", "--json", ...args], {
        [runtime]: ({ path }) => {
          const last = said.slice(-Number(new URL(path, "http://api").searchParams.get("lines")));
          return ok({
            log: last.map((line) => `${line}\n`).join(""),
            lines: last.length,
            state: "running",
            exit: null,
          });
        },
      });
      const { lines, warnings } = envelopeOf(ended);
      return { lines, isCut: JSON.stringify(warnings ?? []).includes("last 2000 lines") };
    };
    expect(await ask("--grep", "line 1500$")).toEqual({ lines: ["line 1500"], isCut: true });
    expect(await ask("--grep", "line 5$")).toEqual({ lines: [], isCut: true });
    expect(await ask("--grep", "9$", "--lines", "2")).toEqual({ lines: ["line 2989", "line 2999"], isCut: false });
    expect(await ask("--lines", "1")).toEqual({ lines: ["line 2999"], isCut: false });
  });

  test("--lines is a number that the platform clamps, and we where it does not", async () => {
    const runtime = `GET /api/v1/projects/${projectId}/runtime-logs`;
    for (const lines of ["0", "-3", "99999"]) {
      const ended = await run(["logs", "--runtime", "--lines", lines], { [runtime]: ok({ log: "a\n", lines: 1 }) });
      expect(ended.stdout).toBe("a\n");
      expect(ended.seen.at(-1)?.path).toBe(`/api/v1/projects/${projectId}/runtime-logs?lines=${lines}&exited=true`);
    }
    const build = (lines: string) => run(["logs", deploymentId, "--lines", lines], growing(["a\nb\nc\n"]));
    expect((await build("-3")).stdout).toBe("c\n");
    expect((await build("2")).stdout).toBe("b\nc\n");
  });

  test("--follow --lines begins with the last lines there are", async () => {
    const ended = await run(["logs", deploymentId, "--follow", "--lines", "1"], growing(["a\nb\n", "c\nd\n"]));
    expect(ended.stdout).toBe("d\n");
  });

  test("--channel reads the app of that channel, and says that it is gone and why", async () => {
    const exit = { code: 137, oomKilled: true, reason: null, at: "2020-01-01T00:00:00.000Z" };
    const answer = ok({ log: "last words\n", lines: 1, state: "exited", exit });
    const answers = { [`GET /api/v1/projects/${projectId}/runtime-logs`]: answer };
    const args = ["logs", "--runtime", "--channel", "preview"];
    const { stdout, stderr, seen } = await run(args, answers);
    expect(stdout).toBe("last words\n");
    expect(stderr).toMatch(/✗ The app has exited with code 137, out of memory, \d+ d ago/);
    expect(seen.at(-1)?.path).toMatch(/\?lines=200&channel=preview&exited=true$/);
    const json = envelopeOf(await run([...args, "--json"], answers));
    expect(json).toMatchObject({ lines: ["last words"], state: "exited", exit });
  });

  test("times are short and local on a terminal, and as they came in a pipe and with --json", async () => {
    const line = "2020-06-01T12:03:07.123456789Z listening";
    const answers = { [`GET /api/v1/projects/${projectId}/runtime-logs`]: ok({ log: `${line}\n`, lines: 1 }) };
    expect((await run(["logs", "--runtime"], answers)).stdout).toBe(`${line}\n`);
    expect(envelopeOf(await run(["logs", "--runtime", "--json"], answers))).toMatchObject({ lines: [line] });
    await using api = await startApi(answers);
    await using directory = await aDirectory({ ".svc/state.json": state });
    const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
    const shown = await runAtTerminal(["logs", "--runtime"], { cwd: directory.path, env });
    expect(shown.stdout).toMatch(/^0[56]-\d\d \d\d:\d\d:07 listening\n$/);
  });

  test("a platform that only knows what runs is asked for that", async () => {
    const ended = await run(["logs", "--runtime"], {
      [`GET /api/v1/projects/${projectId}/runtime-logs`]: ({ path }) =>
        path.endsWith("?lines=200") ? ok({ log: "a\n", lines: 1 }) : refusal(422, "VALIDATION"),
    });
    expect(ended.stdout).toBe("a\n");
  });

  test("an app that does not run is told at once", async () => {
    const ended = await run(["logs", "--runtime"], {
      [`GET /api/v1/projects/${projectId}/runtime-logs`]: refusal(409, "RUNTIME_LOGS_UNAVAILABLE"),
    });
    expect(ended.stderr).toContain("RUNTIME_LOGS_UNAVAILABLE");
    expect(ended.status).toBe(1);
  });
});

test("svc status shows the deployments of every channel, newest first", async () => {
  const on = (id: string, createdAt: string, fields: object) => aDeployment({ id, createdAt, ...fields });
  const [older, newer, newest] = ["3", "4", "5"].map((digit) => deploymentId.replaceAll("2", digit));
  const ended = await run(["status", "--json"], {
    [`GET /api/v1/projects/${projectId}`]: ok({
      project: aProject(),
      deployments: [
        on(newest ?? "", "2030-01-03T00:00:00.000Z", {}),
        on(older ?? "", "2030-01-01T00:00:00.000Z", { channel: "dev" }),
      ],
    }),
    [`GET /api/v1/projects/${projectId}/deployments`]: ok({
      deployments: [on(newer ?? "", "2030-01-02T00:00:00.000Z", { channel: "preview", gitPrNumber: 7 })],
      nextCursor: null,
    }),
  });
  expect(envelopeOf(ended)["deployments"]).toMatchObject([
    { id: newest, channel: "production" },
    { id: newer, channel: "preview", gitPrNumber: 7 },
    { id: older, channel: "dev" },
  ]);
});

test("svc status finds what serves behind many that failed, and the address of every channel", async () => {
  const url = "http://dev-shop.svc.localhost:8080";
  const dev = aDeployment({ id: deploymentId.replaceAll("2", "3"), channel: "dev", url });
  const serving = aDeployment({ createdAt: "2029-01-01T00:00:00.000Z", gitSha: "0123456789" });
  const routes = {
    [`GET /api/v1/projects/${projectId}`]: ok({
      project: aProject(),
      deployments: [aDeployment({ id: deploymentId.replaceAll("2", "4"), status: "failed" }), dev],
    }),
    [`GET /api/v1/projects/${projectId}/deployments`]: ({ path }: Seen) =>
      ok({ deployments: path.includes("status=running") ? [dev, serving] : [], nextCursor: null }),
  };
  const { stdout } = await run(["status"], routes);
  expect(stdout).toMatch(/Production is running, commit 0123456, deployed .*; the latest deployment is failed/);
  expect(stdout).toMatch(/production {2}http:\/\/shop\..*\n {2}dev {9}http:\/\/dev-shop\./);
  expect(envelopeOf(await run(["status", "--json"], routes))["live"]).toEqual([
    { channel: "production", url: aProject().url, deploymentId },
    { channel: "dev", url, deploymentId: dev.id },
  ]);
});

test("svc open --channel has the address of what runs there", async () => {
  const list = `GET /api/v1/projects/${projectId}/deployments`;
  const url = "http://preview-shop--7.svc.localhost:8080";
  const preview = aDeployment({ channel: "preview", gitPrNumber: 7, url });
  const open = (...deployments: object[]) =>
    run(["open", "--channel", "preview", "--json"], { [list]: ok({ deployments, nextCursor: null }) });
  expect(envelopeOf(await open(preview))).toMatchObject({ ok: true, url, channel: "preview" });
  expect(envelopeOf(await open())).toMatchObject({ error: { code: "CLOUD_NOT_FOUND" } });
});

test("svc status says what a deployment waits for", async () => {
  const problem = { code: "NODE_CAPACITY_UNAVAILABLE", message: "No node has room for this deployment." };
  const placement = { state: "pending", routeConverged: false, lastTransitionAt: null, problem };
  const routes = {
    [`GET /api/v1/projects/${projectId}`]: ok({
      project: aProject(),
      deployments: [aDeployment({ status: "building", placement })],
    }),
    [`GET /api/v1/projects/${projectId}/deployments`]: ok({ deployments: [], nextCursor: null }),
  };
  expect((await run(["status"], routes)).stdout).toContain("No node has room for this deployment.");
  expect(envelopeOf(await run(["status", "--json"], routes))["deployments"]).toMatchObject([
    { placement: { problem } },
  ]);
});

test("a deleted project is no longer linked", async () => {
  const ended = await run(["projects", "delete", projectId, "--yes"], {
    [`DELETE /api/v1/projects/${projectId}`]: ok({ id: projectId }),
  });
  expect(ended.status).toBe(0);
  expect(ended.linked).toBeNull();
});

describe.concurrent("svc admin nodes bootstrap-token create", () => {
  const made = ok({ bootstrapToken: { id: "b1", token: "svcn1.secret", expiresAt: "2030-01-01T00:00:00.000Z" } }, 201);
  const create = "POST /api/v1/admin/nodes/bootstrap-tokens";

  test("writes the token to a new private file", async () => {
    await using api = await startApi({ [create]: made });
    await using directory = await aDirectory();
    const options = { cwd: directory.path, env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url } };
    const args = ["admin", "nodes", "bootstrap-token", "create", "--file", "n.token", "--role", "edge"];
    const { stdout, stderr } = await svc(args, options);
    expect(stdout + stderr).not.toContain("secret");
    expect(await readFile(join(directory.path, "n.token"), "utf8")).toBe("svcn1.secret\n");
    expect((await stat(join(directory.path, "n.token"))).mode & 0o777).toBe(0o600);
    expect(JSON.parse(String(api.seen[0]?.body))).toEqual({ role: "edge" });
    expect((await svc(args, options)).status).toBe(2);
  });

  test("takes the token back when it cannot be written, and leaves no file when there is none", async () => {
    await using directory = await aDirectory();
    const file = join(directory.path, "n.token");
    const taken = "DELETE /api/v1/admin/nodes/bootstrap-tokens/b1";
    await using api = await startApi({
      [create]: () => {
        rmSync(file);
        return made;
      },
      [taken]: ok({ id: "b1" }),
    });
    await using refusing = await startApi({ [create]: refusal(403, "FORBIDDEN") });
    const args = ["admin", "nodes", "bootstrap-token", "create", "--file", "n.token", "--json"];
    const env = { SVC_TOKEN: "svc_key-secret" };
    const lost = await svc(args, { cwd: directory.path, env: { ...env, SVC_API_URL: api.url } });
    expect(envelopeOf(lost)).toMatchObject({ ok: false, error: { code: "UNEXPECTED" } });
    expect(api.seen.map(({ method, path }) => `${method} ${path}`)).toContain(taken);
    await svc(args, { cwd: directory.path, env: { ...env, SVC_API_URL: refusing.url } });
    await expect(stat(file)).rejects.toThrow();
  });
});

describe.concurrent("svc init", () => {
  test("says what it found, writes only the manifest, and does not replace one unasked", async () => {
    await using directory = await aDirectory({
      "package.json": '{"name":"@ada/shop","scripts":{"start":"node x.js"}}',
    });
    const { path: cwd } = directory;
    expect(envelopeOf(await svc(["init", "--json"], { cwd }))).toEqual({
      ok: true,
      operation: "init",
      warnings: [],
      manifest: "svc.yml",
      app: "shop",
      detected: {
        rootDirectory: ".",
        type: "ssr",
        framework: null,
        dockerfile: null,
        build: null,
        output: null,
        start: "node x.js",
        standalone: false,
        port: 3000,
        spa: false,
        needs: [],
        why: ["package.json", "started by the start script"],
      },
    });
    expect(envelopeOf(await svc(["manifest", "validate", "--json"], { cwd }))).toMatchObject({ ok: true, type: "ssr" });
    expect(envelopeOf(await svc(["init", "--json"], { cwd }))).toMatchObject({ error: { code: "MANIFEST_INVALID" } });
    const args = ["init", "--force", "--template", "ociimage", "--name", "Web", "--json"];
    expect(envelopeOf(await svc(args, { cwd }))).toMatchObject({
      app: "Web",
      template: "ociimage",
      hint: expect.any(String),
    });
    expect(envelopeOf(await svc(["manifest", "validate", "--json"], { cwd }))).toMatchObject({
      type: "ociimage",
      port: 80,
      image: { reference: expect.stringMatching(/nginx:stable-alpine$/) },
      release: { configured: false, timeoutSeconds: null },
    });
  });

  test("of a template leaves nothing to be said about the app", async () => {
    await using directory = await aDirectory({});
    for (const more of [
      ["--type", "ssr"],
      ["--root", "apps/web"],
    ]) {
      const { status, stderr } = await svc(["init", "--template", "realtime-todo", ...more], { cwd: directory.path });
      expect({ status, stderr }).toEqual({
        status: 2,
        stderr: expect.stringContaining("svc init --template realtime-todo"),
      });
    }
    expect(await readdir(directory.path)).toEqual([]);
  });

  test("tells a person what is built, where it is afterwards, and why", async () => {
    const json = { scripts: { start: "astro dev", build: "astro build" }, dependencies: { astro: "7" } };
    await using directory = await aDirectory({
      "package.json": JSON.stringify(json),
      "src/pages/index.astro": "",
      "node_modules/astro/package.json": '{"scripts":{"start":"node x.js"}}',
    });
    const { stdout, status } = await svc(["init", "--name", "Docs"], { cwd: directory.path });
    expect(status).toBe(0);
    expect(stdout).toBe(
      [
        "✓ Wrote svc.yml for Docs",
        "  Found: Astro, a static site",
        "  - package.json depends on astro",
        "  - no server adapter",
        "  Build: npm run build",
        "  Site: dist",
        "  Next: look it over, then run svc deploy",
        "",
      ].join("\n"),
    );
  });

  const members = {
    "package.json": '{"workspaces":["apps/*"]}',
    "apps/web/package.json": '{"name":"web","scripts":{"build":"astro build"},"dependencies":{"astro":"7"}}',
    "apps/api/package.json": '{"name":"api","scripts":{"start":"node x.js"},"dependencies":{"express":"5"}}',
  };

  test("names the apps of a workspace where nobody can be asked, and takes the one that a flag names", async () => {
    await using directory = await aDirectory(members);
    const { path: cwd } = directory;
    expect(envelopeOf(await svc(["init", "--json"], { cwd }))).toMatchObject({
      error: {
        code: "CLI_INVALID_USAGE",
        message: expect.stringMatching(
          /apps\/api \(Express, a server\).*--root apps\/api[\s\S]*apps\/web \(Astro, a static/,
        ),
      },
    });
    await expect(stat(join(cwd, "svc.yml"))).rejects.toThrow();
    expect(envelopeOf(await svc(["init", "--root", "./apps/web/", "--json"], { cwd }))).toMatchObject({
      app: "web",
      detected: { rootDirectory: "apps/web", type: "static" },
    });
    const written = await readFile(join(cwd, "svc.yml"), "utf8");
    expect(written).toContain("rootDirectory: apps/web");
    expect(envelopeOf(await svc(["init", "--force", "--root", "../x", "--json"], { cwd }))).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", message: expect.stringContaining("--root") },
    });
  });

  const nx = {
    "nx.json": "{}",
    "package.json": '{"devDependencies":{"nx":"20","vite":"6"}}',
    "apps/web/package.json": '{"name":"web"}',
    "apps/web/vite.config.ts": "export default {}",
    "apps/web/index.html": "",
  };
  const below = (files: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(files).map(([path, text]) => [`front/${path}`, text]));
  const siblings = {
    "package.json": '{"workspaces":["apps/*","libs/*"]}',
    "libs/ui/package.json": '{"name":"@x/ui"}',
    "apps/web/package.json":
      '{"name":"web","scripts":{"start":"node x.js"},"dependencies":{"express":"5","@x/ui":"workspace:*"}}',
  };

  test.each([
    { when: "takes its framework from the top", files: nx, at: "apps/web", run: "svc init --root apps/web", in: "" },
    {
      when: "lies below the top of its repository",
      files: { ...below(nx), ".git": "gitdir: elsewhere" },
      at: "front/apps/web",
      run: "svc init --root front/apps/web",
      in: "",
    },
    {
      when: "lies in no repository",
      files: below(nx),
      at: "front/apps/web",
      run: "svc init --root apps/web",
      in: "/front",
    },
    {
      when: "is named from halfway",
      files: nx,
      at: "apps",
      args: ["--root", "web"],
      run: "svc init --root apps/web",
      in: "",
    },
    {
      when: "is said to be a site",
      files: nx,
      at: "apps/web",
      args: ["--type", "static"],
      run: "svc init --root apps/web --type static",
      in: "",
    },
    { when: "is made from its neighbours", files: siblings, at: "apps/web", run: "svc init --root apps/web", in: "" },
  ])(
    "a member of a workspace that $when is taken at the top only",
    async ({ files, at, args = [], run, in: where }) => {
      await using directory = await aDirectory(files as Record<string, string>);
      const { path: top } = directory;
      const ended = await svc(["init", "--json", ...args], { cwd: join(top, at) });
      expect(envelopeOf(ended)).toMatchObject({
        error: { code: "CLI_INVALID_USAGE", hint: `Run \`${run}\` in ${top}${where}` },
      });
      await expect(stat(join(top, at, "svc.yml"))).rejects.toThrow();
      const atTop = await svc([...run.split(" ").slice(1), "--json"], { cwd: `${top}${where}` });
      expect(envelopeOf(atTop)).toMatchObject({ ok: true, app: "web" });
    },
  );

  test.each([
    { what: "a page", files: { ...nx, "docs/index.html": "" }, at: "docs", framework: null },
    { what: "an app that needs nothing of it", files: members, at: "apps/web", framework: "Astro" },
    {
      what: "a page of another repository",
      files: { ...nx, "apps/web/.git": "gitdir: elsewhere" },
      at: "apps/web",
      framework: null,
    },
  ])("$what in a workspace is taken where it is", async ({ files, at, framework }) => {
    await using directory = await aDirectory(files as Record<string, string>);
    expect(envelopeOf(await svc(["init", "--json"], { cwd: join(directory.path, at) }))).toMatchObject({
      detected: { framework, type: "static" },
    });
  });

  test("names the directory of --root that is not there", async () => {
    await using directory = await aDirectory(members);
    const { path: cwd } = directory;
    await symlink("apps/web", join(cwd, "web"));
    for (const [root, message] of [
      ["apps/wbe", "--root: apps/wbe does not exist"],
      ["package.json/x", "--root: package.json/x does not exist"],
      ["package.json", "--root: package.json is not a directory"],
      ["web", "--root: web is a symbolic link"],
    ])
      expect(envelopeOf(await svc(["init", "--root", String(root), "--json"], { cwd }))).toMatchObject({
        error: { code: "CLI_INVALID_USAGE", message },
      });
  });

  test("finds an app however deep the directory is that --root names", async () => {
    const root = "a/b/c/d/e/f/g/web";
    await using directory = await aDirectory({
      [`${root}/package.json`]: '{"name":"web","scripts":{"build":"vite build"},"devDependencies":{"vite":"6"}}',
      [`${root}/src/index.html`]: "",
    });
    expect(envelopeOf(await svc(["init", "--root", root, "--json"], { cwd: directory.path }))).toMatchObject({
      app: "web",
      detected: { rootDirectory: root, framework: "Vite" },
    });
  });

  test("an empty directory is to be a site, and somebody is told so", async () => {
    await using directory = await aDirectory({});
    const { path: cwd } = directory;
    expect(envelopeOf(await svc(["init", "--name", "Shop", "--json"], { cwd }))).toMatchObject({
      ...{ ok: true, manifest: "svc.yml", app: "Shop", detected: { type: "static" } },
      warnings: [expect.stringContaining("nothing in this directory yet")],
    });
    expect(envelopeOf(await svc(["manifest", "validate", "--json"], { cwd }))).toMatchObject({ app: "Shop" });
  });

  test.each([
    { files: { "notes.txt": "" }, message: "Nothing here tells" },
    { files: { "app.py": "", "requirements.txt": "" }, message: "Python project" },
    {
      files: { "package.json": '{"dependencies":{"@sveltejs/kit":"3","@sveltejs/adapter-auto":"7"}}' },
      message: "SvelteKit",
    },
  ])("refuses $files with what to do, and writes nothing", async ({ files, message }) => {
    await using directory = await aDirectory(files as Record<string, string>);
    const { path: cwd } = directory;
    const ended = await svc(["init", "--json"], { cwd });
    expect(ended.status).toBe(2);
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", message: expect.stringContaining(message), hint: expect.any(String) },
    });
    await expect(stat(join(cwd, "svc.yml"))).rejects.toThrow();
    expect(envelopeOf(await svc(["init", "--type", "static", "--json"], { cwd }))).toMatchObject({
      detected: { type: "static" },
    });
  });

  test("does not write through a link or into nowhere", async () => {
    await using directory = await aDirectory({ "index.html": "", "precious.txt": "untouched" });
    const { path: cwd } = directory;
    await symlink("precious.txt", join(cwd, "svc.yml"));
    expect((await svc(["init"], { cwd })).status).toBe(2);
    expect((await svc(["init", "--force"], { cwd })).status).toBe(2);
    expect(await readFile(join(cwd, "precious.txt"), "utf8")).toBe("untouched");
    expect((await svc(["init", "--manifest", "nowhere/svc.yml"], { cwd })).status).toBe(2);
  });
});

describe.concurrent("under an older Node", () => {
  /** A bundle has no packages beside it, and so no Node. */
  const program = binary;
  /** Makes the Node that runs the program say that it is an old one, where `condition` holds. */
  const pretend = (condition: string) => {
    const code = `if(${condition})Object.defineProperty(process.versions,"node",{value:"20.1.0"})`;
    return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
  };

  test("the newer one beside the program takes over", async () => {
    await using directory = await aDirectory();
    const env = pretend("!process.env.SVC_NODE_RESTARTED");
    const ended = await svc(["--version"], { cwd: directory.path, env, program });
    expect(ended).toMatchObject({ status: 0, stderr: "", stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
    expect((await svc(["nonsense"], { cwd: directory.path, env, program })).status).toBe(2);
  });

  test("and when there is none, it says in one line what it needs", async () => {
    await using directory = await aDirectory();
    const ended = await svc(["--version"], { cwd: directory.path, env: pretend("true"), program });
    expect(ended).toMatchObject({ status: 1, stdout: "" });
    expect(ended.stderr).toMatch(/^svc needs Node\.js 24\.0 or newer; this is .*\n$/);
    const asked = await svc(["status", "--json"], { cwd: directory.path, env: pretend("true"), program });
    expect(asked.status).toBe(1);
    expect(envelopeOf(asked)).toEqual({
      ok: false,
      operation: "svc",
      error: { code: "UNEXPECTED", message: expect.stringContaining("needs Node.js"), hint: expect.any(String) },
    });
  });

  test.each([
    { signal: "SIGINT", toAll: false, status: 130 },
    { signal: "SIGINT", toAll: true, status: 130 },
    { signal: "SIGTERM", toAll: false, status: 143 },
    { signal: "SIGTERM", toAll: true, status: 143 },
    // Nobody is there to be told anything.
    { signal: "SIGHUP", toAll: false, status: null },
  ] as const)("$signal (to all: $toAll) ends both, and what was done is said", async ({ signal, toAll, status }) => {
    await using api = await startApi({
      [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [aDeployment()] }),
      [`POST /api/v1/projects/${projectId}/deployments`]: ok(anAccepted(), 202),
      [poll]: inState("building"),
      [logs]: ok({ log: "", offset: 0 }),
    });
    const manifest = "version: 2\napp: { name: Shop, type: static }\n";
    await using directory = await aDirectory({ ".svc/state.json": state, "svc.yml": manifest, "index.html": "<h1>" });
    const env = {
      ...{ SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url },
      ...pretend("!process.env.SVC_NODE_RESTARTED"),
    };
    const ended = await svc(["deploy"], {
      ...{ cwd: directory.path, env, program, toAll },
      onStderr: (text, kill) => text.includes("Building") && kill(signal),
    });
    expect(ended.status).toBe(status);
    expect(ended.stderr.includes("Interrupted\n→ The deployment goes on without you")).toBe(status !== null);
  });
});
