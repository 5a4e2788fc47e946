/**
 * Functions of the product that a planted bug may replace, by the file that exports them, and their names as bugs know them where
 * others have the same. The product knows nothing of it: what
 * loads these files in a simulation (`main.ts`, and `vitest.config.ts` in tests) puts a door before them.
 */
const patchable: Readonly<Record<string, readonly string[]>> = {
  "agent/src/backups/dump-check.ts": ["dumpProblem"],
  "agent/src/placements/apply.ts": ["apply"],
  "agent/src/placements/steps.ts": ["nextStep"],
  "agent/src/runs/gate.ts": ["judge"],
  "agent/src/runs/outcome.ts": ["toStatus"],
  "agent/src/runs/transitions.ts": ["nextRun"],
  "control/src/fleet/database-volumes/rules.ts": ["volumesToRemove"],
  "control/src/fleet/routes/dirty.ts": ["dirtyByKeys"],
  "control/src/fleet/routes/progress.ts": ["edgesFollowing"],
  "control/src/fleet/routes/publisher.ts": ["createPublisher"],
  "control/src/fleet/routes/table.ts": ["tableChange"],
  "control/src/fleet/scheduler/steps.ts": ["schedule"],
  "control/src/fleet/sessions/outbox.ts": ["answered as assignAnswered"],
  "control/src/fleet/sessions/session-key.ts": ["takeSessionKey"],
  "control/src/fleet/tasks/kinds/database.ts": ["databaseTask"],
  "control/src/stores/etcd/resume.ts": ["stepResume"],
  "control/src/stores/etcd/validity.ts": ["answered", "granted"],
  "control/src/tenants/databases/changes/steps.ts": ["nextChangeStep"],
  "control/src/tenants/databases/copies/steps.ts": ["nextCopiesStep"],
  "control/src/tenants/databases/steps.ts": ["nextBranchStep"],
  "control/src/tenants/databases/tenant-work.ts": ["tenantWork"],
  "control/src/tenants/databases/testing/memory/backups.ts": ["countBackups", "isSlotTaken"],
  "control/src/tenants/databases/testing/memory/copies.ts": ["isFollowing"],
  "control/src/tenants/databases/testing/memory/tables.ts": ["hasNoServer"],
  "control/src/tenants/deployments/steps.ts": ["nextDeployStep"],
  "control/src/tenants/deployments/testing/memory/request.ts": ["requestLifecycle"],
  "control/src/tenants/jobs/clock/apply.ts": ["createJobClock"],
  "control/src/tenants/jobs/clock/steps.ts": ["clockStep"],
  "control/src/tenants/jobs/runs/rules.ts": ["afterAttempt"],
  "control/src/tenants/jobs/runs/steps.ts": ["nextJobRunStep"],
  // Half of the product: what visitors see and what runs by schedule change in one transaction of a store.
  "control/src/tenants/jobs/testing/memory/change.ts": ["switchChannelJobs"],
  "router/src/rotation/rules.ts": ["nextPhase", "unreadyReason"],
  "router/src/table-feed.ts": ["createTableFeed"],
  "router/src/table-store.ts": ["createTableStore"],
  "router/src/table.ts": ["decide"],
  "router/src/tree-steps.ts": ["nextSequence"],
};

const doorUrl = new URL("./door.ts", import.meta.url);

/**
 * The source of a file of the product with a door before each function that may be replaced; null for every other file.
 *
 * @param address its URL or path
 * @throws Error when it has no such function any more
 */
export function patchedSource(address: string, read: () => string): string | null {
  const names = Object.entries(patchable).find(([path]) => address.endsWith(`/${path}`))?.[1];
  if (names === undefined) return null;
  let source = read();
  for (const each of names) {
    const [name, atDoor = name] = each.split(" as ");
    const declared = new RegExp(`^export ((?:async )?function ${name}\\()`, "m");
    if (!declared.test(source)) throw new Error(`${address} has no function ${name}: see test/sim/mutants`);
    source = source.replace(declared, "$1");
    source += `\nconst ${name}AtDoor = door("${atDoor}", ${name});\nexport { ${name}AtDoor as ${name} };\n`;
  }
  const from = address.startsWith("file:") ? doorUrl.href : doorUrl.pathname;
  return `${source}import { door } from ${JSON.stringify(from)};\n`;
}
