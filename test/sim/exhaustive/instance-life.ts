import { freshMemory, type Memory } from "@svc/agent/journal/records";
import { database } from "@svc/agent/placements/kinds/database";
import { nextStep } from "@svc/agent/placements/steps";
import { isTerminal, type Step, type View } from "@svc/agent/placements/view";
import { Desired, Observed } from "@svc/proto/node";
import type { Model } from "./explore.ts";

/**
 * Two servers of one branch over one volume of one machine: the agent's real `nextStep` and what it keeps in its journal, with an agent that
 * dies between what the engine does and what it notes of it, loses its journal, a machine that reboots at any time, and a disk that is lost. What the
 * image's entry point does (deploy/database/entry.sh) is told here: it holds a lock on the volume, makes data under another name and
 * renames it, and ends with 75 or 77 where it may not serve. Control names another server whenever it likes, also
 * wrongly while the one before is there; only a first one may make data.
 */
interface State {
  instances: readonly Instance[];
  volume: {
    hasData: boolean;
    /** Whoever looks sees that there is data. */
    isMarked: boolean;
  };
  /** Its tenant was made once: somebody may have written to what is there, or was. Control asks for data before that alone. */
  isInUse: boolean;
  /** The engine's disk, with volumes and containers, or the agent's journal; a machine without both is another one. */
  lost: "nothing" | "disk" | "journal";
  reboots: number;
  wrong: string | null;
}

interface Instance {
  /** As it was asked for. */
  init: boolean;
  desired: typeof Desired.RUNNING | typeof Desired.REMOVED;
  observed: Observed;
  memory: Pick<Memory, "wasHealthy" | "crashes" | "countedExit">;
  isGranted: boolean;
  /** The journal still says what it is. */
  isKnown: boolean;
  /** Control was told that it is over. */
  isToldOver: boolean;
  container: { is: "created" | "running" | "serving" | "exited"; mayInit: boolean; exitCode: number } | null;
}

export type InstanceMutant =
  | "no lock at the volume"
  | "starts after a reboot without a grant"
  | "makes data whenever it was asked to"
  | "makes data where the mark is missing"
  | "says that it is over when it is to go";

const held = 75;
const missing = 77;
const killed = 137;
const startedAt = "2030-01-01T10:00:00Z";
const finishedAt = "2030-01-01T11:00:00Z";
const nowMs = Date.parse("2030-01-02T00:00:00Z");
const rebootsMax = 1;
const crashesMost = 1;

