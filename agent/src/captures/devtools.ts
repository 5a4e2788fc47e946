import { z } from "zod";
import type { TalkingProgram } from "../engine/engine.ts";
import { createMessages } from "./messages.ts";

/** A picture is sent as one message, as text that is a third longer. */
const messageLengthMax = 16 * 1024 * 1024;
/** Of all that it says. It tells what the page does, and a page may do much in its seconds. */
const saidMax = 64 * 1024 * 1024;

const message = z.looseObject({
  id: z.number().optional(),
  method: z.string().optional(),
  params: z.unknown().optional(),
  result: z.unknown().optional(),
  error: z.looseObject({ message: z.string() }).optional(),
});

/** A browser refused a call, or has ended. What it said is its own, and may be anything. */
export class BrowserError extends Error {
  override readonly name = "BrowserError";
}

/** The protocol in which a browser is told what to do. What it answers is as trusted as the pages that it shows. */
export interface DevTools {
  /** Throws `BrowserError`, also when the browser ends before it answers. */
  call<T>(reply: z.ZodType<T>, method: string, params?: object): Promise<T>;
  /** Calls from now on are about this page. */
  use(sessionId: string): void;
  /** Calls back for each event of that name whose parameters fit. */
  on<T>(event: string, params: z.ZodType<T>, listener: (params: T) => void): void;
}

/** Speaks with `browser` until its output ends. */
export function openDevTools(browser: Pick<TalkingProgram, "output" | "send">): DevTools {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const listeners = new Map<string, ((params: unknown) => void)[]>();
  let session: string | null = null;
  let calls = 0;
  let ended: BrowserError | null = null;

  const hear = (text: string): void => {
    const { id, method, params, result, error } = message.parse(JSON.parse(text));
    if (method !== undefined) for (const listener of listeners.get(method) ?? []) listener(params);
    const call = id === undefined ? undefined : waiting.get(id);
    if (id === undefined || call === undefined) return;
    waiting.delete(id);
    if (error === undefined) call.resolve(result);
    else call.reject(new BrowserError(`the browser refused a call: ${error.message}`));
  };
  const listen = async (): Promise<void> => {
    const messages = createMessages(messageLengthMax);
    let said = 0;
    for await (const chunk of browser.output) {
      said += chunk.byteLength;
      const whole = said > saidMax ? null : messages.push(chunk);
      if (whole === null) throw new BrowserError("the browser said more than it may");
      for (const text of whole) hear(text);
    }
    throw new BrowserError("the browser has ended");
  };
  listen().catch((cause: unknown) => {
    ended = cause instanceof BrowserError ? cause : new BrowserError("the browser made no sense", { cause });
    for (const call of waiting.values()) call.reject(ended);
    waiting.clear();
  });

  return {
    async call(reply, method, params = {}) {
      if (ended !== null) throw ended;
      const id = ++calls;
      const answer = Promise.withResolvers<unknown>();
      waiting.set(id, answer);
      browser.send(`${JSON.stringify({ id, method, params, ...(session !== null && { sessionId: session }) })}\0`);
      const result = reply.safeParse(await answer.promise);
      if (!result.success) throw new BrowserError(`the browser's answer to ${method} makes no sense`);
      return result.data;
    },
    use(sessionId) {
      session = sessionId;
    },
    on(event, params, listener) {
      const each = (said: unknown): void => {
        const result = params.safeParse(said);
        if (result.success) listener(result.data);
      };
      listeners.set(event, [...(listeners.get(event) ?? []), each]);
    },
  };
}
