import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type SessionResponseSchema, VolumesToRemoveSchema } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import type { LoadVolumesToRemove } from "./load.ts";

/**
 * Tells one agent which volumes of its node are of no use any more, until the signal aborts: all of them, whenever they are
 * others. An agent begins each session with none. What was told stays true for as long as it is not taken back: a volume whose
 * time is over is never brought back, nor restored from.
 */
export async function sendVolumesToRemove(options: {
  clock: Clock;
  random: Random;
  nodeId: string;
  /** How often it is looked. */
  everyMs: number;
  load: LoadVolumesToRemove;
  send(message: MessageInitShape<typeof SessionResponseSchema>, sizeBytes: number): void;
  log: Log;
  signal: AbortSignal;
}): Promise<void> {
  const { clock, random, nodeId, everyMs, load, send, log, signal } = options;
  const what = "load the volumes that a node is to remove";
  let told = "";
  while (!signal.aborted) {
    const names = await persist(() => load(nodeId), { clock, random, signal, log, what });
    if (names === null) return;
    const text = names.join(" ");
    if (text !== told) {
      const value = create(VolumesToRemoveSchema, { names });
      send({ message: { case: "volumesToRemove", value } }, toBinary(VolumesToRemoveSchema, value).byteLength);
      told = text;
      log.info({ nodeId, volumes: names.length }, "volumes that are to go were told");
    }
    await pause(clock, everyMs, signal);
  }
}
