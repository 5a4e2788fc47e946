import { once } from "node:events";
import type { Duplex } from "node:stream";
import { pipeFd, startChildProcess, transferFd } from "./child-process.ts";
import { createFrameReader, endFrame, frameBytesMax, frameOf } from "./frames.ts";
import { type ChildMessage, childMessage, type TaskMessage } from "./requests.ts";

/** The server sent more than an answer may be. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge";
}

/** The child ended, or said what no child says, before it had answered. */
export class ChildLost extends Error {
  override readonly name = "ChildLost";
  /** Not a byte of it had gone to the server: another child may do the same. */
  isUnheard: boolean;

  constructor(message: string, { isUnheard = false, ...options }: ErrorOptions & { isUnheard?: boolean } = {}) {
    super(message, options);
    this.isUnheard = isUnheard;
  }
}

export type ChildAnswer = Extract<ChildMessage, { says: "given" | "refused" }>;

export interface ChildUse {
  task: TaskMessage;
  /** To the server; ended with the use. */
  line: Duplex;
  /** Of what the server sends. */
  bytesMax: number;
  /** Hears the server's number of the session. */
  onConnected(sessionId: number): void;
}

/** A child process, which does one request at a time. */
export interface Child {
  /** Throws `AnswerTooLarge` and `ChildLost`; the child is of no use afterwards. */
  use(use: ChildUse): Promise<ChildAnswer>;
  /** Resolves once it may be used; false when it never will be. */
  idle(): Promise<boolean>;
  /** Whether it may be used at once. */
  readonly isIdle: boolean;
  /** How often it was used. */
  readonly uses: number;
  readonly isAlive: boolean;
  /** The bytes beside a request, in frames; null: it was not started for any. */
  readonly transfer: Duplex | null;
  kill(): Promise<void>;
}

interface Running extends ChildUse {
  received: number;
  answered: PromiseWithResolvers<ChildAnswer>;
  /** The server was sent something. */
  isHeard: boolean;
  /** The child has no more bytes for the server. */
  isChildDone: boolean;
  /** The child was told that the server has no more. */
  isEndSent: boolean;
}

/** `transfers`: for one request that has bytes beside it, and for no other. */
export function startChild({ transfers = false }: { transfers?: boolean } = {}): Child {
  const child = startChildProcess({ transfers });
  const pipe = child.stdio[pipeFd] as Duplex;
  const transfer = transfers ? ((child.stdio as unknown[])[transferFd] as Duplex) : null;
  // Who reads or writes it hears of it, too.
  transfer?.on("error", () => {});
  const exited = once(child, "exit").catch(() => {});
  let running: Running | null = null;
  let idle = Promise.withResolvers<boolean>();
  let isAlive = true;
  let isIdle = false;
  let uses = 0;

  /** In any doubt about it: nothing that it says counts any more. */
  function lose(error: Error): void {
    isAlive = false;
    isIdle = false;
    child.kill("SIGKILL");
    pipe.destroy();
    transfer?.destroy();
    idle.resolve(false);
    if (error instanceof ChildLost) error.isUnheard = running?.isHeard === false;
    running?.line.destroy();
    running?.answered.reject(error);
  }

  function sendEnd(use: Running): void {
    if (use.isEndSent || !isAlive) return;
    use.isEndSent = true;
    pipe.write(endFrame);
  }

  const read = createFrameReader({
    bytes(chunk) {
      if (running === null || running.line.destroyed) return;
      running.isHeard = true;
      if (!running.line.write(chunk)) pipe.pause();
    },
    end() {
      if (running === null) return;
      running.isChildDone = true;
      sendEnd(running);
      running.line.destroy();
    },
  });
  pipe.on("data", (chunk: Buffer) => {
    try {
      read(chunk);
    } catch (cause) {
      lose(new ChildLost("a child sent what is no frame", { cause }));
    }
  });
  pipe.on("error", (cause) => lose(new ChildLost("the pipe to a child broke", { cause })));
  child.on("error", (cause) => lose(new ChildLost("a child could not be started", { cause })));
  child.on("exit", (code, signal) => lose(new ChildLost(`a child ended (${signal ?? code})`)));

  child.on("message", (value) => {
    const { data: message } = childMessage.safeParse(value);
    switch (message?.says) {
      case "idle":
        // Also before its first use.
        if (running !== null && !running.isChildDone) return lose(new ChildLost("a child was done too early"));
        running = null;
        isIdle = isAlive;
        return idle.resolve(isAlive);
      case "connected":
        return running?.onConnected(message.sessionId);
      case "given":
      case "refused":
        return running?.answered.resolve(message);
      default:
        return lose(new ChildLost("a child said what none says"));
    }
  });

  function splice(use: Running): void {
    const { line, bytesMax } = use;
    line.on("data", (chunk: Buffer) => {
      use.received += chunk.length;
      if (use.received > bytesMax) return lose(new AnswerTooLarge("too many bytes"));
      let hasRoom = true;
      for (let at = 0; at < chunk.length; at += frameBytesMax) {
        for (const part of frameOf(chunk.subarray(at, at + frameBytesMax))) hasRoom = pipe.write(part);
      }
      if (hasRoom) return;
      line.pause();
      pipe.once("drain", () => line.resume());
    });
    for (const event of ["drain", "close"]) line.on(event, () => pipe.resume());
    for (const event of ["end", "error", "close"]) line.on(event, () => sendEnd(use));
  }

  return {
    async use(asked) {
      uses += 1;
      isIdle = false;
      idle = Promise.withResolvers();
      const use: Running = {
        ...asked,
        received: 0,
        answered: Promise.withResolvers(),
        isHeard: false,
        isChildDone: false,
        isEndSent: false,
      };
      running = use;
      if (!isAlive) lose(new ChildLost("the child had ended"));
      else {
        splice(use);
        child.send(asked.task, (error) => {
          if (error !== null) lose(new ChildLost("a child took no task", { cause: error }));
        });
      }
      return await use.answered.promise;
    },
    transfer,
    idle: () => idle.promise,
    get isIdle() {
      return isIdle;
    },
    get uses() {
      return uses;
    },
    get isAlive() {
      return isAlive;
    },
    async kill() {
      lose(new ChildLost("a child was ended"));
      await exited;
    },
  };
}
