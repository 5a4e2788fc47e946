import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Drain, EdgeState_Phase, type EdgeStateSchema } from "@svc/proto/edge";
import { type Clock, every } from "@svc/runtime/clock";
import type { Applier } from "../apply.ts";
import type { Certificates } from "../certificates/certificates.ts";
import type { Gates } from "../password/gates.ts";
import type { Rotation } from "./rotation.ts";
import { lacking, type Phase, type Possessions, unreadyReason } from "./rules.ts";

type State = MessageInitShape<typeof EdgeStateSchema>;
/** What control tells at the beginning of each session. */
export type ToldThing = Possessions["untold"][number];

/** How this edge stands: whether visitors may be sent to it, and what it tells control of that. */
export interface Standing extends Disposable {
  /** Why no visitor is to be sent here; empty: send them. */
  unready(): string;
  /** A session began, under this identity. Nothing is said in it before control has told something of the place. */
  open(edgeId: string, send: (state: State) => void): void;
  closed(): void;
  learn(drain: Drain): void;
  /** Control told all of it, and it is in force. */
  heard(thing: ToldThing): void;
  /** It has certainly been that late, ms since 1970. */
  proveTime(ms: number): void;
}

const phases: Readonly<Record<Phase, EdgeState_Phase>> = {
  serving: EdgeState_Phase.SERVING,
  leaving: EdgeState_Phase.LEAVING,
  closing: EdgeState_Phase.CLOSING,
  drained: EdgeState_Phase.DRAINED,
};

const lookEveryMs = 500;

export function createStanding(options: {
  rotation: Rotation;
  applier: Pick<Applier, "state">;
  gates: Pick<Gates, "missing">;
  certificates: Pick<Certificates, "problem">;
  /** Whether it has a use for salts. */
  wantsSalts: boolean;
  /** Whether Caddy answers, with its configuration. */
  isCaddyConfigured(): boolean;
  clock: Clock;
}): Standing {
  const { rotation, applier, gates, certificates, clock } = options;
  let session: { edgeId: string; send: (state: State) => void; drain: Drain | null; told: string } | null = null;
  const heard = new Set<ToldThing>();
  let wholeSinceMs: number | null = null;
  let provenMs = Number.NEGATIVE_INFINITY;

  function possessions({ tellsCertificates }: Pick<Drain, "tellsCertificates">): Possessions {
    const { generation, behindHosts, coming } = applier.state();
    wholeSinceMs = generation === 0n ? null : (wholeSinceMs ?? clock.steadyMs());
    const needed: ToldThing[] = [
      ...(tellsCertificates ? (["certificates", "challenges"] as const) : []),
      ...(options.wantsSalts ? (["salts"] as const) : []),
    ];
    return {
      behind: generation === 0n ? null : behindHosts.length,
      coming,
      tableForMs: wholeSinceMs === null ? 0 : clock.steadyMs() - wholeSinceMs,
      gates: gates.missing(),
      untold: needed.filter((thing) => !heard.has(thing)),
      certificateProblem: certificates.problem(),
    };
  }

  const unready = (): string =>
    unreadyReason({
      caddyConfigured: options.isCaddyConfigured(),
      hasTable: applier.state().digest !== "",
      certificateProblem: certificates.problem(),
      clockBehindMs: provenMs - clock.now().getTime(),
      phase: rotation.phase(),
      inRotation: rotation.place().inRotation,
    });

  /** Says what is not as control heard it last. */
  function look(): void {
    if (session?.drain == null) return;
    const phase = rotation.phase();
    const state = { phase: phases[phase], lacks: lacking(possessions(session.drain)), unready: unready() };
    const { generation } = session.drain;
    const text = JSON.stringify({ ...state, generation: String(generation) });
    if (text === session.told) return;
    session.told = text;
    session.send({ ...state, generation });
  }

  const looking = every(clock, lookEveryMs, look);
  return {
    unready,
    open(edgeId, send) {
      session = { edgeId, send, drain: null, told: "" };
    },
    closed() {
      session = null;
    },
    learn(drain) {
      if (session === null) return;
      const current = session;
      // In force at once. Control hears of it when it is on disk: else it would believe that an edge leaves which, killed now,
      // comes back and sends visitors again.
      void rotation.learn(session.edgeId, drain).then(() => {
        current.drain = drain;
        look();
      });
    },
    heard(thing) {
      heard.add(thing);
    },
    proveTime(ms) {
      provenMs = Math.max(provenMs, ms);
    },
    [Symbol.dispose]: () => looking[Symbol.dispose](),
  };
}
