import type { Clock } from "@svc/runtime/clock";
import type { Log } from "./log.ts";
import type { ModuleLink, OpenModule } from "./module-link.ts";
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
interface Told {
  link: ModuleLink;
  generation: number;
}

/**
 * @param open connects to the module, if there is one
 * @param tree read when it is told, and already changed then
 */
export function createTableFeed(
  clock: Clock,
  open: OpenModule,
  tree: Pick<NameTree, "hosts" | "target">,
  log: Log,
): TableFeed {
  let told: Told | null = null;

  const close = (): void => {
    told?.link.close();
    told = null;
  };

  async function send(to: Told, complete: boolean, hosts: Iterable<string>): Promise<void> {
    const targets = Object.fromEntries([...hosts].map((host) => [host, tree.target(host)]));
    const generation = to.generation + 1;
    to.link.say(JSON.stringify({ generation, complete, targets }));
    const said: unknown = JSON.parse(await within(clock, answerMs, to.link.answer()));
    if (!isAnswer(said)) throw new Error("caddy's module does not answer as it should");
    if (said.refused !== undefined) throw new Error(`caddy's module refused the table: ${said.refused}`);
    to.generation = said.generation;
  }

  return {
    async tell(hosts) {
      if (told !== null && !told.link.isClosed()) {
        try {
          return await send(told, false, hosts);
        } catch (err) {
          // It may be another Caddy by now.
          log.info({ err }, "caddy's module is told the whole table");
        }
      }
      close();
      const stop = new AbortController();
      const link = await within(clock, connectMs, open(stop.signal)).catch((cause: unknown) => {
        stop.abort();
        throw cause;
      });
      if (link === null) return;
      told = { link, generation: 0 };
      try {
        await send(told, true, tree.hosts());
      } catch (cause) {
        close();
        throw cause;
      }
    },
    [Symbol.dispose]: close,
  };
}

/** What `wait` resolves with. @throws Error when that takes longer */
function within<T>(clock: Clock, ms: number, wait: Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const timer = clock.after(ms, () => reject(new Error("caddy's module does not answer")));
  wait.then(resolve, reject);
  return promise.finally(() => timer[Symbol.dispose]());
}

const isAnswer = (said: unknown): said is { generation: number; refused?: string } =>
  typeof said === "object" && said !== null && Number.isSafeInteger(Reflect.get(said, "generation"));
