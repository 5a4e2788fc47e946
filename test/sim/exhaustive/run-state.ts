import { create } from "@bufbuild/protobuf";
import type { RunRecord, RunState } from "@svc/agent/journal/records";
import type { Gate } from "@svc/agent/runs/gate";
import type { RunValue } from "@svc/control/fleet/cluster/keys";
import { RunOfferSchema, RunPhase } from "@svc/proto/node";

/** Where one attempt stands, at control, at the agent, in the engine and on the way between them. */
export interface State {
  /** Control's record; null before the offer. */
  run: RunValue["state"] | null;
  /** What the agent's disk says; null: nothing. */
  journal: RunState | null;
  hasToken: boolean;
  hasStartedAt: boolean;
  isUp: boolean;
  isConnected: boolean;
  /** Accepted in this life of the agent, so that the window for a grant is known. */
  isAccepted: boolean;
  /** Where the agent's own work stands. */
  work: "" | "create" | "creating" | "created" | "starting" | "settle" | "follow" | "recover" | "tell";
  /** `begun`: its own first steps, before the command. With the engine's word for it, it runs. */
  container: "absent" | "created" | "begun" | "running" | "exited";
  /** Of a container that is there. */
  gate: Gate;
  /** The machine is in the boot in which the start was ordered. */
  isSameBoot: boolean;
  isEngineUp: boolean;
  /** Orders that the engine has taken. */
  orders: string;
  starts: number;
  down: readonly string[];
  up: readonly string[];
  said: string;
  crashes: number;
  engineCrashes: number;
  reboots: number;
  sessions: number;
}

export const limits = { crashes: 2, engineCrashes: 1, reboots: 1, sessions: 2, queue: 3 } as const;
export const at = new Date(0);
export const machine = "boot";
const offer = create(RunOfferSchema, { attemptId: "a" });

export const runOf = ({ run }: State): RunValue | null =>
  run === null
    ? null
    : {
        ...{
          attemptId: "a",
          kind: "release",
          ownerKind: "deployment",
          ownerId: "d",
          projectId: "p",
          state: run,
          cancel: false,
          exitCode: null,
          acceptedBy: null,
        },
        token: ["granted", "started", "exited", "indeterminate"].includes(run) ? "t" : null,
        ...{ timedOut: false, message: null, startedAt: null, finishedAt: null, changedAt: "" },
      };

export const recordOf = (state: State): RunRecord => ({
  ...{
    offer,
    state: state.journal ?? "offer",
    token: state.hasToken ? "t" : "",
    exitCode: 0,
    timedOut: false,
    message: "",
  },
  ...{ startedAt: state.hasStartedAt ? "then" : "", finishedAt: "" },
});

/** As the engine says it. */
export const stateOf = ({ container }: State) => (container === "begun" ? "running" : container);

const phases = {
  offer: null,
  intent: null,
  "start-sent": RunPhase.STARTED,
  exit: RunPhase.EXITED,
  tombstone: RunPhase.NOT_STARTED,
  indeterminate: RunPhase.INDETERMINATE,
} as const;

/** What the agent would tell of its record; null: nothing. */
export function evidence(state: State): string | null {
  if (state.journal === null || (state.journal === "start-sent" && !state.hasStartedAt)) return null;
  const phase = phases[state.journal];
  return phase === null ? null : `evidence ${phase} ${state.hasToken ? "t" : ""}`;
}

export const enqueue = (queue: readonly string[], message: string): readonly string[] =>
  queue.length >= limits.queue || queue.includes(message) ? queue : [...queue, message];
