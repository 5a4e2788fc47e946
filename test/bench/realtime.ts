import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { testDatabase } from "@svc/control/stores/db/testing";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import type { Row } from "./table.ts";

const names = {
  memory: { text: "memory of each of 10,000 clients", unit: "KiB", most: 20, floor: "bare node:http" },
  publish: { text: "publish to 1,000 clients, until it returns", unit: "ms", most: 4, floor: "bare node:http" },
  publishP99: { text: "publish to 1,000 clients, p99", unit: "ms", most: 4, floor: "bare node:http" },
  stalled: {
    text: "most that a client holds which does not read 16 MiB",
    unit: "KiB",
    most: 1.1 * 1024,
    floor: "bare node:http",
  },
  replicasP99: {
    text: "event to a client of another replica, p99",
    unit: "ms",
    most: 20,
    floor: "bare LISTEN, NOTIFY",
  },
  back: { text: "1,000 clients are back after the server was killed", unit: "ms", most: 5_000, floor: null },
} as const;

/** What the package costs an application, and its clients. */
export async function realtimeStreams(times: number): Promise<Row[]> {
  await using database = await testDatabase();
  const script = join(repositoryRoot, "realtime", "src", "testing", "bench.ts");
  const child = spawnProgram([nodeBinary(), script, database.url, String(times)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error("the streams could not be measured"))),
  ])) as [string];
  const measured = JSON.parse(line) as Record<keyof typeof names, { samples: number[]; floor: number[] | null }>;
  return (Object.keys(names) as (keyof typeof names)[]).map((name) => {
    const { text, unit, most, floor } = names[name];
    const { samples, floor: bare } = measured[name];
    return {
      name: text,
      unit,
      samples,
      floor: floor === null || bare === null ? null : { name: floor, samples: bare },
      aim: { text: `<= ${Math.round(most)} ${unit}`, met: (value) => value <= most },
    };
  });
}
