import type { dumpProblem } from "@svc/agent/backups/dump-check";
import type { apply } from "@svc/agent/placements/apply";
import type { nextStep } from "@svc/agent/placements/steps";
import type { judge } from "@svc/agent/runs/gate";
import type { toStatus } from "@svc/agent/runs/outcome";
import type { nextRun } from "@svc/agent/runs/transitions";
import type { volumesToRemove } from "@svc/control/fleet/database-volumes/rules";
import type { dirtyByKeys } from "@svc/control/fleet/routes/dirty";
import type { edgesFollowing } from "@svc/control/fleet/routes/progress";
import type { createPublisher } from "@svc/control/fleet/routes/publisher";
import type { tableChange } from "@svc/control/fleet/routes/table";
import type { schedule } from "@svc/control/fleet/scheduler/steps";
import type { answered as assignAnswered } from "@svc/control/fleet/sessions/outbox";
import type { takeSessionKey } from "@svc/control/fleet/sessions/session-key";
import type { databaseTask } from "@svc/control/fleet/tasks/kinds/database";
import type { stepResume } from "@svc/control/stores/etcd/resume";
import type { answered, granted } from "@svc/control/stores/etcd/validity";
import type { nextChangeStep } from "@svc/control/tenants/databases/changes/steps";
import type { nextCopiesStep } from "@svc/control/tenants/databases/copies/steps";
import type { nextBranchStep } from "@svc/control/tenants/databases/steps";
import type { tenantWork } from "@svc/control/tenants/databases/tenant-work";
import type { countBackups, isSlotTaken } from "@svc/control/tenants/databases/testing/memory/backups";
import type { isFollowing } from "@svc/control/tenants/databases/testing/memory/copies";
import type { hasNoServer } from "@svc/control/tenants/databases/testing/memory/tables";
import type { nextDeployStep } from "@svc/control/tenants/deployments/steps";
import type { requestLifecycle } from "@svc/control/tenants/deployments/testing/memory/request";
import type { createJobClock } from "@svc/control/tenants/jobs/clock/apply";
import type { clockStep } from "@svc/control/tenants/jobs/clock/steps";
import type { afterAttempt } from "@svc/control/tenants/jobs/runs/rules";
import type { nextJobRunStep } from "@svc/control/tenants/jobs/runs/steps";
import type { switchChannelJobs } from "@svc/control/tenants/jobs/testing/memory/change";
import type { nextPhase, unreadyReason } from "@svc/router/rotation/rules";
import type { decide } from "@svc/router/table";
import type { createTableFeed } from "@svc/router/table-feed";
import type { createTableStore } from "@svc/router/table-store";
import type { nextSequence } from "@svc/router/tree-steps";

/** What may be replaced, by its name. */
export interface Patchable {
  apply: typeof apply;
  nextStep: typeof nextStep;
  judge: typeof judge;
  toStatus: typeof toStatus;
  nextRun: typeof nextRun;
  dirtyByKeys: typeof dirtyByKeys;
  edgesFollowing: typeof edgesFollowing;
  createPublisher: typeof createPublisher;
  tableChange: typeof tableChange;
  schedule: typeof schedule;
  assignAnswered: typeof assignAnswered;
  takeSessionKey: typeof takeSessionKey;
  stepResume: typeof stepResume;
  granted: typeof granted;
  answered: typeof answered;
  databaseTask: typeof databaseTask;
  countBackups: typeof countBackups;
  isSlotTaken: typeof isSlotTaken;
  dumpProblem: typeof dumpProblem;
  hasNoServer: typeof hasNoServer;
  isFollowing: typeof isFollowing;
  nextBranchStep: typeof nextBranchStep;
  nextChangeStep: typeof nextChangeStep;
  nextCopiesStep: typeof nextCopiesStep;
  tenantWork: typeof tenantWork;
  volumesToRemove: typeof volumesToRemove;
  nextDeployStep: typeof nextDeployStep;
  requestLifecycle: typeof requestLifecycle;
  createJobClock: typeof createJobClock;
  clockStep: typeof clockStep;
  afterAttempt: typeof afterAttempt;
  nextJobRunStep: typeof nextJobRunStep;
  switchChannelJobs: typeof switchChannelJobs;
  createTableFeed: typeof createTableFeed;
  createTableStore: typeof createTableStore;
  decide: typeof decide;
  nextSequence: typeof nextSequence;
  nextPhase: typeof nextPhase;
  unreadyReason: typeof unreadyReason;
}

/** Each makes a function of the real one. */
export type Patches = { [K in keyof Patchable]?: (real: Patchable[K]) => Patchable[K] };

type Any = (...args: readonly unknown[]) => unknown;

let patches: Readonly<Record<string, ((real: Any) => Any) | undefined>> = {};
let made = new Map<string, Any>();
const behind = new Set<string>();

/** From now on every call goes to these instead, until the next change; one simulation runs at a time. */
export function patch(next: Patches): void {
  const missing = Object.keys(next).find((name) => !behind.has(name));
  if (missing !== undefined) throw new Error(`${missing} was loaded without its door: see patchable.ts`);
  patches = next as typeof patches;
  made = new Map();
}

/** The function by which others call `real`. */
export function door(name: string, real: Any): Any {
  behind.add(name);
  return (...args) => {
    const replace = patches[name];
    if (replace === undefined) return real(...args);
    const known = made.get(name) ?? replace(real);
    made.set(name, known);
    return known(...args);
  };
}
