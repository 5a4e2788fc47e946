import { create } from "@bufbuild/protobuf";
import type { RunRecord, RunState } from "@svc/agent/journal/records";
import { nextRun, type RunEvent } from "@svc/agent/runs/transitions";
import { acceptRun, recordRun, runMessage } from "@svc/control/fleet/agents/run-steps";
import { isRunOver, type RunValue } from "@svc/control/fleet/cluster/keys";
import { RunOfferSchema, RunPhase, RunStatusSchema } from "@svc/proto/node";
import type { Model } from "./explore.ts";

/**
 * One attempt at a release command, between control and one node: real `acceptRun`, `recordRun`, `runMessage` and
 * `nextRun`. A session is two queues in order, which a new session empties; orders that the engine has taken outlive the agent.
 */
interface State {
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
  work: "" | "create" | "creating" | "created" | "starting" | "follow" | "recover" | "tell";
  container: "absent" | "created" | "running" | "exited";
  /** Orders that the engine has taken. */
  orders: string;
  starts: number;
  down: readonly string[];
  up: readonly string[];
  said: string;
  crashes: number;
  sessions: number;
}

export type RunMutant =
  | "no tombstone"
  | "no start record"
  | "created is never started"
  | "auto-remove"
  | "take a grant back";

const limits = { crashes: 2, sessions: 3, queue: 3 } as const;
const at = new Date(0);
const machine = "boot";
const offer = create(RunOfferSchema, { attemptId: "a" });

const runOf = ({ run }: State): RunValue | null =>
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

