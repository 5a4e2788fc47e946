import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createKey, signIn } from "@svc/deploy/api";
import type { Networks } from "@svc/deploy/daemons";
import { provideEngine } from "@svc/deploy/engine";
import { environmentOf } from "@svc/deploy/environment";
import { copyExample, type ExampleName } from "@svc/deploy/examples";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { type Platform, startPlatform } from "@svc/deploy/platform";
import { readSettings } from "@svc/deploy/settings";
import { spawnProgram } from "@svc/runtime/programs";
import { systemClock } from "@svc/runtime/system";
import { z } from "zod";
import { testedProgram } from "../cli/src/testing/svc.ts";
import { claimAddresses } from "./support/addresses.ts";
import { succeeded } from "./support/api.ts";
import { discardCluster, makeClusterDir, platformDir, sweepAbandonedClusters } from "./support/sweep.ts";
import { waitFor } from "./support/wait-for.ts";

export interface CliResult {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** The envelope on stdout; throws when there is none. */
  json(): Record<string, unknown>;
}

export interface CliOptions {
  cwd?: string;
  env?: Record<string, string>;
  timeoutMs?: number;
  /** Called with what appears on stderr, as it appears. */
  onStderr?: (text: string) => void;
}

export interface ApiResult {
  status: number;
  body: Record<string, unknown>;
}

/** What a user of a platform has in hand. */
export interface ClusterClient {
  /** Runs the real command line, signed in as the administrator unless `env` says otherwise. */
  cli(args: readonly string[], options?: CliOptions): Promise<CliResult>;
  /** Calls the API below /api/v1 with a full-access key of the administrator. */
  api(method: string, path: string, body?: unknown): Promise<ApiResult>;
}

/** A whole platform on free ports and a directory of its own; disposing stops it and removes every trace. */
export interface Cluster extends ClusterClient, AsyncDisposable {
  platform: Platform;
  /** Of these, what the platform's own nodes do not have is free. */
  networks: Networks;
  /** A full-access key of the administrator. */
  key: string;
  /** A fresh copy of an example, ready to be deployed. */
  exampleDir(name: ExampleName): Promise<string>;
  /** Ids of the cluster's containers, whatever their state. */
  containers(): Promise<{ id: string; state: string; labels: Record<string, string> }[]>;
}

const cliMs = 16 * 60_000;
const apiMs = 30_000;
const envelope = z.record(z.string(), z.unknown());

let lent: Cluster | null = null;

/** Until it is disposed, whoever asks for a platform gets this one, which has to be as they want it; see `borrowed`. */
export function lendCluster(cluster: Cluster): Disposable {
  lent = cluster;
  return {
    [Symbol.dispose]() {
      lent = null;
    },
  };
}

/** The same platform for one scenario: what it deployed is gone afterwards, and no other one deploys to its projects. */
function borrowed(cluster: Cluster): Cluster {
  return {
    ...cluster,
    async exampleDir(name) {
      const dir = await cluster.exampleDir(name);
      const manifest = join(dir, "svc.yml");
      const text = await readFile(manifest, "utf8");
      await writeFile(manifest, text.replace(/^slug: .+$/m, `$&-${randomBytes(3).toString("hex")}`));
      return dir;
    },
    async [Symbol.asyncDispose]() {
      const { projects } = projectList.parse((await cluster.api("GET", "/projects")).body);
      for (const { id } of projects) await succeeded(cluster, "DELETE", `/projects/${id}`);
      await waitFor(
        "no container of what was deployed",
        120_000,
        async () => (await cluster.containers()).length === 0,
      );
    },
  };
}
const projectList = z.object({ projects: z.array(z.object({ id: z.string() })) });

/**
 * Starts the platform as `npm start` does, with `agents` nodes; `ha` and `acme`: as `npm start -- --ha` and `--acme` do. `control` and
 * `agent` are settings over the usual ones.
 */
