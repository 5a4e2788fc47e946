import type { Journal } from "@svc/agent/journal/journal";
import { edgesFollowing } from "@svc/control/fleet/routes/progress";

/**
 * The product's own decisions, as the virtual shells of control's workers call them. A test double replaces one of them or throws
 * a switch. Agents, edges, their sessions and leaders are the product's own, and call theirs themselves.
 */
export const realCores = {
  edgesFollowing,
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
    /** A stop holds what is on its way. */
    stopsCoverOpen: true,
  },
};

export type Cores = typeof realCores;
