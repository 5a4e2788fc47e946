import { performance } from "node:perf_hooks";
import { aBranch, anEntry, type Branch } from "@svc/dbproxy/testing/branch";
import { anAuthority } from "@svc/dbproxy/testing/certificates";
import { spawnProxy } from "@svc/dbproxy/testing/child";
import { pgClient } from "@svc/dbproxy/testing/pg-client";
import { startPostgres } from "@svc/dbproxy/testing/postgres";
import { aPlace, bridge } from "@svc/dbproxy/testing/proxy";
import { waitFor } from "@svc/dbproxy/testing/wait-for";
import type pg from "pg";
import { median, type Row } from "../table.ts";

const queries = 2_000;
const batches = 40;
const connects = 10;
const peerPort = 27_434;
const statement = { name: "one", text: "select $1::int as one", values: [1] };

/** One way to the server: by host, or by the directory of its socket. */
interface Way {
  host: string;
  port?: number;
}

const names = ["direct", "same", "other"] as const;
type PerWay<T> = Record<(typeof names)[number], T>;
const perWay = <T>(make: () => T): PerWay<T> => ({ direct: make(), same: make(), other: make() });

/**
 * Microseconds of one prepared query, the middle of many: what else the machine does makes some of them long. The ways take
 * turns after every few.
 */
async function queryMicros(clients: PerWay<pg.Client>): Promise<PerWay<number>> {
  const micros = perWay<number[]>(() => []);
  for (let batch = 0; batch < batches; batch += 1) {
    for (const name of names) {
      for (let done = 0; done < queries / batches; done += 1) {
        const from = performance.now();
        await clients[name].query(statement);
        micros[name].push((performance.now() - from) * 1_000);
      }
    }
  }
  return { direct: median(micros.direct), same: median(micros.same), other: median(micros.other) };
}

/** Milliseconds of a connection with its login and one query. */
async function connectMs({ host, ...rest }: Way, branch: Branch): Promise<number> {
  const from = performance.now();
  for (let done = 0; done < connects; done += 1) {
    const client = await pgClient(host, branch, rest);
    await client.query("select 1");
    await client.end();
  }
  return (performance.now() - from) / connects;
}

/**
 * What the database proxy adds: to a server of the same machine, and of another one, over the proxies of both. Each proxy
 * is a process, and rounds of all ways take turns, so that all see the same machine.
 */
export async function databasesProxy(times: number): Promise<Row[]> {
  const branch = aBranch();
  const nodeId = "8e2f3a4b-5c6d-4e7f-9a0b-1c2d3e4f5a6b";
  const [same, other, peerHost] = [bridge(1), bridge(2), bridge(3)];
  await using server = await startPostgres();
  await server.add(branch);
  const authority = await anAuthority();
  await using far = await aPlace({ SVC_DBPROXY_PEER_LISTEN: `${peerHost}:${peerPort}` });
  await using near = await aPlace();
  await authority.certify(far.dir, { id: nodeId });
  await authority.certify(near.dir, { id: "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b" });
  const local = { engine: "postgres", at: { socket: server.socketPath }, connectionLimit: 50 } as const;
  await far.write([anEntry(branch, { ...local, bridges: [same] })]);
  const at = { nodeId, host: peerHost, port: peerPort };
  await near.write([anEntry(branch, { engine: "postgres", at, bridges: [other], connectionLimit: 50 })]);
  await using _far = await spawnProxy(far);
  await using _near = await spawnProxy(near);
  const ways = {
    direct: { host: server.socketPath.replace(/\/[^/]+$/, ""), port: 5432 },
    same: { host: same },
    other: { host: other },
  } as const satisfies Record<string, Way>;
  const connectTo = ({ host, ...rest }: Way) => pgClient(host, branch, rest);
  const clients = {
    ...{ direct: await connectTo(ways.direct), same: await connectTo(ways.same), other: await connectTo(ways.other) },
  };
  const micros = perWay<number[]>(() => []);
  const ms = perWay<number[]>(() => []);
  // So many until the proxies' code is compiled: what a proxy does for its first thousands costs twice as much.
  for (let warm = 0; warm < 5; warm += 1) await queryMicros(clients);
  for (let round = 0; round < times; round += 1) {
    const measured = await queryMicros(clients);
    for (const name of names) micros[name].push(measured[name]);
    for (const name of names) ms[name].push(await patiently(() => connectMs(ways[name], branch)));
  }
  await Promise.all(names.map((name) => clients[name].end()));
  const row = (name: string, unit: Row["unit"], samples: number[], floor: number[], aim: Row["aim"]): Row => ({
    ...{ name, unit, samples, aim },
    floor: { name: "over the server's socket", samples: floor },
  });
  const within = (most: number): Row["aim"] => ({
    text: `<= floor + ${most} µs`,
    met: (value, floor) => value <= floor + most,
  });
  return [
    row("databases-proxy: a query, same machine", "µs", micros.same, micros.direct, within(50)),
    row("databases-proxy: a query, another machine", "µs", micros.other, micros.direct, within(300)),
    row("databases-proxy: connect and query, same machine", "ms", ms.same, ms.direct, null),
    row("databases-proxy: connect and query, another machine", "ms", ms.other, ms.direct, null),
  ];
}

/** New connections of a branch are limited to some at once and 20 a second: what is refused is measured again, later. */
async function patiently(measure: () => Promise<number>): Promise<number> {
  let measured = 0;
  await waitFor(async () => {
    measured = await measure();
    return true;
  });
  return measured;
}
