import type { MessageInitShape } from "@bufbuild/protobuf";
import { clip, limits, stripControl } from "@svc/proto";
import { type EdgeState, EdgeState_Phase, type SessionResponseSchema } from "@svc/proto/edge";
import type { EdgePhase } from "@svc/proto/kinds";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { EdgeStateValue } from "../cluster/keys.ts";
import { mayEnter, placeOf } from "../nodes/place.ts";
import { countOf } from "../sessions/count.ts";
import { persist } from "../sessions/session.ts";
import type { EdgeRows } from "./edge-rows.ts";

/** Tells one router whether visitors are to come to it, and counts its edge in once that is whole. */
export interface DrainSender {
  wake(): void;
  answered(state: EdgeState): void;
  /** Resolves when the signal aborts. */
  run(): Promise<void>;
}

/** Whoever acts on an edge wakes the one that holds its stream; this is for a notification that was lost. */
const everyMs = 5_000;

/** @param options.onState hears of whatever the router says of itself */
export function createDrainSender(options: {
  clock: Clock;
  random: Random;
  rows: Pick<EdgeRows, "findPlace" | "enterRotation">;
  edgeId: string;
  /** Whether it is told certificates, without which it is not whole. */
  tellsCertificates: boolean;
  send(message: MessageInitShape<typeof SessionResponseSchema>): void;
  onState(state: EdgeStateValue): void;
  log: Log;
  signal: AbortSignal;
}): DrainSender {
  const { clock, random, rows, edgeId, tellsCertificates, send, onState, log, signal } = options;
  const wake = createWake(clock);
  let told: string | null = null;
  let state: EdgeStateValue | null = null;

  async function round(): Promise<void> {
    let row = await rows.findPlace(edgeId);
    if (row !== undefined && mayEnter(row, state)) {
      // Deployments wait for it before it hears of that: from then on it may let visitors come.
      const isIn = await rows.enterRotation(edgeId, clock.now());
      if (isIn) log.info({ edgeId }, "an edge is whole, and in rotation");
      row = await rows.findPlace(edgeId);
    }
    // It is gone: its stream ends.
    if (row === undefined) return;
    const place = placeOf(row);
    const text = JSON.stringify(place);
    if (text === told) return;
    told = text;
    const { generation, leave, inRotation } = place;
    send({
      message: { case: "drain", value: { generation: BigInt(generation), leave, inRotation, tellsCertificates } },
    });
    log.info({ edgeId, ...place }, "an edge is told whether visitors are to come");
  }

  return {
    wake: wake.signal,
    answered(said) {
      state = stateOf(said);
      onState(state);
      wake.signal();
    },
    async run() {
      while (!signal.aborted) {
        await persist(round, { clock, random, signal, log, what: "tell an edge whether visitors are to come" });
        await wake.wait(everyMs, signal);
      }
    },
  };
}

/** A phase of a later version is nearest to serving: no drain ends by what is not understood. */
const phases: Partial<Record<EdgeState_Phase, EdgePhase>> = {
  [EdgeState_Phase.LEAVING]: "leaving",
  [EdgeState_Phase.CLOSING]: "closing",
  [EdgeState_Phase.DRAINED]: "drained",
};

const textOrNull = (text: string): string | null =>
  text === "" ? null : clip(stripControl(text), limits.errorTextBytesMax);

const stateOf = ({ generation, phase, lacks, unready }: EdgeState): EdgeStateValue => ({
  generation: countOf(generation),
  phase: phases[phase] ?? "serving",
  lacks: textOrNull(lacks),
  unready: textOrNull(unready),
});
