import { type Bridge, nothingTold, proxyEntries, takeTable } from "@svc/agent/databases/table";
import { knownDatabases, saveDatabases } from "@svc/agent/databases/told";
import { freshMemory } from "@svc/agent/journal/records";
import { nextStep } from "@svc/agent/placements/steps";
import { tableOf } from "@svc/control/fleet/database-tables/table";
import { admitDial, admitLogin } from "@svc/dbproxy/table/admission";
import { indexTable, type TableIndex } from "@svc/dbproxy/table/lookup";
import type { DatabaseProxyEntry } from "@svc/proto/database-proxy";
import { Desired, Observed } from "@svc/proto/node";
import type { Model } from "./explore.ts";

/**
 * Who is let in to which server of one branch that goes from machine to machine: control's real `tableOf`, the agents' real
 * `takeTable`, `proxyEntries` and what they journal of it, the proxies' real admission, and the real `nextStep` of an instance after a reboot.
 *
 * Two machines, each with an agent, which may die between any two writes, a proxy, which goes late by what its agent knows, and apps. Whatever
 * control has ever had to say may reach any machine at any time, as often as it likes: so it is for any number of control servers,
 * of which some read long ago. The first machine may go silent, be declared lost, which its operator says of one that is off, and come
 * back with its disk as it was.
 */
interface State {
  /** What control would say now. */
  word: Word;
  /** All that it ever said. */
  history: readonly string[];
  instances: readonly Instance[];
  machines: readonly [Machine, Machine];
  first: "heard" | "silent" | "lost" | "back";
}

/** Of the newest server. */
interface Word {
  epoch: number;
  /** Null: it has been asked to go. */
  at: 0 | 1 | null;
  isHeld: boolean;
}

/** A server's container, or what is left of it on a disk. */
interface Instance {
  epoch: number;
  at: 0 | 1;
  isWanted: boolean;
  isRunning: boolean;
  /** An assignment has named it since its machine booted. */
  isGranted: boolean;
  /** Control waits for its end no more. */
  isOver: boolean;
}

interface Machine {
  /** The journal of the agent, by name of setting. */
  journal: Readonly<Record<string, string>>;
  /** The proxy's entry; empty: none. */
  inForce: string;
  /** The highest epoch that ever was in force. */
  highest: number;
}

export type ProxyMutant =
  | "publishes the next epoch when the old server is silent"
  | "forgets the epochs on the disk"
  | "saves the table before the epochs"
  | "starts after a reboot without a grant";

const branchId = "5a1d0c37-0000-4000-8000-00000000000a";
const nodeIds = ["11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"] as const;
const epochsMax = 2;
const bridge: Bridge = { projectId: "p", channel: "production", address: "10.1.0.1" };
const machinesAt = [0, 1] as const;

const entriesOf = ({ epoch, at, isHeld }: Word) =>
  tableOf([
    {
      ...{ id: branchId, projectId: "p", channel: "production", engine: "postgres", status: "ready", isOff: false },
      ...{ nodeId: nodeIds[0], connectionLimit: 20, readOnly: false, isHeld, copies: [] },
      server: {
        ...{ epoch, readOnly: false },
        at: at === null ? null : { nodeId: nodeIds[at], address: `10.0.0.${at + 1}` },
      },
    },
  ]);

