import { performance } from "node:perf_hooks";
import { aBranch, anEntry, type Branch } from "@svc/dbproxy/testing/branch";
import { anAuthority } from "@svc/dbproxy/testing/certificates";
import { spawnProxy } from "@svc/dbproxy/testing/child";
import { pgClient } from "@svc/dbproxy/testing/pg-client";
import { startPostgres } from "@svc/dbproxy/testing/postgres";
import { aPlace, bridge } from "@svc/dbproxy/testing/proxy";
import { waitFor } from "@svc/dbproxy/testing/wait-for";
import type { Row } from "./table.ts";

const queries = 1_000;
const connects = 20;
const peerPort = 27_434;
const statement = { name: "one", text: "select $1::int as one", values: [1] };

/** One way to the server: by host, or by the directory of its socket. */
interface Way {
  host: string;
  port?: number;
}

/** Microseconds of one prepared query, of so many one after another on one connection. */
async function queryMicros({ host, ...rest }: Way, branch: Branch): Promise<number> {
  const client = await pgClient(host, branch, rest);
  for (let done = 0; done < queries / 5; done += 1) await client.query(statement);
  const from = performance.now();
  for (let done = 0; done < queries; done += 1) await client.query(statement);
  const tookMs = performance.now() - from;
  await client.end();
  return (tookMs * 1_000) / queries;
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
  await waitFor(async () => (await queryMicros(ways.other, branch)) > 0);
  const micros = { direct: [] as number[], same: [] as number[], other: [] as number[] };
  const ms = { direct: [] as number[], same: [] as number[], other: [] as number[] };
  for (let round = 0; round < times; round += 1) {
    for (const way of ["direct", "same", "other"] as const) {
      micros[way].push(await queryMicros(ways[way], branch));
      ms[way].push(await patiently(() => connectMs(ways[way], branch)));
    }
  }
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
