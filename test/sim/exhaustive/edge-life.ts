import { nodeChange } from "@svc/control/fleet/nodes/actions/rules";
import { edgeDrainsOver } from "@svc/control/fleet/nodes/drain/edge-steps";
import { type EdgePlace, mayEnter, placeOf } from "@svc/control/fleet/nodes/place";
import { type NodeAction, nodeActionProblem } from "@svc/proto";
import {
  isClosed,
  lacking,
  nextPhase,
  noPlace,
  type Phase,
  type Place,
  phaseAtWord,
  unreadyReason,
} from "@svc/router/rotation/rules";
import type { Model } from "./explore.ts";

/**
 * One of two edges, from its joining on: control counts it in and tells it so, operators cordon, drain and take it back, the leader ends
 * drains, and it sends its visitors away in order. Streams break, its router is killed between any two steps, and its lease runs out:
 * real `placeOf`, `mayEnter`, `edgeDrainsOver`, `nodeChange` and `nodeActionProblem` of control, and real `lacking`, `phaseAtWord`, `nextPhase`
 * and `unreadyReason` of the router. What an edge does with a word is in force at once, on disk later, and told only then.
 */
interface State {
  row: Row;
  /** What the leader knows that the edge said last; null: it never says anything. */
  heard: Said | null;
  isSilent: boolean;
  stream: Stream | null;
  edge: Edge;
  /** What is on the edge's disk. */
  disk: Kept;
  /** What must not be and was done in one step; null: nothing. */
  wrong: string | null;
  acts: number;
  breaks: number;
}

interface Row {
  drain: "none" | "draining" | "drained" | "deadline";
  drain_generation: number;
  schedulable: boolean;
  entering: boolean;
}

interface Said {
  generation: number;
  phase: Phase;
  lacks: string | null;
}

/** Of both sides, and what is on its way; all of it goes with the stream. */
interface Stream {
  told: EdgePlace | null;
  lacks: string | null;
  words: readonly EdgePlace[];
  said: readonly Said[];
  /** What the edge has been told and has on disk. */
  word: EdgePlace | null;
  saidLast: Said | null;
}

interface Kept {
  place: Place;
  phase: Phase;
  /** The wait of its phase is over. */
  isOver: boolean;
}

interface Edge extends Kept {
  isUp: boolean;
  isWhole: boolean;
  /** In order; a word with what is to be written because of it. */
  writes: readonly (Kept & { word: EdgePlace | null })[];
  /** The drains in which its balancers had their time, and those in which its connections were closed. */
  waitedIn: readonly number[];
  drainedIn: readonly number[];
}

export type EdgeMutant =
  | "tells before it counts in"
  | "counts in whoever connects"
  | "is well without a word"
  | "keeps no word"
  | "says what is not on disk yet"
  | "closes at once"
  | "goes on with the drain before"
  | "ends a drain by what was said of another"
  | "takes a new stream for an edge that never says anything";

const most = { acts: 3, breaks: 1, inFlight: 1, writes: 2 } as const;
const edgeId = "e1";
const now = new Date("2030-01-10T00:00:00Z");
const waits = { waitMs: 1, closeMs: 1 };
const untold = "it has not said yet";

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const including = (all: readonly number[], one: number): readonly number[] =>
  all.includes(one) ? all : [...all, one].sort();

