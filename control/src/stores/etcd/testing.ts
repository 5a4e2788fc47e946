import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { argv, spawnProgram } from "@svc/runtime/programs";
import { systemClock, systemRandom } from "@svc/runtime/system";
import pino from "pino";
import { freePorts } from "../../../../registry/src/testing/ports.ts";
import type { Timings } from "./connection.ts";
import { type ConnectionOptions, createEtcd, type Etcd } from "./index.ts";

/** A real etcd process with its own directory and ports, for tests. */
export interface EtcdServer extends AsyncDisposable {
  readonly endpoint: string;
  readonly port: number;
  /** SIGKILL; the data stays. */
  kill(): Promise<void>;
  /** Starts it again on the same ports and data; returns once it serves. */
  start(): Promise<void>;
  freeze(): void;
  thaw(): void;
}

/** Polls `condition` until it yields something other than false, null or undefined. */
export async function until<T>(
  what: string,
  condition: () => T | false | null | undefined | Promise<T | false | null | undefined>,
  timeoutMs = 60_000,
): Promise<T> {
  const giveUpAtMs = performance.now() + timeoutMs;
  for (;;) {
    const result = await condition();
    if (result !== false && result !== null && result !== undefined) return result;
    if (performance.now() > giveUpAtMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await delay(10);
  }
}

const host = "127.0.0.1";

/** Three members have to find a leader before they serve, on a machine that does other things. */
const startTimeoutMs = 60_000;

const silent = pino({ level: process.env["SVC_TEST_LOG_LEVEL"] ?? "silent" });

/** A machine that is busy stands still for seconds, and what a test writes is written once. */
const patient: Timings = {
  callTimeoutMs: 20_000,
  pingIntervalMs: 20_000,
  pingTimeoutMs: 20_000,
  watchSilenceMs: 60_000,
};
const impatient: Timings = { callTimeoutMs: 2_000, pingIntervalMs: 400, pingTimeoutMs: 400, watchSilenceMs: 1_500 };

type Options = Partial<ConnectionOptions>;
const clientOf = (timings: Timings, endpoints: string | string[], options: Options): Etcd =>
  createEtcd({
    ...{ clock: systemClock, random: systemRandom, endpoints: [endpoints].flat(), log: silent, timings },
    ...options,
  });

/** A client that waits for etcd as long as it may take. */
export const testClient = (endpoints: string | string[], options: Options = {}): Etcd =>
  clientOf(patient, endpoints, options);

/** A client with short timings, so that tests of failures take seconds. */
export const impatientClient = (endpoints: string | string[], options: Options = {}): Etcd =>
  clientOf(impatient, endpoints, options);

export interface EtcdServerOptions {
  readonly scheme?: "http" | "https";
  readonly flags?: readonly string[];
  /** How a client of this server is made; by default `impatientClient`. */
  readonly client?: (endpoint: string) => Etcd;
}

interface MemberPlan {
  readonly name: string;
  readonly endpoint: string;
  readonly peer: string;
  /** `name=peer` of all members. */
  readonly cluster: string;
}

/** One member that is not started yet. */
async function prepareMember(
  plan: MemberPlan,
  { flags = [], client = impatientClient }: EtcdServerOptions,
): Promise<EtcdServer> {
  const { name, endpoint, peer, cluster } = plan;
  const directory = await mkdtemp(join(tmpdir(), "svc-etcd-"));
  const etcd = [
    ["--name", name, "--data-dir", directory, "--logger", "zap", "--log-level", "error"],
    ["--listen-client-urls", endpoint, "--advertise-client-urls", endpoint],
    ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster],
    ["--grpc-keepalive-min-time", "100ms"],
    // What a killed process has written is there all the same: only a machine without power would lose it.
    "--unsafe-no-fsync",
    flags,
  ].flat();
  // The death signal ends it also when the test process is killed.
  const command = argv("setpriv", "--pdeathsig", "KILL", "--", ...argv("etcd", ...etcd));
  let child: ChildProcess | null = null;

  const start = async () => {
    const started = spawnProgram(command, { stdio: "ignore" });
    child = started;
    await using probe = client(endpoint);
    await until(
      "etcd serves",
      async () => {
        if (started.exitCode !== null) throw new Error(`etcd ended with ${started.exitCode}`);
        return probe.get("/").then(
          () => true,
          () => false,
        );
      },
      startTimeoutMs,
    );
  };
  const kill = async () => {
    const killed = child;
    child = null;
    if (killed === null || killed.exitCode !== null || killed.signalCode !== null) return;
    killed.kill("SIGKILL");
    await once(killed, "exit");
  };
  return {
    endpoint,
    port: Number(new URL(endpoint).port),
    kill,
    start,
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    async [Symbol.asyncDispose]() {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Starts `etcd` from the PATH as a cluster of `count` members. */
export async function startCluster(count: number, options: EtcdServerOptions = {}): Promise<EtcdServer[]> {
  const ports = await freePorts(2 * count);
  const members = Array.from({ length: count }, (_, index) => ({
    name: `m${index}`,
    endpoint: `${options.scheme ?? "http"}://${host}:${ports[2 * index]}`,
    peer: `http://${host}:${ports[2 * index + 1]}`,
  }));
  const cluster = members.map(({ name, peer }) => `${name}=${peer}`).join(",");
  const servers = await Promise.all(members.map((member) => prepareMember({ ...member, cluster }, options)));
  try {
    await Promise.all(servers.map((server) => server.start()));
  } catch (error) {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    throw error;
  }
  return servers;
}

/** Starts `etcd` from the PATH as a cluster of one. */
export async function startEtcd(options: EtcdServerOptions = {}): Promise<EtcdServer> {
  const [server] = await startCluster(1, options);
  if (server === undefined) throw new Error("no member was started");
  return server;
}
