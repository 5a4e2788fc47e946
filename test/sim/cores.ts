import type { Journal } from "@svc/agent/journal/journal";
import { stormOf } from "@svc/control/fleet/cluster/storm/rules";
import { keepReplicas } from "@svc/control/fleet/replicas/steps";
import { edgesFollowing } from "@svc/control/fleet/routes/progress";
import { applyChange, tableChange } from "@svc/control/fleet/routes/table";

/**
 * The product's own decisions, as the virtual shells of control's leaders and workers call them. A test double replaces one of them or throws
 * a switch. Agents, edges and their sessions are the product's own, and call theirs themselves.
 */
export const realCores = {
  stormOf,
  edgesFollowing,
  keepReplicas,
  applyChange,
  tableChange,
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
    /** A new leader leaves the attempts of others alone. */
    leavesRunsAlone: true,
    /** Containers stop only after every edge has the newer table. */
    waitsForEdges: true,
    /** A stop holds what is on its way. */
    stopsCoverOpen: true,
  },
};

export type Cores = typeof realCores;
