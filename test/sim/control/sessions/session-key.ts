import type { Entry } from "@svc/control/stores/etcd/entry";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import type { Guard } from "@svc/control/stores/etcd/txn";
import { backOffMs } from "@svc/runtime/retry";
import { pause, type Scope, type Work, wait } from "../../kernel/kernel.ts";
import { createQueue } from "../../kernel/queue.ts";
import type { Op, TxnResult, Writer } from "../../stores/etcd.ts";
import type { EtcdClient } from "../../stores/etcd-client.ts";

/** Another stream speaks for the daemon now. */
export class SessionLost extends Error {
  override readonly name = "SessionLost";
}

const claimAttempts = 5;
const releaseBackOff = { firstMs: 200, maxMs: 5_000 };

/** The right to write for one daemon: mirrors `control/src/fleet/sessions/session-key.ts`. */
export class SessionKey {
  private revision: bigint;
  private readonly queue: ReturnType<typeof createQueue>;

  private readonly client: EtcdClient;
  readonly key: string;
  readonly epoch: bigint;
  private readonly daemonId: string;
  private readonly serverId: string;
  /** Of the replica: what is under way goes on after the stream. */
  readonly scope: Scope;

  constructor(client: EtcdClient, key: string, epoch: bigint, daemonId: string, serverId: string, scope: Scope) {
    this.client = client;
    this.key = key;
    this.epoch = epoch;
    this.daemonId = daemonId;
    this.serverId = serverId;
    this.scope = scope;
    this.revision = epoch;
    this.queue = createQueue(scope);
  }

  private get writer(): Writer {
    return { by: "session", serverId: this.serverId, daemonId: this.daemonId, epoch: this.epoch };
  }

  private *guarded(ops: readonly Op[], guards: readonly Guard[]): Work<TxnResult> {
    const { key, revision } = this;
    const own: Guard[] = this.client.cores.shell.guardsSessions
      ? [{ key, compare: "modRevision", value: revision }]
      : [];
    const result = yield* wait(
      this.client.txn({ guards: [...own, ...guards], ops, orElse: [{ get: { key } }], writer: this.writer }),
    );
    if (!result.succeeded && this.client.cores.shell.guardsSessions && result.reads[0]?.modRevision !== revision) {
      throw new SessionLost(`${key} was taken over`);
    }
    return result;
  }

  *write(ops: readonly Op[], guards: readonly Guard[] = []): Work<TxnResult> {
    return yield* wait(this.queue(() => this.guarded(ops, guards)));
  }

  *update(value: string): Work {
    const { key } = this;
    const own = this;
    yield* wait(
      this.queue(function* () {
        try {
          own.revision = (yield* own.guarded([{ put: { key, value } }], [])).revision;
        } catch (error) {
          if (!(error instanceof UnknownOutcome)) throw error;
          const after: Entry | null = yield* own.client.get(key);
          if (after?.value === value) own.revision = after.modRevision;
          else if (after?.modRevision !== own.revision) throw new SessionLost(`${key} was taken over`);
          else throw error;
        }
      }),
    );
  }

  /** Deletes the key if it is still this session's; tries until it is certain. */
  *release(): Work {
    const { key } = this;
    const own = this;
    yield* wait(
      this.queue(() =>
        untilCertain(own.client, function* () {
          yield* own.guarded([{ delete: { key } }], []);
        }),
      ),
    );
  }
}

function* untilCertain(client: EtcdClient, step: () => Work): Work {
  for (let failures = 1; ; failures += 1) {
    try {
      return yield* step();
    } catch (error) {
      if (error instanceof SessionLost) return;
      if (!(error instanceof EtcdError || error instanceof UnknownOutcome)) throw error;
      yield* wait(pause(backOffMs(failures, releaseBackOff, client.process.random.next())));
    }
  }
}

/** Takes the session key for a new stream; the newest wins. @throws SessionLost, and what `valueAfter` throws */
export function* takeSessionKey(
  client: EtcdClient,
  options: {
    key: string;
    valueAfter: (before: string | null) => string;
    also?: readonly Op[];
    daemonId: string;
    serverId: string;
    scope: Scope;
  },
): Work<SessionKey> {
  const { key, valueAfter, also = [], daemonId, serverId, scope } = options;
  const held = (revision: bigint) => new SessionKey(client, key, revision, daemonId, serverId, scope);
  for (let attempt = 1; attempt <= claimAttempts; attempt += 1) {
    const before = yield* client.get(key);
    const value = valueAfter(before?.value ?? null);
    const guard: Guard =
      before === null ? { key, compare: "absent" } : { key, compare: "modRevision", value: before.modRevision };
    try {
      const { succeeded, revision } = yield* wait(
        client.txn({ guards: [guard], ops: [{ put: { key, value } }, ...also], writer: { by: "server", serverId } }),
      );
      if (succeeded) return held(revision);
    } catch (error) {
      if (!(error instanceof UnknownOutcome)) throw error;
      let after: Entry | null;
      try {
        after = yield* client.get(key);
      } catch (failure) {
        scope.spawn(forget(client, key, value, serverId));
        throw failure;
      }
      if (after?.value === value) return held(after.modRevision);
    }
  }
  throw new SessionLost(`other streams keep taking ${key}`);
}

/** Deletes what a write of unknown outcome may have left behind. */
function* forget(client: EtcdClient, key: string, value: string, serverId: string): Work {
  yield* untilCertain(client, function* () {
    const entry = yield* client.get(key);
    if (entry?.value !== value) return;
    yield* wait(
      client.txn({
        guards: [{ key, compare: "modRevision", value: entry.modRevision }],
        ops: [{ delete: { key } }],
        writer: { by: "server", serverId },
      }),
    );
  });
}
