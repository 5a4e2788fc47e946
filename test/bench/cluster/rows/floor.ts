import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Bench } from "../bench.ts";

const opsPerTxn = 100;
const prefix = "/svc-bench/";

/** How many times `work` is done in a second, one after the other. */
async function rate(ms: number, work: (index: number) => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  let count = 0;
  for (; performance.now() - startedAt < ms; count += 1) await work(count);
  return count / ((performance.now() - startedAt) / 1000);
}

/** What the machine gives without svc, in the same run: the ground under all other numbers. */
export async function measureFloor({ stand, quick, report }: Bench): Promise<void> {
  const { etcd, pool, dir } = stand;
  const rounds = quick ? 2 : 5;
  const ms = quick ? 200 : 600;
  const value = "v".repeat(300);
  const rates = { puts: [] as number[], keys: [] as number[], commits: [] as number[], syncs: [] as number[] };
  await using file = await open(join(dir, "floor"), "a", 0o600);
  const record = Buffer.alloc(256, "r");
  await pool.query("create table bench_floor (id bigint generated always as identity, value text)");
  try {
    for (let round = 0; round < rounds; round += 1) {
      rates.puts.push(
        await rate(ms, (index) => etcd.txn({ ops: [{ put: { key: `${prefix}${index % opsPerTxn}`, value } }] })),
      );
      const ops = Array.from({ length: opsPerTxn }, (_, index) => ({ put: { key: `${prefix}${index}`, value } }));
      rates.keys.push((await rate(ms, () => etcd.txn({ ops }))) * opsPerTxn);
      rates.commits.push(await rate(ms, () => pool.query("insert into bench_floor (value) values ($1)", [value])));
      rates.syncs.push(
        await rate(ms, async () => {
          await file.write(record);
          await file.datasync();
        }),
      );
    }
  } finally {
    await pool.query("drop table bench_floor");
    const all = Array.from({ length: opsPerTxn }, (_, index) => ({ delete: { key: `${prefix}${index}` } }));
    await etcd.txn({ ops: all });
  }
  const common = { row: 0, per: "run", aim: null, note: null } as const;
  report({ ...common, metric: "floor: etcd, puts one after the other", unit: "/s", samples: rates.puts });
  report({ ...common, metric: `floor: etcd, keys in transactions of ${opsPerTxn}`, unit: "/s", samples: rates.keys });
  report({ ...common, metric: "floor: Postgres, commits of one row", unit: "/s", samples: rates.commits });
  report({ ...common, metric: "floor: append of 256 bytes and sync", unit: "/s", samples: rates.syncs });
}
