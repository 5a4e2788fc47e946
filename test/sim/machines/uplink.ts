import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { storeCopySample } from "@svc/control/tenants/databases/testing/memory/copy-rows";
import type { ReportDatabasesRequest } from "@svc/proto/node";
import type { Endpoints } from "@svc/uplink";
import type { Replica } from "../control/replica.ts";
import { transactOf } from "../control/transact.ts";
import type { Process, Scope } from "../kernel/kernel.ts";
import { createAnswer, enter } from "../kernel/ports.ts";
import type { World } from "../world/world.ts";
import type { Message, Stream, StreamEvents } from "./connection.ts";

const callTimeoutMs = 10_000;

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

  const call = <T>(
    name: string,
    { signal, timeoutMs }: { signal: AbortSignal | undefined; timeoutMs: number | undefined },
    reply: (replica: Replica) => T | Promise<T>,
  ): Promise<T> => {
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
        if (replica?.process.alive === true && replica.isReady) {
          const said = reply(replica);
          if (!(said instanceof Promise)) return answer.resolve(said, 0, name);
          // It may die over it, and then it never says anything.
          scope.after(timeoutMs ?? callTimeoutMs, "call ends", () =>
            answer.reject(new ConnectError("no answer in time", Code.DeadlineExceeded), 0, name),
          );
          return void said.then(
            (value) => answer.resolve(value, 1, name),
            (error: unknown) => answer.reject(ConnectError.from(error), 1, name),
          );
        }
        endpoints.moveOn(url);
        answer.reject(refused(), 0, name);
      },
      process,
    );
    return answer.promise;
  };

  return {
    async unary(method, signal, timeoutMs, _header, input) {
      const reply = replies[method.localName];
      if (reply === undefined) throw new ConnectError(`${method.name} is not known here`, Code.Unimplemented);
      const outputOf = (said: object) => create(method.output, said as MessageInitShape<typeof method.output>);
      const message = await call(method.name, { signal, timeoutMs }, (replica) => {
        const said = reply(create(method.input, input) as never, replica, process.id);
        return said instanceof Promise ? said.then(outputOf) : outputOf(said);
      });
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
const replies: Partial<
  Record<string, (request: never, replica: Replica, machineId: string) => object | Promise<object>>
> = {
  issueRegistryToken: () => ({ token: "token", expiresInSeconds: 300 }),
  appendLog: ({ offset, data }: { offset: bigint; data: Uint8Array }) => ({ length: offset + BigInt(data.length) }),
  listGoneProjects: () => ({ gone: [] }),
  reportDatabases({ copies }: ReportDatabasesRequest, replica, machineId) {
    if (copies.length === 0) return {};
    const nodeId = replica.world.machineOf(machineId)?.nodeId ?? "";
    return asked(replica.process, () =>
      transactOf(replica)((tx) => {
        const node = tx.tables.nodes.get(nodeId);
        if (node?.lifecycle === "active" && node.quarantinedAt === null)
          for (const sample of copies) storeCopySample(tx, nodeId, sample);
        return {};
      }),
    );
  },
};

/** What code of a process comes to. */
function asked<T>(process: Process, work: () => Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  enter(process, () => void work().then(resolve, reject));
  return promise;
}

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
