import type { Duplex } from "node:stream";
import type { DatabaseEngine } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { judgeAnswer, openingOf } from "./greeting.ts";
import { connectServer } from "./socket.ts";

/** Whether the server behind a Unix socket takes sessions, found out as any client would: by how it answers the first bytes. */
export async function probeDatabase(
  { clock, engine, socketPath }: { clock: Clock; engine: DatabaseEngine; socketPath: string },
  timeoutMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  const within = AbortSignal.any([signal, clock.abortAfter(timeoutMs)]);
  try {
    const server = await connectServer(socketPath, within);
    return await hears(server, engine, within);
  } catch {
    return false;
  }
}

function hears(server: Duplex, engine: DatabaseEngine, signal: AbortSignal): Promise<boolean> {
  let heard = Buffer.alloc(0);
  return new Promise((resolve) => {
    const settle = (serves: boolean): void => {
      signal.removeEventListener("abort", giveUp);
      server.destroy();
      resolve(serves);
    };
    const giveUp = (): void => settle(false);
    signal.addEventListener("abort", giveUp, { once: true });
    server.on("error", giveUp);
    server.on("close", giveUp);
    server.on("data", (chunk: Buffer) => {
      heard = Buffer.concat([heard, chunk]);
      const serves = judgeAnswer(engine, heard);
      if (serves !== null) settle(serves);
    });
    const opening = openingOf(engine);
    if (opening.length > 0) server.write(opening);
  });
}
