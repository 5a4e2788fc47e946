import type { Drain } from "@svc/proto/edge";
import { type Clock, every } from "@svc/runtime/clock";
import { z } from "zod";
import type { Log } from "../log.ts";
import { isClosed, nextPhase, noPlace, type Phase, type Place, phaseAtWord } from "./rules.ts";

/**
 * Whether visitors are to come to this edge, and how far it is with sending them away. What control said last holds while
 * it is away, and over restarts.
 */
export interface Rotation extends AsyncDisposable {
  place(): Place;
  phase(): Phase;
  /** Whether Caddy is to ask visitors to end their connections. */
  isClosing(): boolean;
  /** Control said this to the identity `edgeId`. In force at once, and on disk when it returns. */
  learn(edgeId: string, drain: Pick<Drain, "generation" | "leave" | "inRotation">): Promise<void>;
  /** Nobody waits for this edge any more: it was fenced. */
  forget(): Promise<void>;
  /** Caddy has a configuration that asks visitors to end their connections, or one that does not. */
  configured(closing: boolean): void;
}

/**
 * A little more than Caddy gives what is open when it gets another configuration. A stream that is still open then goes on
 * for as long as it likes, or until somebody stops Caddy.
 */
const closeMs = 11_000;
const lookEveryMs = 250;

const stored = z.object({
  ...{ format: z.literal(1), edgeId: z.string(), generation: z.number(), leave: z.boolean(), inRotation: z.boolean() },
  phase: z.enum(["serving", "leaving", "closing", "drained"]),
  /** When the phase began, ms since 1970. */
  since: z.number(),
});

/** Where it is kept. */
export interface RotationFile {
  /** Null: nothing is. */
  read(): Promise<string | null>;
  /** All of it, and on the disk when it returns. */
  replace(text: string): Promise<void>;
}

/**
 * @param options.waitMs how long health says that it leaves before anything is closed
 * @param options.onChange called after the phase or the place has changed
 */
export async function openRotation(options: {
  file: RotationFile;
  waitMs: number;
  onChange(): void;
  clock: Clock;
  log: Log;
}): Promise<Rotation> {
  const { file, waitMs, onChange, clock, log } = options;
  const kept = await load(file, log);
  let place: Place = noPlace;
  let phase: Phase = "serving";
  /** By the steady clock; null of a `closing` that Caddy has not heard of. */
  let sinceMs: number | null = clock.steadyMs();
  let closingInForce = false;
  if (kept !== null) {
    const { format: _, phase: keptPhase, since, ...keptPlace } = kept;
    place = keptPlace;
    phase = keptPhase;
    // A clock that was set in between makes the wait longer or shorter, and never longer than a whole one.
    const elapsedMs = Math.min(Math.max(clock.now().getTime() - since, 0), waitMs);
    sinceMs = phase === "closing" ? null : clock.steadyMs() - elapsedMs;
  }
  let saving: Promise<void> = Promise.resolve();

  function save(): Promise<void> {
    const elapsedMs = sinceMs === null ? 0 : clock.steadyMs() - sinceMs;
    const value = { format: 1, ...place, phase, since: clock.now().getTime() - elapsedMs } as const;
    const attempt = () => file.replace(JSON.stringify(value satisfies z.infer<typeof stored>));
    saving = saving
      .then(attempt)
      .catch((err: unknown) => log.error({ err }, "whether visitors are to come could not be kept"));
    return saving;
  }

  /** Goes on as far as it can now; whether that was a step. */
  function step(): boolean {
    const before = phase;
    for (;;) {
      const elapsedMs = sinceMs === null ? null : clock.steadyMs() - sinceMs;
      const next = nextPhase({ phase, elapsedMs }, place, { waitMs, closeMs });
      if (next === phase) break;
      log.info({ from: phase, to: next, generation: place.generation }, "visitors of this edge");
      phase = next;
      sinceMs = phase === "closing" && !closingInForce ? null : clock.steadyMs();
    }
    return phase !== before;
  }

  async function take(next: Place): Promise<void> {
    phase = phaseAtWord({ place, phase }, next);
    place = next;
    step();
    onChange();
    await save();
  }

  const looking = every(clock, lookEveryMs, () => {
    if (!step()) return;
    onChange();
    void save();
  });

  return {
    place: () => place,
    phase: () => phase,
    isClosing: () => isClosed(phase),
    learn: (edgeId, { generation, leave, inRotation }) =>
      take({ edgeId, generation: Number(generation), leave, inRotation }),
    forget: () => take(noPlace),
    configured(closing) {
      closingInForce = closing;
      if (phase === "closing" && closing && sinceMs === null) sinceMs = clock.steadyMs();
    },
    async [Symbol.asyncDispose]() {
      looking[Symbol.dispose]();
      await saving;
    },
  };
}

async function load(file: RotationFile, log: Log): Promise<z.infer<typeof stored> | null> {
  try {
    const text = await file.read();
    if (text !== null) return stored.parse(JSON.parse(text));
  } catch (err) {
    log.error({ err }, "whether visitors are to come is not known until control says it: the file is damaged");
  }
  return null;
}
