import { plural } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import { type Etcd, type Op, txnLimits } from "../../stores/etcd/index.ts";
import { keyParts, keys, placementValue, prefix, runValue } from "../cluster/keys.ts";
import { kindOfRun } from "../tasks/run-kinds/index.ts";
import type { AdmittedNode, RecoveryRows } from "./rows.ts";
import { type Recovery, type Restored, recoverySteps } from "./steps.ts";

/** The cluster cannot be recovered now. The message says what to do. */
export class RecoveryRefused extends Error {
  override readonly name = "RecoveryRefused";
}

export interface RecoverOptions {
  rows: RecoveryRows;
  etcd: Pick<Etcd, "get" | "range" | "txn">;
  /** At least this one is the new cluster epoch; for when both stores are older than what daemons have heard. */
  epoch?: number;
  clock: Clock;
  print(line: string): void;
  /** How long replicas that died a moment ago may still count as alive; 30 s unless given. */
  waitMs?: number;
  /** What one transaction writes; as much as etcd takes unless given. */
  opsPerTxn?: number;
}

const lookEveryMs = 500;
const idsShown = 20;

/**
 * To be run after etcd, or Postgres, was restored from a backup, while no control server runs. It makes etcd say again
 * what Postgres knows, and begins a new cluster epoch, under which daemons accept what is older than what they have.
 * Nothing that runs is stopped by it. Safe to repeat, also after it was cut short. Returns the new epoch.
 *
 * What operators did to keep somebody out since the backup of Postgres is undone by it, and nothing tells what that was:
 * tokens that look unused are revoked, since they may have been used or revoked, and the rest is printed to be compared.
 *
 * @throws RecoveryRefused while a control server runs
 */
export async function recoverCluster(options: RecoverOptions): Promise<number> {
  const { clock, rows, etcd, print, waitMs = 30_000, opsPerTxn = txnLimits.ops } = options;
  await untilNobodyServes(clock, etcd, waitMs);
  const restored = await readRestored(etcd);
  const tasks = await rows.tasks(restored.placements.map(({ placement }) => placement.placementId));
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const recovery = recoverySteps(byId, await rows.openAttempts(), restored, clock.now());
  const known = Number((await etcd.get(keys.clusterEpoch))?.value ?? 0);
  const epoch = await rows.epoch();
  if (epoch === null) throw new RecoveryRefused("this database has no cluster yet: there is nothing to recover");
  const next = Math.max(epoch, known, (options.epoch ?? 0) - 1) + 1;
  // Daemons take nothing of this before the epoch is a new one, so being cut short in between changes nothing for them.
  const ops = [...opsOf(recovery), { put: { key: keys.clusterEpoch, value: String(next) } }];
  await writeAll(etcd, ops, opsPerTxn);
  const tokensRevoked = await rows.begin(next, clock.now());
  for (const line of reportOf(recovery, { epoch: next, tokensRevoked, admitted: await rows.admitted() })) print(line);
  return next;
}

/** Leases of what died go on for some seconds. */
async function untilNobodyServes(clock: Clock, etcd: RecoverOptions["etcd"], waitMs: number): Promise<void> {
  const giveUpAtMs = clock.steadyMs() + waitMs;
  for (;;) {
    const { entries } = await etcd.range(prefix.servers);
    if (entries.length === 0 && (await etcd.get(keys.leader)) === null) return;
    if (clock.steadyMs() > giveUpAtMs) {
      throw new RecoveryRefused("a control server runs: stop every one of them, run this again, and then start them");
    }
    await sleep(clock, lookEveryMs);
  }
}

async function readRestored(etcd: RecoverOptions["etcd"]): Promise<Restored> {
  const under = async (path: string) => (await etcd.range(path)).entries;
  const [placements, runs, routes, edges, observations] = await Promise.all([
    under(prefix.placements),
    under(prefix.runs),
    under(prefix.routes),
    under(prefix.edges),
    under(prefix.observations),
  ]);
  const applied = edges.filter(({ key }) => key.endsWith("/applied"));
  return {
    placements: placements.map(({ key, value }) => ({
      nodeId: keyParts(key, prefix.placements)[0] ?? "",
      placement: placementValue.parse(JSON.parse(value)),
    })),
    runs: runs.map(({ key, value }) => ({
      nodeId: keyParts(key, prefix.runs)[0] ?? "",
      run: runValue.parse(JSON.parse(value)),
    })),
    outdated: [...routes, ...applied, ...observations].map(({ key }) => key),
  };
}

const opsOf = ({ puts, deletes }: Recovery): Op[] => [
  ...puts.map(({ key, value }) => ({ put: { key, value: JSON.stringify(value) } })),
  ...deletes.map((key) => ({ delete: { key } })),
];

/** In as many transactions as it takes, each only while nobody leads. */
async function writeAll(etcd: RecoverOptions["etcd"], ops: readonly Op[], opsPerTxn: number): Promise<void> {
  for (let at = 0; at < ops.length; at += opsPerTxn) {
    const { succeeded } = await etcd.txn({
      guards: [{ key: keys.leader, compare: "absent" }],
      ops: ops.slice(at, at + opsPerTxn),
    });
    if (!succeeded) {
      throw new RecoveryRefused("a control server was started meanwhile: stop every one of them, and run this again");
    }
  }
}

function reportOf(
  recovery: Recovery,
  { epoch, tokensRevoked, admitted }: { epoch: number; tokensRevoked: number; admitted: readonly AdmittedNode[] },
): string[] {
  const { replaced, advanced, forgotten, unsettled, unknown } = recovery;
  const shown = unknown.slice(0, idsShown).map(({ nodeId, placementId }) => `  ${placementId} on node ${nodeId}`);
  const rest = unknown.length - shown.length;
  return [
    `${replaced} placements are in etcd again, ${advanced} go on to what was wanted of them, ${forgotten} are forgotten`,
    ...[...unsettled].map(
      ([kind, count]) => `${count} ${kindOfRun(kind).called.many} end as failed: nobody knows whether they ran`,
    ),
    ...(unknown.length === 0 ? [] : [`${unknown.length} placements are unknown to the database and run on:`, ...shown]),
    ...(rest > 0 ? [`  and ${rest} more`] : []),
    `${plural(tokensRevoked, "bootstrap token")} that looked unused ${tokensRevoked === 1 ? "is" : "are"} revoked: make new ones`,
    "If Postgres was restored: fences, removals, revoked tokens and replacements of the authority since its backup are undone.",
    "Repeat them before control is started: what was fenced or removed since then is let in again. These are let in now:",
    ...(admitted.length === 0 ? ["  nobody"] : []),
    ...admitted.map(
      ({ id, name, role, lastSeenAt }) =>
        `  ${name} (${role} ${id}), last seen ${lastSeenAt?.toISOString() ?? "never"}`,
    ),
    `the cluster epoch is ${epoch}: the control servers can be started`,
  ];
}
