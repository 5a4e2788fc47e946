import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Clock } from "@svc/runtime/clock";
import { isFileError } from "@svc/runtime/durable-file";
import type { Log } from "./log.ts";
import type { NameTree } from "./tree.ts";

/** Tells Caddy's module what hosts serve, where Caddy has one. */
export interface TableFeed extends Disposable {
  /**
   * Settles when Caddy serves what the tree says of these hosts. A Caddy that does not run, or has no module, reads the tree when it
   * needs to. @throws Error when it runs and does not take it: then all is told again the next time.
   */
  tell(hosts: Iterable<string>): Promise<void>;
}

const connectMs = 2000;
/** A whole table of many hosts included. */
const answerMs = 15_000;

/** One connection, and which generation of it Caddy has in force. */
interface Link {
  socket: Socket;
  generation: number;
  /** The next line that Caddy says. */
  answer(): Promise<string>;
}

/**
 * @param socketPath where the module listens, if there is one
 * @param tree read when it is told, and already changed then
 */
export function createTableFeed(
  clock: Clock,
  socketPath: string,
  tree: Pick<NameTree, "hosts" | "target">,
  log: Log,
): TableFeed {
  let link: Link | null = null;

  const close = (): void => {
    link?.socket.destroy();
    link = null;
  };

  async function send(to: Link, complete: boolean, hosts: Iterable<string>): Promise<void> {
    const targets = Object.fromEntries([...hosts].map((host) => [host, tree.target(host)]));
    const generation = to.generation + 1;
    to.socket.write(`${JSON.stringify({ generation, complete, targets })}\n`);
    const said: unknown = JSON.parse(await to.answer());
    if (!isAnswer(said)) throw new Error("caddy's module does not answer as it should");
    if (said.refused !== undefined) throw new Error(`caddy's module refused the table: ${said.refused}`);
    to.generation = said.generation;
  }

  return {
    async tell(hosts) {
      if (link !== null && !link.socket.destroyed) {
        try {
          return await send(link, false, hosts);
        } catch (err) {
          // It may be another Caddy by now.
          log.info({ err }, "caddy's module is told the whole table");
        }
      }
      close();
      link = await open(clock, socketPath);
      if (link === null) return;
      try {
        await send(link, true, tree.hosts());
      } catch (cause) {
        close();
        throw cause;
      }
    },
    [Symbol.dispose]: close,
  };
}

/** Null when nobody listens there. */
async function open(clock: Clock, path: string): Promise<Link | null> {
  const socket = connect(path);
  try {
    await settled(clock, connectMs, socket, (resolve) => socket.once("connect", resolve));
  } catch (cause) {
    socket.destroy();
    if (isFileError(cause, "ENOENT") || isFileError(cause, "ECONNREFUSED")) return null;
    throw cause;
  }
  const lines = createInterface({ input: socket });
  // Whoever waits for an answer hears of it; nobody else has to. Lines tell of it once more.
  for (const each of [socket, lines]) each.on("error", () => {});
  return {
    socket,
    generation: 0,
    answer: () =>
      settled(clock, answerMs, socket, (resolve) => {
        lines.once("line", resolve);
      }),
  };
}

/** What `wait` resolves with. @throws Error when the socket fails or closes before, or it takes longer. */
function settled<T>(clock: Clock, withinMs: number, socket: Socket, wait: (resolve: (value: T) => void) => void) {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onClose = () => reject(new Error("caddy's module closed the connection"));
  const timer = clock.after(withinMs, () => reject(new Error("caddy's module does not answer")));
  socket.once("error", reject).once("close", onClose);
  wait(resolve);
  return promise.finally(() => {
    timer[Symbol.dispose]();
    socket.off("error", reject).off("close", onClose);
  });
}

const isAnswer = (said: unknown): said is { generation: number; refused?: string } =>
  typeof said === "object" && said !== null && Number.isSafeInteger(Reflect.get(said, "generation"));
