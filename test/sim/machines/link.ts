import { backOffMs } from "@svc/runtime/retry";
import { linkBackOff } from "@svc/uplink";
import { pause, type Scope, type Wait, type Work, wait } from "../kernel/kernel.ts";

/** What both kinds of session are made of: a case and its value. */
export interface Message {
  case: string;
  value: unknown;
}

/** A stream as a daemon has it. */
export interface Stream {
  send(message: Message): void;
  close(): void;
}

export interface SessionOptions {
  scope: Scope;
  /** Opens a stream to the control replica of that turn; null when nobody is there. */
  connect(turn: number, on: { message(message: Message): void; closed(): void }): Stream | null;
  hello(): Message;
  renewal(): Message;
  onMessage(message: Message, send: (message: Message) => void): void;
  onClose(): void;
  onFenced(): Work;
}

const welcomeTimeoutMs = 15_000;
const settledAfterMs = 5_000;

interface Ending {
  reason: string;
  afterMs?: number;
  isFenced?: boolean;
}

/** Keeps one session to control open: mirrors `uplink/src/session.ts`. */
export function* runSession(options: SessionOptions): Work {
  const { process } = options.scope;
  let turn = process.random.int(0, 7);
  for (let failures = 1; ; failures += 1) {
    const startedAtMs = process.monoMs();
    const ending = yield* wait(oneSession(options, turn));
    if (ending.isFenced) return yield* options.onFenced();
    if (process.monoMs() - startedAtMs >= settledAfterMs) failures = 1;
    turn += 1;
    process.kernel.note(() => `${process.id}: session ended: ${ending.reason}`);
    yield* wait(pause((ending.afterMs ?? 0) + Math.floor(backOffMs(failures, linkBackOff, process.random.next()))));
  }
}

const oneSession =
  (options: SessionOptions, turn: number): Wait<Ending> =>
  (done, _fail, parent) => {
    const scope = parent.child();
    const { process } = scope;
    let isOver = false;
    let unansweredSinceMs: number | null = null;
    const end = (ending: Ending) => {
      if (isOver) return;
      isOver = true;
      scope.end();
      stream?.close();
      options.onClose();
      done(ending);
    };
    const send = (message: Message) => {
      if (!isOver) stream?.send(message);
    };
    const renew = (everyMs: number, leaseTtlMs: number) => {
      const nowMs = process.monoMs();
      if (unansweredSinceMs !== null && nowMs - unansweredSinceMs >= leaseTtlMs) {
        return end({ reason: "renewals stay unanswered" });
      }
      unansweredSinceMs ??= nowMs;
      send(options.renewal());
      scope.after(everyMs, "renew", () => renew(everyMs, leaseTtlMs));
    };
    const receive = (message: Message) => {
      if (isOver) return;
      switch (message.case) {
        case "welcome": {
          welcome.cancel();
          const { renewEveryMs, leaseTtlMs } = message.value as { renewEveryMs: number; leaseTtlMs: number };
          scope.after(renewEveryMs, "renew", () => renew(renewEveryMs, leaseTtlMs));
          break;
        }
        case "renewAck":
          unansweredSinceMs = null;
          return;
        case "fenced":
          return end({ reason: "fenced", isFenced: true });
        case "superseded":
          return end({ reason: "superseded" });
        case "goAway":
          return end({
            reason: "sent away",
            afterMs: (message.value as { reconnectAfterMs: number }).reconnectAfterMs,
          });
      }
      try {
        options.onMessage(message, send);
      } catch (error) {
        // As in the real one, a failure to take a message ends the session.
        end({ reason: String(error) });
      }
    };
    const welcome = scope.after(welcomeTimeoutMs, "welcome timeout", () => end({ reason: "no welcome in time" }));
    const stream = options.connect(turn, {
      message: receive,
      closed: () => end({ reason: "control ended the stream" }),
    });
    if (stream === null) {
      scope.after(5, "refused", () => end({ reason: "nobody is there" }));
      return;
    }
    stream.send(options.hello());
  };
