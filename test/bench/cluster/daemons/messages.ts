import type { Identity } from "@svc/uplink";

/** What a process of simulated daemons is told when it starts; kept in a file because it holds private keys. */
export interface DaemonsConfig {
  role: "node" | "edge";
  linkUrls: string[];
  /** `incarnation` as text: JSON has no 64-bit numbers. */
  identities: (Omit<Identity, "incarnation"> & { incarnation: string })[];
  /** Number of the first of them among those of all processes. */
  numbersFrom: number;
  /** Where the journal and tables are kept. */
  dir: string;
  /** From taking a placement to saying that its container runs and is healthy. */
  startMs: number;
}

export type Command =
  /** Starts the daemons from index `from` up to `to`, evenly over `overMs`. */
  | { do: "start"; from: number; to: number; overMs: number }
  | { do: "state" }
  /** The events since the last `take`. */
  | { do: "take" }
  | { do: "stop" };

/** Counted over the life of the process, apart from `open` and `running`. */
export interface DaemonsState {
  /** Sessions that have their Welcome. */
  open: number;
  welcomes: number;
  /** Containers that the agents think they run. */
  running: number;
  starts: number;
  /** Of containers that ran. */
  stops: number;
  /** Starts of release commands, and the most of one attempt. */
  runStarts: number;
  runStartsMax: number;
  /** Assignments that did not fit or were held back. */
  refusals: number;
  /** Placements taken, and tables applied, since the last `take`. */
  assigned: number;
  rssMb: number;
}

/** Times on the clock of `monotonicMs`. */
export interface DaemonsEvents {
  /** A placement is in the journal of its agent, and its answer is about to be sent. */
  assigned: { placementId: string; deploymentId: string; nodeId: string; at: number }[];
  runs: { attemptId: string; offeredAt: number; grantedAt: number; startedAt: number }[];
  /** A table is on the disk of its edge; `hosts` are those that changed. */
  tables: { edgeId: string; generation: number; hosts: string[]; at: number }[];
}
