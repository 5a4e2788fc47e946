import type { MessageInitShape } from "@bufbuild/protobuf";
import type { SessionResponseSchema } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import type { DaySalt } from "./salts.ts";

/** They are told a week ahead, so nobody is in a hurry. */
const everyMs = 600_000;
/** There are none yet: the leader makes them. */
const againMs = 2_000;

/**
 * Tells one router the salts, and again whenever they are others. Resolves when the signal aborts.
 *
 * @param options.load null: nothing is to be counted, which is told once
 */
export async function sendSalts(options: {
  clock: Clock;
  random: Random;
  load: (() => Promise<DaySalt[]>) | null;
  send: (message: MessageInitShape<typeof SessionResponseSchema>) => void;
  log: Log;
  signal: AbortSignal;
}): Promise<void> {
  const { clock, random, load, send, log, signal } = options;
  if (load === null) {
    send({ message: { case: "salts", value: { salts: [] } } });
    return;
  }
  let told = "";
  while (!signal.aborted) {
    const salts = await persist(load, { clock, random, signal, log, what: "load the salts of analytics" });
    const days = (salts ?? []).map(({ day }) => day).join(" ");
    if (salts !== null && days !== "" && days !== told) {
      send({ message: { case: "salts", value: { salts } } });
      told = days;
    }
    await pause(clock, days === "" ? againMs : everyMs, signal);
  }
}
