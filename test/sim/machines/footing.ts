import type { Journal } from "@svc/agent/journal/journal";

/** What agents stand on, as it should be; some planted bugs are in it. All decisions are the product's own. */
export const soundFooting = {
  /** What was written to the journal is on the disk when the call returns. */
  syncsJournal: true,
  /** A container of a run stays until it is removed. */
  keepsRunContainers: true,
  journal: (journal: Journal): Journal => journal,
};

export type Footing = typeof soundFooting;
