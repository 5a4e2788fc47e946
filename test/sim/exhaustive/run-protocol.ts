import { create } from "@bufbuild/protobuf";
import { type Gate, judge, type Verdict } from "@svc/agent/runs/gate";
import { nextRun, type RunEvent } from "@svc/agent/runs/transitions";
import { acceptRun, recordRun, runMessage } from "@svc/control/fleet/agents/run-steps";
import { isRunOver } from "@svc/control/fleet/cluster/keys";
import { RunPhase, RunStatusSchema } from "@svc/proto/node";
import type { Model } from "./explore.ts";
import { at, enqueue, evidence, limits, machine, recordOf, runOf, type State, stateOf } from "./run-state.ts";

export type RunMutant =
  | "no tombstone"
  | "no start record"
  | "created is never started"
  | "auto-remove"
  | "take a grant back"
  | "reads the gate and does not shut it"
  | "shuts a gate that is claimed"
  | "trusts an open gate after a reboot"
  | "says held back of what it said has started"
  | "runs behind a shut gate";

/**
 * One attempt, between control and one node: real `acceptRun`, `recordRun`, `runMessage`, `nextRun` and `judge`. A session is
 * two queues in order, which a new session empties; orders that the engine has taken outlive the agent. Agent, engine and
 * machine end at any step. An attempt without a gate is one that an agent of the version before has started.
 */
