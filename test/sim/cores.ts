import type { Journal } from "@svc/agent/journal/journal";
import { nextObservation } from "@svc/control/fleet/agents/apply-status";
import { acceptRun, recordRun, runMessage } from "@svc/control/fleet/agents/run-steps";
import { stormOf } from "@svc/control/fleet/cluster/storm/rules";
import { isWhole, nextTable, tableAnswered, vouchesForShrinking } from "@svc/control/fleet/edges/table-outbox";
import { keepReplicas } from "@svc/control/fleet/replicas/steps";
import { edgesFollowing } from "@svc/control/fleet/routes/progress";
import { applyChange, tableChange } from "@svc/control/fleet/routes/table";
import { schedule } from "@svc/control/fleet/scheduler/steps";
import {
  answered as assignAnswered,
  isMassStop,
  pendingChanges,
  tell,
  verdict,
} from "@svc/control/fleet/sessions/outbox";
import { stepResume } from "@svc/control/stores/etcd/resume";
import { answered, asked, checkInMs, disconnected, granted, leaseAction } from "@svc/control/stores/etcd/validity";
import { nextLifecycleStep } from "@svc/control/tenants/deployments/lifecycle/steps";
import { nextDeployStep } from "@svc/control/tenants/deployments/steps";
import { decide } from "@svc/router/table";

/**
 * The product's own decisions, as the virtual shells of control and edges call them. A test double replaces one of them or throws
 * a switch. Agents are the product's own, and call theirs themselves.
 */
export const realCores = {
  stormOf,
  edgesFollowing,
  nextDeployStep,
  nextLifecycleStep,
  isWhole,
  nextTable,
  tableAnswered,
  vouchesForShrinking,
  stepResume,
  lease: { answered, asked, checkInMs, disconnected, granted, leaseAction },
  nextObservation,
  assignAnswered,
  isMassStop,
  pendingChanges,
  tell,
  verdict,
  acceptRun,
  recordRun,
  runMessage,
  keepReplicas,
  applyChange,
  tableChange,
  schedule,
  decide,
  /** How agents' ports are. */
  ports: {
    /** What was written to the journal is on the disk when the call returns. */
    syncsJournal: true,
    /** A container of a run stays until it is removed. */
    keepsRunContainers: true,
    journal: (journal: Journal): Journal => journal,
  },
  /** Parts of the shells that a test double leaves out or changes. */
  shell: {
    /** Session-derived writes carry the guard of the session. */
    guardsSessions: true,
    /** A new leader leaves the attempts of others alone. */
    leavesRunsAlone: true,
    /** Containers stop only after every edge has the newer table. */
    waitsForEdges: true,
    /** A stop holds what is on its way. */
    stopsCoverOpen: true,
  },
};

export type Cores = typeof realCores;