const recordOf = (state: State): RunRecord => ({
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

const phases = {
  offer: null,
  intent: null,
  "start-sent": RunPhase.STARTED,
  exit: RunPhase.EXITED,
  tombstone: RunPhase.NOT_STARTED,
  indeterminate: RunPhase.INDETERMINATE,
} as const;

/** What the agent would tell of its record; null: nothing. */
function evidence(state: State): string | null {
  if (state.journal === null || (state.journal === "start-sent" && !state.hasStartedAt)) return null;
  const phase = phases[state.journal];
  return phase === null ? null : `evidence ${phase} ${state.hasToken ? "t" : ""}`;
}

const enqueue = (queue: readonly string[], message: string): readonly string[] =>
  queue.length >= limits.queue || queue.includes(message) ? queue : [...queue, message];

export function runProtocol(mutant: RunMutant | null): Model<State> {
  /** The agent takes an event; what it tells goes up. */
  function move(state: State, event: RunEvent): State | null {
    const isUnwritten = mutant === "no start record" && event.kind === "starting";
    const taken =
      mutant !== null &&
      event.kind === "recovered" &&
      state.journal === "start-sent" &&
      ((mutant === "created is never started" && event.container === "created") ||
        (mutant === "auto-remove" && event.container === "absent"))
        ? { ...recordOf(state), state: "tombstone" as const }
        : nextRun(recordOf(state), event);
    if (taken === null) return null;
    const after: State = {
      ...state,
      journal: isUnwritten ? state.journal : taken.state,
      hasToken: taken.token !== "",
      hasStartedAt: taken.startedAt !== "",
    };
    return tell(after);
  }
  function tell(state: State): State {
    const said = evidence(state);
    return said === null || !state.isConnected ? state : { ...state, up: enqueue(state.up, said) };
  }

  function* control(state: State): Generator<readonly [string, State]> {
    const { run } = state;
    if (run === null) yield ["offer", { ...state, run: "offered" }];
    if (run === "accepted") yield ["grant", { ...state, run: "granted" }];
    if (mutant === "take a grant back" && run === "granted")
      yield ["take the grant back", { ...state, run: "not_started" }];
    if (!state.isConnected) return;
    const value = runOf(state);
    const message = value === null ? null : runMessage(value, machine);
    if (message !== null && state.said !== message) {
      yield [`say ${message}`, { ...state, said: message, down: enqueue(state.down, message) }];
    }
    const [first, ...rest] = state.up;
    if (first === undefined) return;
    const [kind, phase, token] = first.split(" ");
    const status = create(RunStatusSchema, {
      attemptId: "a",
      phase: Number(phase ?? 0) as RunPhase,
      token: token ?? "",
    });
    const answer = kind === "accept" ? acceptRun(value, "", at, machine) : recordRun(value, status, at, machine);
    const after: State = {
      ...state,
      up: rest,
      run: answer.write?.state ?? run,
      said: answer.ack ? "" : state.said,
      down: answer.ack ? enqueue(state.down, "ack") : state.down,
    };
    yield [`hear ${first}`, after];
  }

  function* agent(state: State): Generator<readonly [string, State]> {
    const { journal } = state;
    const [first, ...rest] = state.down;
    if (state.isConnected && first !== undefined) {
      const heard: State = { ...state, down: rest };
      if (first === "offer") {
        if (journal === null || journal === "offer") {
          yield ["take the offer", { ...heard, journal: "offer", isAccepted: true, up: enqueue(heard.up, "accept") }];
        } else yield ["answer the offer", tell(heard)];
      } else if (first === "grant") {
        const events: RunEvent[] =
          state.isAccepted && journal !== null
            ? [0, 1].map((lateByMs) => ({ kind: "granted", token: "t", lateByMs }))
            : [{ kind: "granted-unknown", token: "t" }];
        for (const event of events) {
          const after = move(heard, event) ?? heard;
          yield [
            "take the grant",
            after.journal === "intent" && journal === "offer" ? { ...after, work: "create" } : after,
          ];
        }
      } else if (first === "ack") {
        const isDone = journal !== null && ["exit", "tombstone", "indeterminate", "offer"].includes(journal);
        const forgotten: State = {
          ...heard,
          journal: null,
          hasToken: false,
          hasStartedAt: false,
          isAccepted: false,
          work: "",
        };
        yield ["forget", isDone ? { ...forgotten, orders: `${state.orders}R` } : heard];
      }
    }
    switch (state.work) {
      case "create":
        return yield ["order create", { ...state, work: "creating", orders: `${state.orders}C` }];
      case "created":
        for (const lateByMs of [0, 1]) {
          const after = move(state, { kind: "starting", lateByMs });
          if (after !== null) {
            const isOn = after.journal !== "tombstone";
            yield [
              "write the start",
              isOn ? { ...after, work: "starting", orders: `${state.orders}S` } : { ...after, work: "" },
            ];
          }
        }
        return;
      case "follow":
        if (state.container === "exited")
          yield [
            "see the end",
            { ...(move(state, { kind: "ended", exitCode: 0, at: "then", message: "" }) ?? state), work: "" },
          ];
        if (state.container === "absent")
          yield ["miss it", { ...(move(state, { kind: "recovered", container: "absent" }) ?? state), work: "" }];
        return;
      case "tell":
        return yield [
          "say not started",
          {
            ...state,
            work: "",
            up: state.isConnected ? enqueue(state.up, `evidence ${RunPhase.NOT_STARTED} `) : state.up,
          },
        ];
      case "recover":
        if (journal === "offer" || journal === "intent") {
          if (mutant === "no tombstone") yield ["look back", { ...state, work: "tell" }];
          else
            yield [
              "look back",
              {
                ...(move(state, { kind: "recovered", container: "absent" }) ?? state),
                work: "",
                orders: `${state.orders}R`,
              },
            ];
        } else if (state.container === "running" || state.container === "exited") {
          yield ["find it", { ...(move(state, { kind: "started", at: "then" }) ?? state), work: "follow" }];
        } else
          yield [
            "look back",
            { ...(move(state, { kind: "recovered", container: state.container }) ?? state), work: "" },
          ];
    }
  }

  function* engine(state: State): Generator<readonly [string, State]> {
    for (const order of new Set(state.orders)) {
      const orders = state.orders.replace(order, "");
      if (order === "C") {
        const container = state.container === "absent" ? "created" : state.container;
        yield [
          "engine creates",
          { ...state, orders, container, work: state.work === "creating" ? "created" : state.work },
        ];
      } else if (order === "S") {
        const isStarted = state.container === "created" || state.container === "exited";
        const after: State = { ...state, orders, ...(isStarted && { container: "running", starts: state.starts + 1 }) };
        const told = state.work === "starting" ? (move(after, { kind: "started", at: "then" }) ?? after) : after;
        yield ["engine starts", state.work === "starting" ? { ...told, work: "follow" } : told];
      } else yield ["engine removes", { ...state, orders, container: "absent" }];
    }
    if (state.container === "running") {
      yield ["command ends", { ...state, container: mutant === "auto-remove" ? "absent" : "exited" }];
    }
  }

  return {
    initial: {
      ...{
        run: null,
        journal: null,
        hasToken: false,
        hasStartedAt: false,
        isUp: true,
        isConnected: true,
        isAccepted: false,
      },
      ...{ work: "", container: "absent", orders: "", starts: 0, down: [], up: [], said: "", crashes: 0, sessions: 0 },
    },
    *next(state) {
      yield* control(state);
      if (state.isUp) yield* agent(state);
      yield* engine(state);
      if (state.isUp && state.crashes < limits.crashes) {
        const lost = { isConnected: false, isAccepted: false, down: [], up: [], said: "", work: "" } as const;
        yield ["agent crashes", { ...state, ...lost, isUp: false, crashes: state.crashes + 1 }];
      }
      if (!state.isUp) {
        const isToRecover = state.journal === "offer" || state.journal === "intent" || state.journal === "start-sent";
        yield ["agent starts", { ...state, isUp: true, work: isToRecover ? "recover" : "" }];
      }
      if (state.isUp && state.isConnected && state.sessions < limits.sessions) {
        yield [
          "connection breaks",
          { ...state, isConnected: false, down: [], up: [], said: "", sessions: state.sessions + 1 },
        ];
      }
      if (state.isUp && !state.isConnected) {
        const open: State = { ...state, isConnected: true };
        const told = tell(open);
        yield ["connect", state.journal === "offer" ? { ...told, up: enqueue(told.up, "accept") } : told];
      }
    },
    key: (state) => JSON.stringify(state),
    problem({ run, starts, container, orders }) {
      if (starts > 1) return "it started twice";
      const isSaidNever = run === "not_started" || run === "refused";
      if (isSaidNever && starts > 0) return "it started, and control takes it for one that never did";
      if (run !== null && isRunOver(run) && isSaidNever && orders.includes("S") && container === "created") {
        return "control takes it for one that never starts, and the engine is about to start it";
      }
      return null;
    },
  };
}
