import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import type { Route } from "@svc/proto/edge";
import { RegistryError } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { pino } from "pino";
import { freePorts } from "../../../registry/src/testing/ports.ts";
import type { AppliedState } from "../apply.ts";
import type { BundlePull } from "../bundles/pull.ts";
import { type Config, readConfig } from "../config.ts";
import { type Edge, startEdge } from "../edge.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { type CaddyProcess, startCaddy } from "./caddy-process.ts";
import { aComplete, aDelta } from "./routes.ts";
import { waitFor } from "./wait-for.ts";

export const quiet = pino({ level: "silent" });

/** A Caddy and a router without control, on ports and in directories of their own. */
export interface TestEdge extends AsyncDisposable {
  config: Config;
  caddy: CaddyProcess;
  /** Where visitors come. */
  http: string;
  https: string;
  edge(): Edge;
  /** What was reported, oldest first. */
  applied: AppliedState[];
  /** Archives that can be pulled, by digest. */
  archives: Map<string, Buffer>;
  /** Sends the change as the next generation and waits for it to be in force. */
  serve(change: { upserts?: Route[]; removed?: string[] }): Promise<AppliedState>;
  stopRouter(): Promise<void>;
  startRouter(): Promise<void>;
}

export async function startTestEdge(
  options: {
    env?: Record<string, string>;
    answerTimeoutMs?: number;
    metrics?: Metrics;
    /** Of loopback, for visitors. */
    address?: string;
    caddyBinary?: string;
  } = {},
): Promise<TestEdge> {
  const dir = await mkdtemp(join(tmpdir(), "svc-edge-"));
  const [http, https, pages, certificates] = await freePorts(4);
  const { address = "127.0.0.1" } = options;
  const caddy = await startCaddy(join(dir, "caddy"), undefined, options.caddyBinary);
  const config = readConfig({
    SVC_ROUTER_DIR: join(dir, "router"),
    SVC_ROUTER_TABLE_DIR: join(dir, "table"),
    SVC_EDGE_HTTP: `${address}:${http}`,
    SVC_EDGE_HTTPS: `${address}:${https}`,
    SVC_ROUTER_LISTEN: `127.0.0.1:${pages}`,
    SVC_EDGE_CERTIFICATES_LISTEN: `127.0.0.1:${certificates}`,
    SVC_CADDY_ADMIN: caddy.adminSocket,
    SVC_CADDY_BINARY: caddy.binary,
    SVC_TRAFFIC_SECONDS: "0.1",
    ...options.env,
  });
  const applied: AppliedState[] = [];
  const archives = new Map<string, Buffer>();
  const pull: BundlePull = async ({ digest }) => {
    const archive = archives.get(digest);
    if (archive === undefined) throw new RegistryError("ARTIFACT_NOT_FOUND", digest);
    return Readable.from([archive]);
  };
  let edge: Edge | null = null;
  let generation = 0;
  const running = (): Edge => {
    if (edge === null) throw new Error("the router is stopped");
    return edge;
  };
  const test: TestEdge = {
    config,
    caddy,
    http: config.httpListen,
    https: config.httpsListen,
    edge: running,
    applied,
    archives,
    async serve(change) {
      generation += 1;
      const wanted = BigInt(generation);
      const message =
        generation === 1
          ? aComplete(wanted, change.upserts ?? [])
          : aDelta(generation - 1, wanted, { ...change, bulk: "test" });
      running().applier.submit(message);
      await waitFor(() => {
        const last = applied.at(-1);
        return last?.generation === wanted && (last.behindHosts.length === 0 || last.error !== "");
      });
      return running().applier.state();
    },
    async stopRouter() {
      await edge?.[Symbol.asyncDispose]();
      edge = null;
    },
    async startRouter() {
      const { answerTimeoutMs, metrics } = options;
      edge = await startEdge(config, {
        pull,
        onApplied: (state) => applied.push(state),
        clock: systemClock,
        random: systemRandom,
        log: quiet,
        ...(answerTimeoutMs !== undefined && { answerTimeoutMs }),
        ...(metrics && { metrics }),
      });
      await edge.ready;
    },
    async [Symbol.asyncDispose]() {
      await test.stopRouter();
      await caddy[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    },
  };
  try {
    await test.startRouter();
  } catch (cause) {
    await test[Symbol.asyncDispose]();
    throw cause;
  }
  return test;
}