export function proxyTables(mutant: ProxyMutant | null): Model<State> {
  const journals = new Map<string, Machine["journal"]>();
  const texts = new Map<string, string>();
  /** What is decided from the same is the same: it is decided once. */
  function remembered<T>(memory: Map<string, T>, of: unknown, make: () => T): T {
    const name = JSON.stringify(of);
    const value = memory.get(name) ?? make();
    memory.set(name, value);
    return value;
  }

  /** What is on an agent's disk once it has taken a word; `saves` of its writes happened before it died. */
  function taken({ journal }: Machine, word: Word, saves: number): Machine["journal"] {
    const find = (name: string): string | null => journal[name] ?? null;
    const known = knownDatabases({ findSetting: find }) ?? nothingTold;
    const { told } = takeTable(known, { entries: entriesOf(word), goneIds: [] });
    const writes: [string, string][] = [];
    saveDatabases({ saveSetting: (name, value) => void writes.push([name, value]) }, told);
    if (mutant === "saves the table before the epochs") writes.reverse();
    return { ...journal, ...Object.fromEntries(writes.slice(0, saves)) };
  }

  /** The entry that an agent writes for its proxy while the servers of these epochs run there. */
  function written({ journal }: Machine, at: 0 | 1, running: readonly number[]): string {
    const told = knownDatabases({ findSetting: (name) => journal[name] ?? null });
    const here = {
      ...{ nodeId: nodeIds[at], peerPort: 7445, bridges: [bridge], doorOf: () => "/" },
      socketOf: ({ epoch }: { epoch: bigint }) => (running.includes(Number(epoch)) ? "/socket" : null),
    };
    return told === null ? "" : JSON.stringify(proxyEntries(told.entries, here));
  }

  const indices = new Map<string, TableIndex>();
  function indexOf(text: string): TableIndex {
    const known = indices.get(text) ?? indexTable({ generation: "1", entries: text === "" ? [] : JSON.parse(text) });
    indices.set(text, known);
    return known;
  }
  const entryOf = ({ inForce }: Machine): DatabaseProxyEntry | undefined => indexOf(inForce).byId.get(branchId);

  const isOn = (state: State, at: 0 | 1): boolean => at === 1 || state.first !== "lost";
  const isHeard = (state: State, at: 0 | 1): boolean => at === 1 || state.first === "heard" || state.first === "back";

  /** The server that apps of a machine get to; null: none. */
  function reached(state: State, at: 0 | 1): Instance | null {
    const entry = entryOf(state.machines[at]);
    if (!isOn(state, at) || entry === undefined || admitLogin(entry) !== "pass" || entry.at === null) return null;
    if ("socket" in entry.at) return running(state, at, entry.epoch);
    const other = at === 0 ? 1 : 0;
    const theirs = entryOf(state.machines[other]);
    if (!isOn(state, other) || theirs === undefined) return null;
    const dial = { epoch: entry.epoch, purpose: "session" } as const;
    return admitDial(theirs, dial, nodeIds[at]) === "pass" ? running(state, other, theirs.epoch) : null;
  }
  const running = ({ instances }: State, at: 0 | 1, epoch: string): Instance | null =>
    instances.find((each) => each.at === at && String(each.epoch) === epoch && each.isRunning) ?? null;

  const say = (state: State, word: Word): State => ({
    ...{ ...state, word },
    history: [...new Set([...state.history, JSON.stringify(word)])].sort(),
  });
  const setMachine = (state: State, at: 0 | 1, change: Partial<Machine>): State => {
    const [first, second] = state.machines;
    return { ...state, machines: at === 0 ? [{ ...first, ...change }, second] : [first, { ...second, ...change }] };
  };
  const setInstance = (state: State, which: Instance, change: Partial<Instance> | null): State => ({
    ...state,
    instances: state.instances.flatMap((each) =>
      each !== which ? [each] : change === null ? [] : [{ ...each, ...change }],
    ),
  });

  function* control(state: State): Generator<readonly [string, State]> {
    const { word, instances } = state;
    if (word.at !== null) {
      const going = instances.map((each) => (each.isOver ? each : { ...each, isWanted: false }));
      yield ["its server is to end", say({ ...state, instances: going }, { ...word, at: null, isHeld: true })];
    }
    const isSilent = mutant === "publishes the next epoch when the old server is silent" && state.first === "silent";
    const isFree = instances.every(({ isOver, at }) => isOver || (isSilent && at === 0));
    if (!isFree || word.epoch === epochsMax) return;
    for (const at of machinesAt) {
      if (!isHeard(state, at)) continue;
      const fresh: Instance = {
        ...{ epoch: word.epoch + 1, at, isWanted: true, isRunning: false, isGranted: true, isOver: false },
      };
      yield [
        `another server on ${at}`,
        say({ ...state, instances: [...instances, fresh] }, { epoch: fresh.epoch, at, isHeld: false }),
      ];
    }
  }

  function* agents(state: State): Generator<readonly [string, State]> {
    for (const at of machinesAt) {
      if (!isOn(state, at)) continue;
      const machine = state.machines[at];
      if (isHeard(state, at))
        for (const text of state.history)
          for (const saves of [2, 1]) {
            const journal = remembered(journals, [machine.journal, text, saves], () =>
              taken(machine, JSON.parse(text), saves),
            );
            yield [`${at} is told ${text}${saves === 1 ? ", and dies" : ""}`, setMachine(state, at, { journal })];
          }
      if (mutant === "forgets the epochs on the disk")
        yield [
          `the agent of ${at} begins anew`,
          setMachine(state, at, { journal: { ...machine.journal, "database-epochs": "{}" } }),
        ];
      const here = state.instances.flatMap((each) => (each.at === at && each.isRunning ? [each.epoch] : []));
      const text = remembered(texts, [machine.journal, at, here], () => written(machine, at, here));
      const highest = Math.max(machine.highest, Number(indexOf(text).byId.get(branchId)?.epoch ?? 0));
      yield [`the proxy of ${at} has it`, setMachine(state, at, { inForce: text, highest })];
    }
  }

  function* containers(state: State): Generator<readonly [string, State]> {
    for (const each of state.instances) {
      const { epoch, at, isWanted, isRunning, isOver } = each;
      if (!isOn(state, at)) continue;
      const isGranted = each.isGranted || mutant === "starts after a reboot without a grant";
      const step = nextStep({
        ...{
          kind: "database",
          desired: Desired.RUNNING,
          observed: Observed.RUNNING,
          memoryMb: 256,
          healthTimeoutMs: 1,
        },
        ...{ memory: { ...freshMemory, wasHealthy: true, countedExit: ended, crashes: 1 }, drainMs: 0, isOpen: false },
        ...{ limitsDue: false, isGranted, imageReady: true, nowMs: Date.parse(ended) + 3_600_000 },
        container: {
          ...{ id: "c", state: isRunning ? "running" : "exited", exitCode: 0, oomKilled: false, oomScope: "unknown" },
          ...{ startedAt: ended, finishedAt: isRunning ? null : ended },
        },
      });
      if (!isRunning && step.do === "start-database")
        yield [`${epoch} starts`, setInstance(state, each, { isRunning: true })];
      if (!isHeard(state, at)) continue;
      // Control names what it means, and has the rest removed; it waits until the node says that it is over.
      if (isWanted && !isOver && !each.isGranted)
        yield [`${epoch} is named`, setInstance(state, each, { isGranted: true })];
      if (!isWanted) yield [`${epoch} ends, and its node says so`, setInstance(state, each, null)];
    }
  }

  function* machine(state: State): Generator<readonly [string, State]> {
    const { first } = state;
    if (first === "heard") yield ["the first machine goes silent", { ...state, first: "silent" }];
    if (first === "silent") {
      yield ["it is heard again", { ...state, first: "heard" }];
      const instances = state.instances.map((each) =>
        each.at === 0 ? { ...each, isRunning: false, isGranted: false, isWanted: false, isOver: true } : each,
      );
      const lost: State = { ...state, instances, first: "lost" };
      yield ["it is declared lost", say(lost, { ...state.word, at: state.word.at === 0 ? null : state.word.at })];
    }
    if (first === "lost") yield ["it comes back", { ...state, first: "back" }];
  }

  const word: Word = { epoch: 1, at: 0, isHeld: false };
  const knowing = (at: 0 | 1): Machine => {
    const nothing: Machine = { journal: {}, inForce: "", highest: 1 };
    const journal = taken(nothing, word, 2);
    return { ...nothing, journal, inForce: written({ ...nothing, journal }, at, [1]) };
  };
  const names = new Map<string, number>();
  const short = (text: string): number => {
    const name = names.get(text) ?? names.size;
    names.set(text, name);
    return name;
  };
  return {
    initial: {
      ...{ word, history: [JSON.stringify(word)], first: "heard", machines: [knowing(0), knowing(1)] },
      instances: [{ epoch: 1, at: 0, isWanted: true, isRunning: true, isGranted: true, isOver: false }],
    },
    *next(state) {
      yield* control(state);
      yield* agents(state);
      yield* containers(state);
      yield* machine(state);
    },
    key: ({ word, history, instances, machines, first }) =>
      JSON.stringify([
        ...[word.epoch, word.at, word.isHeld, history.map(short), instances.map((each) => Object.values(each)), first],
        machines.map(({ journal, inForce, highest }) => [
          ...Object.entries(journal)
            .sort()
            .map(([name, value]) => short(`${name} ${value}`)),
          ...[short(inForce), highest],
        ]),
      ]),
    problem(state) {
      const epochs = new Set(machinesAt.flatMap((at) => reached(state, at)?.epoch ?? []));
      if (epochs.size > 1) return "two epochs that are let in";
      const isBack = machinesAt.some((at) => {
        const entry = entryOf(state.machines[at]);
        return entry !== undefined && Number(entry.epoch) < state.machines[at].highest && admitLogin(entry) === "pass";
      });
      return isBack ? "a machine that knew the later server lets in to the one before" : null;
    },
  };
}

/** When whatever has ended did. */
const ended = "2030-01-01T12:00:00Z";
