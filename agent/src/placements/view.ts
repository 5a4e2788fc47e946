// @pure
import type { FailureCode } from "@svc/proto";
import { type Desired, Observed, type Placement } from "@svc/proto/node";
import type { Container } from "../engine/engine.ts";
import type { Memory } from "../journal/records.ts";
import type { Crash } from "./crash.ts";

/** One move that brings a placement nearer to what is desired. Each may be repeated safely. */
export type Step =
  /** Nothing to do until something changes. */
  | { do: "rest" }
  | { do: "wait"; untilMs: number }
  | { do: "pull" }
  | { do: "create" }
  /** Makes the container of a database's server, over the volume of its data. */
  | { do: "create-database" }
  | { do: "start" }
  /** Starts it, with the directory of its socket in place. */
  | { do: "start-database" }
  /** Gives the container the limits that it is to have, and tells control which it has. */
  | { do: "limit" }
  /** Waits until the first start answers its health path, or has failed to. */
  | { do: "prove"; startedMs: number; untilMs: number }
  /** The same for a database's server, which answers at its socket. */
  | { do: "prove-database"; startedMs: number; untilMs: number }
  | { do: "watch-database" }
  /** Makes the container of a copy's keeper, over the copy's volume. */
  | { do: "create-keeper" }
  /** Starts it, with the directory of its door in place. */
  | { do: "start-keeper" }
  | { do: "watch-keeper" }
  /** Looks at a healthy container from time to time. */
  | { do: "watch" }
  | ({ do: "count-crash"; crash: Crash } & End)
  /** Tells why a counted crash really was, which the engine said only afterwards. */
  | ({ do: "explain-crash" } & End)
  /** Throws away a container that cannot be used any more, to make another. */
  | { do: "discard" }
  /** Lets a container that is to go serve what is open, until nothing is or the time is up. */
  | { do: "drain"; untilMs: number }
  | { do: "stop" }
  | { do: "remove" }
  | { do: "build" }
  /** Writes a database of this node to the registry. */
  | { do: "backup" }
  /** Makes sure of the image that a capture's browser runs in. */
  | { do: "pull-browser" }
  /** Takes a picture of a site and writes it to the registry. */
  | { do: "capture" }
  /** Restores a copy of this node for a look. */
  | { do: "prove-copy" }
  | { do: "settle"; observed: typeof Observed.STOPPED | typeof Observed.REMOVED }
  | ({ do: "fail" } & End);

/** How a process ended by itself, with the words for it. */
export interface End {
  code: FailureCode;
  message: string;
  exitCode: number;
  oomKilled: boolean;
}

/** What the decision looks at. */
export interface View {
  /** `unknown` when the journal was lost and only the container's labels are left. */
  kind: NonNullable<Placement["spec"]["case"]> | "unknown";
  desired: Desired;
  observed: Observed;
  memory: Memory;
  memoryMb: number;
  healthTimeoutMs: number;
  /** How long it may serve what is open once it is to go. */
  drainMs: number;
  /** Whether somebody has a connection to it. Looked at only of what may drain; what the kernel does not tell is open. */
  isOpen: boolean;
  /** Null when there is none, and always for a kind without one. */
  container: Pick<
    Container,
    "id" | "state" | "exitCode" | "oomKilled" | "oomScope" | "startedAt" | "finishedAt"
  > | null;
  /** The container's limits are to be changed, or to be told of; see `isLimitsDue`. */
  limitsDue: boolean;
  /** Whether an assignment has named it since the machine booted. */
  isGranted: boolean;
  /** Whether this agent has made sure of the image since it started. */
  imageReady: boolean;
  nowMs: number;
}

/** States after which a placement never runs again. */
export const isTerminal = (observed: Observed): boolean => observed >= Observed.COMPLETED;
