import type { Socket } from "node:net";
import type { z } from "zod";
import { readBytes } from "../wire/read.ts";
import { frameBytes, headBytes, readFrame } from "./frame.ts";

/** The next frame of another proxy; null when none of the schema comes before `signal` aborts. */
export async function receiveFrame<T>(socket: Socket, schema: z.ZodType<T>, signal: AbortSignal): Promise<T | null> {
  const head = await readBytes(socket, headBytes, signal);
  const bytes = head === null ? null : frameBytes(head);
  const body = bytes === null ? null : await readBytes(socket, bytes, signal);
  return body === null ? null : readFrame(body, schema);
}
