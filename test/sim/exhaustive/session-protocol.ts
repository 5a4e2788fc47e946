import type { Model } from "./explore.ts";

/**
 * Streams of one daemon that follow one another, each with replicas of control of its own: who may write. A claim reads
 * the key, writes it if it is what was read, and reads back when the outcome is not known; every later write is guarded.
 */
interface Stream {
  step: "new" | "read" | "unsure" | "held" | "over";
  /** The revision of the key that it found, and the one under which it writes. */
  before: number;
  epoch: number;
}

interface State {
  revision: number;
  /** The key: who has it, and since which revision; 0: nobody. */
  holder: number;
  modRevision: number;
  streams: readonly Stream[];
  /** Writes that are on their way, as "stream@epoch". */
  underWay: readonly string[];
  writes: number;
  wrong: string;
}

export type SessionMutant = "no guard" | "claim without a guard" | "release without a guard";

const limits = { writes: 3, revision: 9 } as const;

export function sessionProtocol(mutant: SessionMutant | null, count = 3): Model<State> {
  const set = (state: State, at: number, change: Partial<Stream>): readonly Stream[] =>
    state.streams.map((stream, index) => (index === at ? { ...stream, ...change } : stream));
  return {
    initial: {
      ...{ revision: 1, holder: 0, modRevision: 0, underWay: [], writes: 0, wrong: "" },
      streams: Array.from({ length: count }, (): Stream => ({ step: "new", before: 0, epoch: 0 })),
    },
    *next(state) {
      if (state.revision >= limits.revision) return;
      for (const [at, stream] of state.streams.entries()) {
        const name = at + 1;
        // A daemon opens the next stream after the last one; an earlier one may still be at work.
        const isTurn = at === 0 || state.streams[at - 1]?.step !== "new";
        if (stream.step === "new" && isTurn) {
          yield [`${name} reads`, { ...state, streams: set(state, at, { step: "read", before: state.modRevision }) }];
        }
        if (stream.step === "read") {
          const isFree = stream.before === state.modRevision || mutant === "claim without a guard";
          if (!isFree) {
            yield [`${name} is late`, { ...state, streams: set(state, at, { step: "new" }) }];
          } else {
            const revision = state.revision + 1;
            const overtakes = state.streams.some((other, index) => index > at && other.step === "held");
            // The newest claim wins, and a claim that was overtaken must not take the key from a newer stream.
            const wrong =
              overtakes && stream.before !== state.modRevision ? `${name} takes the key from a newer stream` : "";
            const taken = { ...state, revision, holder: name, modRevision: revision, wrong };
            yield [`${name} claims`, { ...taken, streams: set(state, at, { step: "held", epoch: revision }) }];
            yield [`${name} claims unheard`, { ...taken, streams: set(state, at, { step: "unsure" }) }];
          }
        }
        if (stream.step === "unsure") {
          const isMine = state.holder === name;
          yield [
            `${name} reads back`,
            {
              ...state,
              streams: set(state, at, isMine ? { step: "held", epoch: state.modRevision } : { step: "new" }),
            },
          ];
        }
        if (stream.step === "held" && state.writes < limits.writes) {
          const message = `${name}@${stream.epoch}`;
          if (!state.underWay.includes(message)) {
            yield [
              `${name} sends a write`,
              { ...state, writes: state.writes + 1, underWay: [...state.underWay, message].sort() },
            ];
          }
        }
        if (stream.step === "held") {
          const isMine = state.modRevision === stream.epoch || mutant === "release without a guard";
          const streams = set(state, at, { step: "over" });
          const isOthers = isMine && state.holder !== 0 && state.holder !== name;
          const wrong = isOthers ? `${name} deletes the key of ${state.holder}` : "";
          yield [
            `${name} lets go`,
            isMine
              ? { ...state, streams, wrong, revision: state.revision + 1, holder: 0, modRevision: 0 }
              : { ...state, streams },
          ];
        }
      }
      for (const message of state.underWay) {
        const [name, epoch] = message.split("@").map(Number);
        const underWay = state.underWay.filter((other) => other !== message);
        const isAccepted = state.modRevision === epoch || mutant === "no guard";
        const isStale = isAccepted && state.holder !== name;
        const wrong = isStale
          ? `a write of ${name} is accepted while ${state.holder === 0 ? "nobody" : state.holder} has the key`
          : "";
        yield [
          `write of ${name} arrives`,
          { ...state, underWay, wrong, revision: isAccepted ? state.revision + 1 : state.revision },
        ];
      }
    },
    key: (state) => JSON.stringify(state),
    problem: ({ wrong }) => (wrong === "" ? null : wrong),
  };
}