export function runProtocol(mutant: RunMutant | null, hasGate = true): Model<State> {
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
        : mutant === "says held back of what it said has started" && event.kind === "held-back"
          ? nextRun({ ...recordOf(state), startedAt: "" }, event)
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
  /** Never looked at again once it is told that the command was started. */
  const gateOf = ({ container, gate, hasStartedAt }: State): Gate =>
    !hasGate || (hasStartedAt && mutant !== "says held back of what it said has started")
      ? "none"
      : container === "absent"
        ? "gone"
        : gate;
  /** What the agent makes of an attempt that the engine was told to start, with or without the engine's word. */
  function* settle(state: State): Generator<readonly [string, State]> {
    const gate = gateOf(state);
    const isSameBoot = state.isSameBoot || mutant === "trusts an open gate after a reboot";
    const decide = (container: "absent" | "created" | "running" | "exited" | undefined): Verdict => {
      const verdict = judge({ gate, container, isSameBoot });
      if (mutant === "reads the gate and does not shut it" && verdict === "shut") return "never";
      return mutant === "shuts a gate that is claimed" && verdict === "runs" && gate === "claimed" ? "never" : verdict;
    };
    const left = state.container === "created" ? "created" : "absent";
    const verdicts = new Set([decide(undefined), ...(state.isEngineUp ? [decide(stateOf(state))] : [])]);
    for (const verdict of verdicts) {
      if (verdict === "never") {
        yield ["say held back", { ...(move(state, { kind: "held-back", message: "" }) ?? state), work: "" }];
      } else if (verdict === "shut") yield ["shut the gate", { ...state, gate: "shut" }];
      else if (verdict === "runs")
        yield ["find it", { ...(move(state, { kind: "started", at: "then" }) ?? state), work: "follow" }];
      else if (verdict === "unknown")
        yield [
          "give up",
          { ...(move(state, { kind: "recovered", container: left, ran: gate === "claimed" }) ?? state), work: "" },
        ];
    }
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
            : journal === "offer"
              ? [{ kind: "recovered", container: "absent" }]
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
      case "settle":
        return yield* settle(state);
      case "starting":
        // The engine does not answer in time, or is not there any more.
        return yield ["hear nothing of the start", { ...state, work: "settle" }];
      case "follow":
        if (!state.isEngineUp) return;
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
        } else yield ["look back", { ...state, work: "settle" }];
    }
  }

  function* engine(state: State): Generator<readonly [string, State]> {
    if (!state.isEngineUp) return yield ["engine comes back", { ...state, isEngineUp: true }];
    for (const order of new Set(state.orders)) {
      const orders = state.orders.replace(order, "");
      if (order === "C") {
        const container = state.container === "absent" ? "created" : state.container;
        const gate = state.container === "absent" ? "open" : state.gate;
        yield [
          "engine creates",
          { ...state, orders, container, gate, work: state.work === "creating" ? "created" : state.work },
        ];
      } else if (order === "S") {
        const isStarted = state.container === "created" || state.container === "exited";
        const after: State = {
          ...{ ...state, orders },
          ...(isStarted && (hasGate ? { container: "begun" } : { container: "running", starts: state.starts + 1 })),
        };
        const isKnown = state.work === "starting" && after.container !== "absent" && after.container !== "created";
        const told = isKnown ? (move(after, { kind: "started", at: "then" }) ?? after) : after;
        yield ["engine starts", isKnown ? { ...told, work: "follow" } : told];
      } else yield ["engine removes", { ...state, orders, container: "absent", gate: "none" }];
    }
    const ended = mutant === "auto-remove" ? "absent" : "exited";
    if (state.container === "begun") {
      const isFree = state.gate === "open" || mutant === "runs behind a shut gate";
      yield isFree
        ? ["container claims its gate", { ...state, gate: "claimed", container: "running", starts: state.starts + 1 }]
        : ["container is held back", { ...state, container: ended }];
      yield ["container is killed", { ...state, container: ended }];
    }
    if (state.container === "running") yield ["command ends", { ...state, container: ended }];
    if (state.engineCrashes < limits.engineCrashes) {
      const isOn = state.container === "begun" || state.container === "running";
      yield [
        "engine ends",
        {
          ...{ ...state, isEngineUp: false, engineCrashes: state.engineCrashes + 1, orders: "" },
          container: isOn ? ended : state.container,
        },
      ];
    }
  }

  /** The power goes. What a container wrote last is lost, or not. */
  function* reboot(state: State): Generator<readonly [string, State]> {
    if (state.reboots >= limits.reboots) return;
    const lost = { isConnected: false, isAccepted: false, down: [], up: [], said: "", work: "", orders: "" } as const;
    const isOn = state.container === "begun" || state.container === "running";
    const after: State = {
      ...{ ...state, ...lost, isUp: false, isEngineUp: false, isSameBoot: false, reboots: state.reboots + 1 },
      container: isOn ? (mutant === "auto-remove" ? "absent" : "exited") : state.container,
    };
    yield ["machine reboots", after];
    if (state.gate === "claimed") yield ["machine reboots, and a claim is lost", { ...after, gate: "open" }];
    // The engine may not have written down that it had started it.
    if (isOn) yield ["machine reboots, and a start is lost", { ...after, container: "created" }];
    if (isOn && state.gate === "claimed")
      yield ["machine reboots, and both are lost", { ...after, container: "created", gate: "open" }];
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
      ...{ work: "", container: "absent", gate: "none", isSameBoot: true, isEngineUp: true, orders: "", starts: 0 },
      ...{ down: [], up: [], said: "", crashes: 0, engineCrashes: 0, reboots: 0, sessions: 0 },
    },
    *next(state) {
      yield* control(state);
      if (state.isUp) yield* agent(state);
      yield* engine(state);
      yield* reboot(state);
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
    problem({ run, starts, container, orders, reboots }) {
      if (starts > 1) return "it started twice";
      if (hasGate && run === "indeterminate" && reboots === 0)
        return "nobody knows what became of it, and the node lives";
      const isSaidNever = run === "not_started" || run === "refused";
      if (isSaidNever && starts > 0) return "it started, and control takes it for one that never did";
      if (
        run !== null &&
        isRunOver(run) &&
        !hasGate &&
        isSaidNever &&
        orders.includes("S") &&
        container === "created"
      ) {
        return "control takes it for one that never starts, and the engine is about to start it";
      }
      return null;
    },
  };
}