export async function startCluster(
  options: {
    agents?: number;
    ha?: boolean;
    acme?: boolean;
    /** Screenshots are taken, also by themselves, which visits sites. */
    screenshots?: boolean;
    control?: Record<string, string>;
    agent?: Record<string, string>;
  } = {},
): Promise<Cluster> {
  if (lent !== null) return borrowed(lent);
  const settings = readSettings(process.env, repositoryRoot);
  const dir = await makeClusterDir();
  await using stack = new AsyncDisposableStack();
  // Before the platform, which would end its own: what it leaves is removed from the engine after it has stopped.
  stack.use(
    await provideEngine({
      clock: systemClock,
      socketPath: settings.dockerSocket,
      logFile: join(dir, "docker.log"),
      log: (line) => console.error(`svc: ${line}`),
    }),
  );
  await sweepAbandonedClusters(settings.dockerSocket);
  stack.defer(() => discardCluster(dir, settings.dockerSocket));
  const { ports, networks } = stack.use(await claimAddresses());
  const platform = stack.use(
    await startPlatform({
      clock: systemClock,
      ...settings,
      dir: platformDir(dir),
      agents: options.agents ?? 3,
      ha: options.ha ?? false,
      acme: options.acme ?? false,
      captureImage: options.screenshots === true ? settings.captureImage : "",
      ports,
      networks,
      fresh: false,
      durable: false,
      ...(options.control !== undefined && { control: options.control }),
      ...(options.agent !== undefined && { agent: options.agent }),
      env: process.env,
      log: (line) => {
        if (process.env["SVC_TEST_VERBOSE"] === "1") console.error(`  ${line}`);
      },
    }),
  );
  const { key } = await createKey(
    systemClock,
    platform.apiUrl,
    await signIn(systemClock, platform.apiUrl, platform.admin),
    {
      name: "tests",
      expiresInSeconds: null,
    },
  );
  const held = stack.move();
  let copies = 0;
  return {
    platform,
    networks,
    key,
    ...clientOf({ apiUrl: platform.apiUrl, key, dir }),
    async exampleDir(name) {
      copies += 1;
      const target = join(dir, "sources", `${name}-${copies}`);
      await copyExample(name, target, platform.registry.host);
      return target;
    },
    async containers() {
      const filters = { label: [`svc.cluster=${platform.clusterId}`] };
      const found = await platform.docker.listContainers({ all: true, filters });
      return found.map(({ Id, State, Labels }) => ({ id: Id, state: State, labels: Labels }));
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

/** The command line and the API of the platform at `apiUrl`, signed in with `key`; `dir` is for what they keep. */
export function clientOf({ apiUrl, key, dir }: { apiUrl: string; key: string; dir: string }): ClusterClient {
  const { program, cache } = testedProgram();
  return {
    cli: (args, { cwd = dir, env = {}, timeoutMs = cliMs, onStderr = () => {} } = {}) =>
      runCli(program, args, {
        cwd,
        timeoutMs,
        onStderr,
        env: environmentOf(process.env, {
          SVC_API_URL: apiUrl,
          SVC_TOKEN: key,
          XDG_CONFIG_HOME: join(dir, "config"),
          NODE_COMPILE_CACHE: cache,
          ...env,
        }),
      }),
    async api(method, path, body) {
      const reply = await fetch(`${apiUrl}/api/v1${path}`, {
        method,
        headers: { "x-api-key": key, ...(body !== undefined && { "content-type": "application/json" }) },
        signal: AbortSignal.timeout(apiMs),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return { status: reply.status, body: envelope.parse(await reply.json()) };
    },
  };
}

function runCli(
  program: string,
  args: readonly string[],
  {
    cwd,
    env,
    timeoutMs,
    onStderr,
  }: { cwd: string; env: NodeJS.ProcessEnv; timeoutMs: number; onStderr: (text: string) => void },
): Promise<CliResult> {
  return new Promise((resolve, reject) => {
    const child = spawnProgram([nodeBinary(), program, ...args], {
      cwd,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
      onStderr(text);
    });
    child.once("error", reject);
    child.once("close", (code) => {
      const json = () => {
        const result = envelope.safeParse(parse(stdout));
        if (result.success) return result.data;
        throw new Error(`svc ${args.join(" ")} printed no envelope: ${stdout}${stderr}`);
      };
      resolve({ exitCode: code ?? -1, stdout, stderr, json });
    });
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
