import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import type { Endpoints } from "@svc/uplink";
import type { Scope } from "../kernel/kernel.ts";
import { createAnswer, enter } from "../kernel/ports.ts";
import type { World } from "../world/world.ts";
import type { Message, Stream, StreamEvents } from "./connection.ts";

/** The name of a replica as an address, and back. */
export const urlOf = (replica: string): string => `https://${replica}.test:7443`;
export const replicaAt = (url: string): string => new URL(url).hostname.replace(/\.test$/, "");

/**
 * A daemon's way to control in the virtual world, for one life of it: what `createTransport` is in the real one. Streams go
 * over connections of the virtual network; calls are answered by whichever replica is there, as far as they are known here.
 */
export function virtualTransport(
  scope: Scope,
  world: World,
  endpoints: Endpoints,
  on: {
    /** Opens a stream to a replica; null when nobody is there. */
    open(replica: string, events: StreamEvents): Stream | null;
    /** What is sent, as it goes on. */
    sent(message: Message): Message;
    received(message: Message): void;
  },
): Transport {
  const { process } = scope;
  const refused = (): ConnectError => new ConnectError("nobody is there", Code.Unavailable);

  const call = <T>(name: string, signal: AbortSignal | undefined, reply: () => T): Promise<T> => {
    const answer = createAnswer<T>(scope);
    const stop = (): void => answer.reject(new ConnectError("canceled", Code.Canceled), 0, "call ends");
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
    const url = endpoints.current();
    const replica = world.replicas.find((each) => each.name === replicaAt(url));
    const openMs = Math.max(
      world.network.openAtMs(process.id, replica?.name ?? ""),
      world.network.openAtMs(replica?.name ?? "", process.id),
    );
    const delayMs = Math.max(0, openMs - world.kernel.nowMs) + process.random.between(1, 20);
    world.kernel.at(
      delayMs,
      name,
      () => {
        if (replica?.process.alive === true && replica.isReady) return answer.resolve(reply(), 0, name);
        endpoints.moveOn(url);
        answer.reject(refused(), 0, name);
      },
      process,
    );
    return answer.promise;
  };

  return {
    async unary(method, signal, _timeoutMs, _header, input) {
      const reply = replies[method.localName];
      if (reply === undefined) throw new ConnectError(`${method.name} is not known here`, Code.Unimplemented);
      const message = await call(method.name, signal, () =>
        create(method.output, reply(create(method.input, input) as never) as MessageInitShape<typeof method.output>),
      );
      return { stream: false, service: method.parent, method, header: new Headers(), trailer: new Headers(), message };
    },
    async stream(method, signal, _timeoutMs, _header, input) {
      const inbox = createInbox<MessageShape<typeof method.output>>();
      const hear = (act: () => void): void => void (!scope.isOver && enter(process, act));
      // Whoever gave up before it was opened: no event of that comes any more.
      if (signal?.aborted) throw new ConnectError("canceled", Code.Canceled);
      const stream: Stream | null = on.open(replicaAt(endpoints.current()), {
        message: (message) =>
          hear(() => {
            on.received(message);
            inbox.take(create(method.output, { message } as unknown as MessageInitShape<typeof method.output>));
          }),
        closed: () => hear(inbox.end),
      });
      if (stream === null) {
        const answer = createAnswer<never>(scope);
        answer.reject(refused(), 5, "refused");
        return answer.promise;
      }
      signal?.addEventListener(
        "abort",
        () => {
          if (!scope.isOver) stream.close();
          inbox.fail(signal.reason);
        },
        { once: true },
      );
      void send(method.input, input, (message) => void (!scope.isOver && stream.send(on.sent(message))));
      const [header, trailer] = [new Headers(), new Headers()];
      return { stream: true, service: method.parent, method, header, trailer, message: inbox.messages() };
    },
  };
}

async function send<I extends DescMessage>(
  schema: I,
  input: AsyncIterable<MessageInitShape<I>>,
  pass: (message: Message) => void,
): Promise<void> {
  for await (const each of input) pass((create(schema, each) as unknown as { message: Message }).message);
}

/** What control answers to calls, as far as this world has them. */
const replies: Partial<Record<string, (request: never) => unknown>> = {
  issueRegistryToken: () => ({ token: "token", expiresInSeconds: 300 }),
  appendLog: ({ offset, data }: { offset: bigint; data: Uint8Array }) => ({ length: offset + BigInt(data.length) }),
  listGoneProjects: () => ({ gone: [] }),
  reportDatabases: () => ({}),
};

/** What has come and was not read. */
function createInbox<T>() {
  const queue: T[] = [];
  let isOver = false;
  let failure: unknown = null;
  let wake: () => void = () => {};
  return {
    take(message: T): void {
      queue.push(message);
      wake();
    },
    end(): void {
      isOver = true;
      wake();
    },
    fail(reason: unknown): void {
      failure = reason;
      isOver = true;
      wake();
    },
    async *messages(): AsyncGenerator<T> {
      for (;;) {
        if (failure !== null) throw failure;
        const next = queue.shift();
        if (next !== undefined) yield next;
        else if (isOver) return;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    },
  };
}
