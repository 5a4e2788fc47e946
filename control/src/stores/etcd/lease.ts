import type { ClientDuplexStream } from "@grpc/grpc-js";
import type { LeaseGrantResponse, LeaseKeepAliveResponse, LeaseRevokeResponse } from "@svc/proto/etcd";
import type { Timer } from "@svc/runtime/clock";
import { unary } from "../grpc/adapter.ts";
import type { Etcd } from "./client.ts";
import { type Attempt, type Connection, grpcCodeOf, type Member, requireLeader } from "./connection.ts";
import { EtcdError, failureOf, LeaseLost } from "./errors.ts";
import { answered, asked, checkInMs, disconnected, granted, leaseAction, type Validity } from "./validity.ts";

/** A lease that is kept alive until it is revoked or lost. */
export interface Lease extends AsyncDisposable {
  readonly id: bigint;
  /** Aborts with a LeaseLost when the lease ends: before the server ends it, and without needing to hear from it. */
  readonly signal: AbortSignal;
  /** For how long it certainly holds, by the clock and not by a timer: right also after the process stood still. */
  remainingMs(): number;
  /** Ends it: its keys go at once when the server can be reached, else with its time to live. Never rejects. */
  revoke(): Promise<void>;
}

type KeepAlive = ClientDuplexStream<{ ID: bigint }, LeaseKeepAliveResponse>;

/** Keeps `id` alive and says by `onLost`, once, when that failed. */
function keepAlive(connection: Connection, id: bigint, start: Validity, onLost: (why: string) => void) {
  const { clock } = connection;
  let validity = start;
  let stream: { member: Member; call: KeepAlive } | null = null;
  let done = false;
  let checking: Timer | undefined;

  const drop = (memberFault: boolean) => {
    const dropped = stream;
    stream = null;
    if (dropped === null) return;
    dropped.call.cancel();
    if (memberFault) connection.moveOn(dropped.member);
  };
  const stop = () => {
    if (done) return;
    done = true;
    checking?.[Symbol.dispose]();
    drop(false);
  };
  const lose = (why: string) => {
    if (done) return;
    stop();
    onLost(why);
  };

  const open = () => {
    const member = connection.member();
    const call: KeepAlive = member.lease.leaseKeepAlive(requireLeader);
    const current = () => stream?.call === call;
    call.on("data", (reply) => {
      if (!current() || reply.ID !== id) return;
      const next = answered(validity, reply.TTL, clock.bootMs());
      if (next === null) lose(reply.TTL > 0n ? "answered too late" : "the server does not know it");
      else validity = next;
    });
    const broke = (memberFault: boolean) => {
      if (!current()) return;
      drop(memberFault);
      validity = disconnected(validity, clock.bootMs());
    };
    call.on("error", (error) => broke(failureOf(grpcCodeOf(error)).memberFault));
    call.on("end", () => broke(true));
    stream = { member, call };
    return stream;
  };
  const ask = () => {
    const { call } = stream ?? open();
    // The moment before the send: the server receives it later, whatever happens in between.
    validity = asked(validity, clock.bootMs());
    call.write({ ID: id });
  };
  const act = () => {
    switch (leaseAction(validity, clock.bootMs())) {
      case "lost":
        return lose("not renewed in time");
      case "reopen":
        drop(true);
        return ask();
      case "ask":
        return ask();
      case "wait":
        return;
    }
  };
  const check = () => {
    act();
    if (!done) checkLater();
  };
  const checkLater = () => {
    checking = clock.after(checkInMs(validity, clock.bootMs()), check);
  };
  checkLater();
  return { stop, remainingMs: () => (done ? 0 : Math.max(0, validity.untilMs - clock.bootMs())) };
}

export interface LeaseOptions {
  readonly ttlMs: number;
  /** Gives up asking for it; a lease once granted is ended with `revoke`. */
  readonly signal?: AbortSignal;
}

/**
 * Takes a lease of `ttlMs` (etcd counts whole seconds, at least about two: the shorter of both times counts
 * here) and keeps it alive.
 *
 * @throws EtcdError when none could be had. A grant whose answer was lost is asked for again: the first one
 * holds nothing and expires by itself.
 */
export async function grantLease(etcd: Etcd, { ttlMs, signal }: LeaseOptions): Promise<Lease> {
  const { connection } = etcd;
  const { clock } = connection;
  let sentAtMs = 0;
  const ask: Attempt<LeaseGrantResponse> = (member, deadline, stop) => {
    sentAtMs = clock.bootMs();
    const request = { TTL: BigInt(Math.ceil(ttlMs / 1000)) };
    return unary((done) => member.lease.leaseGrant(request, requireLeader, { deadline }, done), stop);
  };
  const reply = await connection.read("lease grant", ask, signal);
  const id = reply.ID;
  const start = granted(sentAtMs, Math.min(ttlMs, Number(reply.TTL) * 1000));
  if (leaseAction(start, clock.bootMs()) === "lost") throw new EtcdError("TIMEOUT", "the lease was granted too late");

  const ending = new AbortController();
  const end = (why: string) => {
    if (ending.signal.aborted) return;
    kept.stop();
    connection.closed.removeEventListener("abort", onClosed);
    ending.abort(new LeaseLost(`lease ${id}: ${why}`));
  };
  const kept = keepAlive(connection, id, start, end);
  const onClosed = () => end("the etcd client was closed");
  connection.closed.addEventListener("abort", onClosed, { once: true });
  if (connection.closed.aborted) onClosed();

  const revoke = async () => {
    const held = !ending.signal.aborted;
    end("revoked");
    if (!held || connection.closed.aborted) return;
    const ask: Attempt<LeaseRevokeResponse> = (member, deadline, stop) =>
      unary((done) => member.lease.leaseRevoke({ ID: id }, requireLeader, { deadline }, done), stop);
    try {
      // Bounded as a whole: this is often the last act of a process, and the lease ends in any case.
      await connection.read("lease revoke", ask, clock.abortAfter(connection.timings.callTimeoutMs));
    } catch (error) {
      if (error instanceof EtcdError && error.code === "LEASE_NOT_FOUND") return;
      connection.log.warn({ err: error }, "an etcd lease could not be revoked; it expires by itself");
    }
  };
  return {
    id,
    signal: ending.signal,
    remainingMs: kept.remainingMs,
    revoke,
    [Symbol.asyncDispose]: revoke,
  };
}
