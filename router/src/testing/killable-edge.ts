import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { fromJsonString } from "@bufbuild/protobuf";
import { type AnalyticsRow, AnalyticsSchema, TrafficBatchSchema, type TrafficCount } from "@svc/proto/edge";
import { countUniques, decodeUniques, noUniques, unite } from "@svc/proto/uniques";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import type { TestEdge } from "./edge.ts";
import { waitFor } from "./wait-for.ts";

const program = fileURLToPath(new URL("./edge-process.ts", import.meta.url));

/** The router of a test edge as a process of its own, and a control that keeps what it is sent as the real one does. */
export interface KillableEdge extends AsyncDisposable {
  start(): Promise<void>;
  /** SIGKILL, and wait until it is gone. */
  kill(): Promise<void>;
  /** Whether what is sent is answered. */
  isDeaf: boolean;
  /** What control has: each traffic batch once, of each series of analytics the newest row. */
  requests(): number;
  /** Of traffic, by hour since 1970. */
  requestsByHour(): Record<string, number>;
  analysed(): number;
  views(): number;
  visitors(): number;
}

/** @param edge its own router has to be stopped */
export function aKillableEdge(edge: TestEdge, env: Record<string, string> = {}): KillableEdge {
  const { config, caddy } = edge;
  const settings = {
    SVC_ROUTER_DIR: config.dir,
    SVC_ROUTER_TABLE_DIR: config.tableDir,
    SVC_EDGE_HTTP: config.httpListen,
    SVC_EDGE_HTTPS: config.httpsListen,
    SVC_ROUTER_LISTEN: `${config.pagesListen.host}:${config.pagesListen.port}`,
    SVC_EDGE_CERTIFICATES_LISTEN: config.certificatesListen,
    SVC_CADDY_ADMIN: caddy.adminSocket,
    SVC_CADDY_BINARY: caddy.binary,
    SVC_TRAFFIC_SECONDS: "0.05",
    ...env,
  };
  let child: ChildProcess | null = null;
  const last = new Map<string, bigint>();
  const counts: TrafficCount[] = [];
  const rows = new Map<string, AnalyticsRow>();

  function take(line: string, answer: (ack: object) => void): void {
    const [kind = ""] = line.split(" ", 1);
    const json = line.slice(kind.length + 1);
    if (kind === "traffic") {
      const { series, number, counts: more } = fromJsonString(TrafficBatchSchema, json);
      if (number > (last.get(series) ?? 0n)) {
        last.set(series, number);
        counts.push(...more);
      }
      answer({ traffic: { series, number: `${number}` } });
    }
    if (kind === "analytics") {
      const { number, rows: more } = fromJsonString(AnalyticsSchema, json);
      for (const row of more) if (row.seq > (rows.get(row.series)?.seq ?? 0n)) rows.set(row.series, row);
      answer({ analytics: { number: `${number}` } });
    }
  }

  const killable: KillableEdge = {
    isDeaf: false,
    async start() {
      const started = spawnProgram([thisNode, program], {
        stdio: ["pipe", "pipe", "inherit"],
        env: { ...process.env, ...settings },
      });
      child = started;
      started.stdin.on("error", () => {});
      let isReady = false;
      createInterface(started.stdout).on("line", (line) => {
        if (line.startsWith("ready ")) isReady = true;
        // What a process has said before it was killed has left it: control may have it, or not.
        else take(line, (ack) => killable.isDeaf || started.stdin.write(`${JSON.stringify(ack)}\n`));
      });
      await waitFor(() => {
        if (started.exitCode !== null) throw new Error("the router ended");
        return isReady;
      });
    },
    async kill() {
      if (child === null || child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "close");
      child.kill("SIGKILL");
      await gone;
    },
    requests: () => counts.reduce((sum, each) => sum + Number(each.requests), 0),
    requestsByHour() {
      const hours: Record<string, number> = {};
      for (const { hour, requests } of counts) hours[`${hour}`] = (hours[`${hour}`] ?? 0) + Number(requests);
      return hours;
    },
    analysed: () => sumOf(rows, (row) => row.status2xx + row.status3xx + row.status4xx + row.status5xx),
    views: () => sumOf(rows, (row) => row.paths.reduce((sum, { count }) => sum + count, 0n)),
    visitors() {
      const all = noUniques();
      for (const row of rows.values()) unite(all, decodeUniques(row.visitors) ?? noUniques());
      return countUniques(all);
    },
    [Symbol.asyncDispose]: () => killable.kill(),
  };
  return killable;
}

const sumOf = (rows: ReadonlyMap<string, AnalyticsRow>, read: (row: AnalyticsRow) => bigint): number =>
  Number([...rows.values()].reduce((sum, row) => sum + read(row), 0n));
