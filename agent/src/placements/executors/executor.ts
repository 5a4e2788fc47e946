import type { Clock } from "@svc/runtime/clock";
import type { Backups } from "../../backups/backups.ts";
import type { Builder } from "../../build/builder.ts";
import type { Captures } from "../../captures/captures.ts";
import type { DatabaseTables } from "../../databases/table-writer.ts";
import type { Ids } from "../../engine/context-owner.ts";
import type { Container, Engine, Owner } from "../../engine/engine.ts";
import type { EntranceKeeper } from "../../entrances/keeper.ts";
import type { Images } from "../../images/images.ts";
import type { Proofs } from "../../keepers/proofs.ts";
import type { Log } from "../../log.ts";
import type { Tails } from "../../logs/tails.ts";
import type { Networks } from "../../network/networks.ts";
import type { Ports } from "../../network/ports.ts";
import type { Machine } from "../../node/machine.ts";
import type { Task } from "../task.ts";
import type { Step } from "../view.ts";

/** What a step works on: the container is as it was when the step was decided. */
export interface Turn {
  task: Task;
  container: Container | null;
  signal: AbortSignal;
}

/** The effects of some steps. Each may be repeated safely, and ends early when its signal aborts. */
export type Executor<K extends Step["do"]> = {
  [Kind in K]: (step: Extract<Step, { do: Kind }>, turn: Turn) => Promise<void>;
};

/** One effect per step. */
export type Runner = Executor<Step["do"]>;

/** What a placement has to know of the others of its node. */
export interface Siblings {
  /** Whether another placement or run needs the network of a project and channel. */
  isNetworkNeeded(projectId: string, channel: string, except: string): boolean;
  /** Whether a placement holds the host port. */
  isPortHeld(port: number): boolean;
}

export type RunnerDeps = {
  clock: Clock;
  engine: Engine;
  machine: Pick<Machine, "probe" | "tcpTables" | "laySocketDir" | "layCopyDoor" | "probeDatabase">;
  owner: Owner;
  /** Who the database proxy of this node is. */
  proxyIds(): Promise<Ids>;
  databases: Pick<DatabaseTables, "reachable">;
  images: Images;
  networks: Networks;
  ports: Ports;
  builder: Builder;
  backups: Backups;
  captures: Captures;
  proofs: Proofs;
  tails: Tails;
  /** Private address of the node, at which edges reach its containers. */
  address: string;
  entrances: Pick<EntranceKeeper, "isWanted" | "isOpen">;
  /** Null: keepers of copies look around as often as they do by themselves. */
  copyLookMs: number | null;
  log: Log;
} & Siblings;