export function edgeLife(mutant: EdgeMutant | null): Model<State> {
  const isWell = ({ isUp, isWhole, phase, place }: Edge): boolean =>
    isUp &&
    unreadyReason({
      ...{ caddyConfigured: true, hasTable: isWhole, certificateProblem: null, clockBehindMs: 0 },
      ...{ phase, inRotation: place.inRotation || mutant === "is well without a word" },
    }) === "";
  /** By the rule of those who wait for edges. */
  const isCounted = ({ schedulable, entering }: Row): boolean => schedulable && !entering;

  /** Every phase that follows at once, and what it is a fault to have come to. */
  function stepped(edge: Edge): { edge: Edge; wrong: string | null } {
    let [{ phase, isOver, drainedIn }, wrong]: [Edge, string | null] = [edge, null];
    for (;;) {
      const waiting = mutant === "closes at once" ? { ...waits, waitMs: 0 } : waits;
      const next = nextPhase({ phase, elapsedMs: isOver ? 1 : 0 }, edge.place, waiting);
      if (next === phase) break;
      [phase, isOver] = [next, false];
      if (isClosed(phase) && !edge.waitedIn.includes(edge.place.generation))
        wrong = "connections that are closed before anybody could notice that it leaves";
      if (phase === "drained") drainedIn = including(drainedIn, edge.place.generation);
    }
    return { edge: { ...edge, phase, isOver, drainedIn }, wrong };
  }
  const kept = ({ place, phase, isOver }: Kept): Kept => ({ place, phase, isOver });
  const withEdge = (state: State, edge: Edge, word: EdgePlace | null): State => {
    const { edge: after, wrong } = stepped(edge);
    const writes = [...after.writes, { ...kept(after), word }];
    return { ...state, edge: { ...after, writes }, wrong: state.wrong ?? wrong };
  };

  function* control(state: State): Generator<readonly [string, State]> {
    const { row, stream, heard } = state;
    if (stream !== null) {
      const said = stream.lacks === untold ? null : { lacks: stream.lacks };
      const mayComeIn = mutant === "counts in whoever connects" ? row.entering : mayEnter(row, said);
      const place = placeOf(mayComeIn && mutant === "tells before it counts in" ? { ...row, entering: false } : row);
      if (mayComeIn) {
        const wrong = state.edge.isWhole ? null : "an edge that is counted in and not whole";
        yield ["is counted in", { ...state, row: { ...row, entering: false }, wrong }];
      }
      // It counts in first, in the same round.
      if ((!mayComeIn || mutant === "tells before it counts in") && !same(place, stream.told))
        if (stream.words.length < most.inFlight)
          yield ["is told", { ...state, stream: { ...stream, told: place, words: [...stream.words, place] } }];
      const [first, ...rest] = stream.said;
      if (first !== undefined)
        yield ["control hears", { ...state, heard: first, stream: { ...stream, said: rest, lacks: first.lacks } }];
    }
    if (row.drain !== "draining") return;
    const generation = row.drain_generation;
    const known = mutant === "ends a drain by what was said of another" && heard ? { ...heard, generation } : heard;
    const over = edgeDrainsOver(
      [{ id: edgeId, generation, deadline: null, isSilent: state.isSilent, state: known }],
      now,
    );
    if (over.length === 0) return;
    const isFault = !state.isSilent && !state.edge.drainedIn.includes(generation);
    yield [
      "its drain is over",
      {
        ...{ ...state, row: { ...row, drain: "drained" } },
        wrong: isFault ? "a drain that is over with connections that nobody closed" : state.wrong,
      },
    ];
  }

  function* machine(state: State): Generator<readonly [string, State]> {
    const { edge, stream } = state;
    if (!edge.isWhole) yield ["is whole", { ...state, edge: { ...edge, isWhole: true } }];
    const [write, ...later] = edge.writes;
    if (write !== undefined) {
      const { word, ...value } = write;
      const disk = mutant === "keeps no word" ? state.disk : value;
      const isHeard = stream !== null && word !== null;
      const after = { ...state, disk, edge: { ...edge, writes: later } };
      yield ["writes", isHeard ? { ...after, stream: { ...stream, word } } : after];
    }
    if (!edge.isUp) return;
    if ((edge.phase === "leaving" || edge.phase === "closing") && !edge.isOver) {
      const { generation } = edge.place;
      const waitedIn = edge.phase === "leaving" ? including(edge.waitedIn, generation) : edge.waitedIn;
      yield ["its time passes", withEdge(state, { ...edge, isOver: true, waitedIn }, null)];
    }
    if (stream === null) return;
    const [word, ...words] = stream.words;
    if (word !== undefined && edge.writes.length < most.writes) {
      const place: Place = { edgeId, ...word };
      const phase = mutant === "goes on with the drain before" ? edge.phase : phaseAtWord(edge, place);
      const isOver = phase === edge.phase && edge.isOver;
      const heard = mutant === "says what is not on disk yet" ? word : stream.word;
      yield [
        "hears",
        withEdge({ ...state, stream: { ...stream, words, word: heard } }, { ...edge, place, phase, isOver }, word),
      ];
    }
    if (stream.word === null) return;
    const lacks = lacking({
      ...{ behind: edge.isWhole ? 0 : null, coming: 0, tableForMs: 0, gates: 0, untold: [], certificateProblem: null },
    });
    const says: Said = { generation: stream.word.generation, phase: edge.phase, lacks: lacks === "" ? null : lacks };
    if (!same(says, stream.saidLast) && stream.said.length < most.inFlight)
      yield ["says how it is", { ...state, stream: { ...stream, saidLast: says, said: [...stream.said, says] } }];
  }

  function* connection(state: State): Generator<readonly [string, State]> {
    const { edge } = state;
    if (!edge.isUp) return yield ["its router is started", { ...state, edge: { ...edge, ...state.disk, isUp: true } }];
    if (state.stream !== null) return;
    const first: Said = { generation: 0, phase: "serving", lacks: untold };
    const heard = mutant === "takes a new stream for an edge that never says anything" ? null : first;
    const stream = { told: null, lacks: untold, words: [], said: [], word: null, saidLast: null };
    yield ["connects", { ...state, stream, heard, isSilent: false }];
  }

  function* faults(state: State): Generator<readonly [string, State]> {
    if (state.stream === null && !state.isSilent) yield ["its lease is over", { ...state, isSilent: true }];
    if (state.breaks >= most.breaks) return;
    const broken = { ...state, stream: null, breaks: state.breaks + 1 };
    if (state.stream !== null) yield ["its stream breaks", broken];
    if (state.edge.isUp)
      yield ["its router is killed", { ...broken, edge: { ...state.edge, isUp: false, writes: [] } }];
  }

  function* operators(state: State): Generator<readonly [string, State]> {
    if (state.acts >= most.acts) return;
    const { drain, drain_generation, schedulable } = state.row;
    const link = state.stream !== null ? "connected" : state.isSilent ? "unreachable" : "unknown";
    for (const action of ["cordon", "uncordon", "drain", "cancel-drain"] satisfies NodeAction[]) {
      const axes = { lifecycle: "active", schedulable, drain, link } as const;
      const counts = { heldCount: 0, databaseCount: 0, hasOtherEdge: true, isBehind: state.stream === null };
      if (nodeActionProblem(action, { role: "edge", axes, ...counts }) !== null) continue;
      const takesItsTime = !state.isSilent && state.heard !== null;
      const node = { role: "edge", incarnation: 1, drain_generation, reason: null, takesItsTime } as const;
      const { set } = nodeChange(action, node, {}, now);
      const row: Row = {
        ...{ ...state.row, drain: set.drain ?? drain, schedulable: set.schedulable ?? schedulable },
        drain_generation: set.drain_generation ?? drain_generation,
      };
      yield [action, { ...state, row, acts: state.acts + 1 }];
    }
  }

  /** Whatever happens by itself when nothing else goes wrong. */
  function* byItself(state: State): Generator<readonly [string, State]> {
    yield* control(state);
    yield* machine(state);
    yield* connection(state);
  }

  return {
    initial: {
      row: { drain: "none", drain_generation: 0, schedulable: true, entering: true },
      ...{ heard: null, isSilent: false, stream: null },
      edge: {
        ...{ place: noPlace, phase: "serving", isOver: false, isUp: true, isWhole: false },
        ...{ writes: [], waitedIn: [], drainedIn: [] },
      },
      disk: { place: noPlace, phase: "serving", isOver: false },
      ...{ wrong: null, acts: 0, breaks: 0 },
    },
    *next(state) {
      yield* byItself(state);
      yield* faults(state);
      yield* operators(state);
    },
    key: (state) => JSON.stringify(state),
    problem(state) {
      const { row, stream, edge, heard, disk } = state;
      if (state.wrong !== null) return state.wrong;
      if (isWell(edge)) {
        if (row.entering) return "visitors at an edge for which no deployment has ever waited";
        if (stream !== null && same(stream.word, placeOf(row)) && edge.writes.length === 0 && !isCounted(row))
          return "visitors at an edge that knows that nobody waits for it";
        if (row.drain !== "none" && heard?.generation === row.drain_generation && heard.phase !== "serving")
          return "visitors at an edge that has said that it leaves";
      }
      const isStill = edge.isUp && edge.isWhole && edge.writes.length === 0;
      if (isStill && stream === null && heard !== null && disk.place.inRotation !== isWell(edge))
        return "an edge that forgets what it was told";
      if (!byItself(state).next().done) return null;
      if (row.entering) return "an edge that never comes in";
      if (row.drain === "draining") return "a drain without an end";
      return isWell(edge) === placeOf(row).inRotation ? null : "an edge that stays otherwise than its row says";
    },
  };
}
