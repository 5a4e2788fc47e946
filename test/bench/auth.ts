import { requestText, startServer } from "./api-server.ts";
import { closedLoop, type LoopResult } from "./closed-loop.ts";
import { processorTime } from "./processor-time.ts";
import type { Row } from "./table.ts";

const connections = 200;
const roundMs = 2_000;
const rateShare = 0.6;
const p99MsMax = 15;

interface Sample extends LoopResult {
  /** Processor time per request, µs: of control, and of its Postgres. */
  control: number;
  postgres: number;
}

/**
 * What it costs to know who asks: the same handler without a credential, with an API key, and with a session in
 * either form, each connection with an account of its own. The cases take turns within each round.
 */
export async function authenticatedReads(rounds: number): Promise<Row[]> {
  await using started = await startServer(connections);
  const { server, pid } = started;
  const { hostname, port } = new URL(server.url);
  const request = requestText(server.url);
  const cases = {
    bare: server.accounts.map(() => request(server.open)),
    key: server.accounts.map(({ key }) => request(server.closed, `x-api-key: ${key}`)),
    bearer: server.accounts.map(({ session }) => request(server.closed, `Authorization: Bearer ${session}`)),
    cookie: server.accounts.map(({ cookie }) => request(server.closed, `Cookie: ${cookie}`)),
  };
  type Case = keyof typeof cases;
  const results: Record<Case, Sample[]> = { bare: [], key: [], bearer: [], cookie: [] };
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, requests] of Object.entries(cases) as [Case, string[]][]) {
      const before = await processorTime(pid);
      const result = await closedLoop({ host: hostname, port: Number(port), requests, durationMs: roundMs });
      const after = await processorTime(pid);
      // The first round only warms up.
      if (round === 0) continue;
      results[name].push({
        ...result,
        control: (after.own - before.own) / result.count,
        postgres: (after.below - before.below) / result.count,
      });
    }
  }
  const samples = (name: Case, what: keyof Sample) => results[name].map((result) => result[what]);
  const floor = (what: keyof Sample) => ({ name: "without authentication", samples: samples("bare", what) });
  const names = { key: "an API key", bearer: "a Bearer session", cookie: "a session cookie" } as const;
  return (Object.keys(names) as (keyof typeof names)[]).flatMap((name): Row[] => [
    {
      name: `read with ${names[name]}, ${connections} connections`,
      unit: "req/s",
      samples: samples(name, "requestsPerSecond"),
      floor: floor("requestsPerSecond"),
      aim: { text: `>= ${rateShare * 100} %`, met: (value, bare) => value >= rateShare * bare },
    },
    {
      name: "- 99 of 100 within",
      unit: "ms",
      samples: samples(name, "p99"),
      floor: floor("p99"),
      aim: { text: `<= ${p99MsMax} ms`, met: (value) => value <= p99MsMax },
    },
    // Holds also while others use the machine.
    { name: "- processor, control", unit: "µs", samples: samples(name, "control"), floor: floor("control"), aim: null },
    {
      name: "- processor, Postgres",
      unit: "µs",
      samples: samples(name, "postgres"),
      floor: null,
      aim: null,
    },
  ]);
}