export function instanceLife(mutant: InstanceMutant | null): Model<State> {
  const kind =
    mutant === "starts after a reboot without a grant" ? { ...database, rebootsWith: "journal" as const } : database;

  function viewOf({ desired, observed, memory, isGranted, isKnown, container }: Instance): View {
    const state = container?.is === "serving" ? "running" : (container?.is ?? "created");
    return {
      ...{ kind: isKnown ? "database" : "unknown", desired, observed, memoryMb: 256, healthTimeoutMs: 1, drainMs: 0 },
      ...{ isOpen: false, limitsDue: false, isGranted, imageReady: true, nowMs, memory: { ...freshMemory, ...memory } },
      container: container && {
        ...{ id: "c", state, exitCode: container.exitCode, oomKilled: false, oomScope: "unknown" },
        ...{ startedAt: state === "created" ? null : startedAt, finishedAt: state === "exited" ? finishedAt : null },
      },
    };
  }

  const set = (state: State, at: number, change: Partial<Instance>): State => ({
    ...state,
    instances: state.instances.map((each, index) => (index === at ? { ...each, ...change } : each)),
  });
  const setContainer = (state: State, at: number, change: Partial<NonNullable<Instance["container"]>>): State => {
    const container = state.instances[at]?.container;
    return container == null ? state : set(state, at, { container: { ...container, ...change } });
  };

  /** What a step does, and what is noted of it after that, which may never be. */
  function done(
    state: State,
    at: number,
    own: Instance,
    step: Step,
  ): { effect: State; noted: Partial<Instance> } | null {
    const { memory } = own;
    switch (step.do) {
      case "create-database": {
        const mayInit = own.init && (!memory.wasHealthy || mutant === "makes data whenever it was asked to");
        return {
          effect: set(state, at, { container: { is: "created", mayInit, exitCode: 0 } }),
          noted: { observed: Observed.CREATED },
        };
      }
      case "start-database": {
        const wrong = own.isGranted ? state.wrong : "a server that nobody has named since the machine booted";
        return {
          effect: { ...setContainer(state, at, { is: "running" }), wrong },
          noted: { observed: Observed.STARTING },
        };
      }
      case "prove-database":
        if (own.container?.is !== "serving") return { effect: state, noted: { observed: Observed.FAILED } };
        return { effect: state, noted: { observed: Observed.RUNNING, memory: { ...memory, wasHealthy: true } } };
      case "count-crash":
        return {
          effect: state,
          noted: { memory: { ...memory, crashes: step.crash.crashes, countedExit: step.crash.countedExit } },
        };
      case "stop":
        return { effect: setContainer(state, at, { is: "exited", exitCode: 0 }), noted: {} };
      case "remove":
      case "discard":
        return { effect: set(state, at, { container: null }), noted: {} };
      case "settle":
        return { effect: state, noted: { observed: step.observed } };
      case "fail":
        return { effect: state, noted: { observed: Observed.FAILED } };
      default:
        return null;
    }
  }

  function* agent(state: State): Generator<readonly [string, State]> {
    for (const [at, own] of state.instances.entries()) {
      const step = nextStep(viewOf(own), own.isKnown ? kind : null);
      const what = done(state, at, own, step);
      if (what !== null) {
        const { effect, noted } = what;
        if (noted.memory === undefined || noted.memory.crashes <= crashesMost)
          yield [`${at}: ${step.do}`, set(effect, at, noted)];
        if (effect !== state) yield [`${at}: ${step.do}, and the agent dies`, effect];
      }
      const isOver =
        own.observed === Observed.REMOVED ||
        (mutant === "says that it is over when it is to go" && own.desired === Desired.REMOVED);
      if (isOver && !own.isToldOver) yield [`${at} is said to be over`, set(state, at, { isToldOver: true })];
    }
  }

  /** What becomes of a container that was started. */
  function* entry(state: State): Generator<readonly [string, State]> {
    const { volume } = state;
    for (const [at, { container }] of state.instances.entries()) {
      if (container === null) continue;
      const { is, mayInit } = container;
      if (is === "running") {
        const isHeld = state.instances.some((each, index) => index !== at && each.container?.is === "serving");
        if (isHeld && mutant !== "no lock at the volume") {
          yield [`${at} finds the volume held`, setContainer(state, at, { is: "exited", exitCode: held })];
        } else if (volume.isMarked) {
          yield [`${at} serves`, setContainer(state, at, { is: "serving" })];
        } else if (mayInit) {
          const isAgain = state.isInUse ? "data is made where some was in use" : state.wrong;
          const isMarked = mutant !== "makes data where the mark is missing";
          const made: State = { ...state, volume: { hasData: true, isMarked }, wrong: isAgain };
          yield [`${at} makes data and serves`, setContainer(made, at, { is: "serving" })];
        } else yield [`${at} finds no data`, setContainer(state, at, { is: "exited", exitCode: missing })];
      }
      if (is === "serving" && !volume.isMarked && volume.hasData)
        yield ["the data is marked", { ...state, volume: { ...volume, isMarked: true } }];
      if (is === "serving" || is === "running")
        yield [`${at} is killed`, setContainer(state, at, { is: "exited", exitCode: killed })];
    }
  }

  function* control(state: State): Generator<readonly [string, State]> {
    for (const [at, own] of state.instances.entries()) {
      if (own.desired === Desired.RUNNING) {
        yield [`${at} is to go`, set(state, at, { desired: Desired.REMOVED })];
        if (!own.isGranted || !own.isKnown)
          yield [`${at} is named`, set(state, at, { isGranted: true, isKnown: true })];
      }
    }
    const isServing = state.instances.some(
      ({ observed, container }) => observed === Observed.RUNNING && container?.is === "serving",
    );
    // Of two that are there at once, which control never means, nobody makes anything.
    const isAlone = state.instances.filter(({ isToldOver }) => !isToldOver).length === 1;
    if (!state.isInUse && isServing && isAlone) yield ["its tenant is made", { ...state, isInUse: true }];
    const isOver = state.instances.every(({ isToldOver }) => isToldOver);
    const init = !state.isInUse && isOver;
    const isSound = state.lost === "nothing" && state.reboots === 0;
    if (state.instances.length === 1 && (isOver || isSound))
      yield ["another server is named", { ...state, instances: [...state.instances, { ...fresh, init }] }];
  }

  function* machine(state: State): Generator<readonly [string, State]> {
    // Mistakes of control and of a machine are looked at one by one.
    if (state.instances.filter(({ isToldOver }) => !isToldOver).length > 1) return;
    if (state.reboots < rebootsMax) {
      const instances = state.instances.map((each): Instance => {
        const runs = each.container?.is === "serving" || each.container?.is === "running";
        const container =
          each.container && runs ? { ...each.container, is: "exited" as const, exitCode: killed } : each.container;
        return { ...each, isGranted: false, container };
      });
      yield ["the machine reboots", { ...state, instances, reboots: state.reboots + 1 }];
    }
    if (state.lost !== "nothing") return;
    if (state.volume.hasData) {
      const emptied = state.instances.map((each) => ({ ...each, container: null }));
      const volume = { hasData: false, isMarked: false };
      yield ["the engine's disk is lost", { ...state, instances: emptied, volume, lost: "disk" }];
    }
    const instances = state.instances.map((each) => ({
      ...each,
      ...{ isKnown: false, isGranted: false, memory: fresh.memory },
      observed: isTerminal(each.observed) ? each.observed : Observed.UNSPECIFIED,
    }));
    yield ["the journal is lost", { ...state, instances, lost: "journal" }];
  }

  return {
    initial: {
      ...{ instances: [fresh], volume: { hasData: false, isMarked: false }, isInUse: false, lost: "nothing" },
      ...{ reboots: 0, wrong: null },
    },
    *next(state) {
      yield* agent(state);
      yield* entry(state);
      yield* control(state);
      yield* machine(state);
    },
    key: ({ instances, volume, isInUse, lost, reboots, wrong }) =>
      [
        ...[volume.hasData, volume.isMarked, isInUse, lost, reboots, wrong],
        ...instances.flatMap(({ init, desired, observed, memory, isGranted, isKnown, isToldOver, container }) => [
          ...[init, desired, observed, memory.wasHealthy, memory.crashes, memory.countedExit, isGranted, isKnown],
          ...[isToldOver, container?.is, container?.mayInit, container?.exitCode],
        ]),
      ].join(),
    problem({ instances, wrong }) {
      if (wrong !== null) return wrong;
      if (instances.filter(({ container }) => container?.is === "serving").length > 1)
        return "two servers at one volume";
      return instances.some(({ isToldOver, container }) => isToldOver && container !== null)
        ? "a server that was said to be over, and is not"
        : null;
    },
  };
}

const fresh: Instance = {
  init: true,
  ...{ desired: Desired.RUNNING, observed: Observed.UNSPECIFIED },
  memory: { wasHealthy: false, crashes: 0, countedExit: "" },
  ...{ isGranted: true, isKnown: true, isToldOver: false, container: null },
};
